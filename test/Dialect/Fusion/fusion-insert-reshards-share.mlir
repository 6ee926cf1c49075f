// RUN: tandem-opt %s -split-input-file -fusion-propagate-axes -fusion-insert-reshards -fusion-verify | FileCheck %s

#tp = #fusion.mesh<"tp", ["x" = 4]>
#r = #fusion.axes<#tp, [-, -]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#cols = #fusion.axes<#tp, [-, didx("x")]>

// One partial value, used by three elementwise ops: one all-reduce.
// CHECK-LABEL: @silu
// CHECK:         %[[P:.*]] = fusion.matmul
// CHECK-NEXT:    %[[R:.*]] = fusion.reshard %[[P]] : {{.*}}, partial = ["x"]>> -> tensor<16x16xf32, #fusion.axes<#tp, [-, -]>>
// CHECK-NEXT:    %[[E:.*]] = math.exp %[[R]]
// CHECK-NEXT:    %[[S:.*]] = arith.mulf %[[E]], %[[R]]
// CHECK-NEXT:    arith.mulf %[[S]], %[[R]]
// CHECK-NOT:     fusion.reshard
// CHECK:         return
func.func @silu(%a: tensor<16x16xf32, #cols>, %w: tensor<16x16xf32, #rows>) -> tensor<16x16xf32, #r> {
  %p = fusion.matmul %a, %w : tensor<16x16xf32, #cols>, tensor<16x16xf32, #rows> -> tensor<16x16xf32>
  %e = math.exp %p : tensor<16x16xf32>
  %s = arith.mulf %e, %p : tensor<16x16xf32>
  %t = arith.mulf %s, %p : tensor<16x16xf32>
  %z = fusion.permute %t [0, 1] : tensor<16x16xf32> -> tensor<16x16xf32, #r>
  return %z : tensor<16x16xf32, #r>
}

// -----

#tp = #fusion.mesh<"tp", ["x" = 4]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#cols = #fusion.axes<#tp, [-, didx("x")]>

// One reduce-scatter, if the result is split.
// CHECK-LABEL: @silu_rows
// CHECK-COUNT-1: fusion.reshard
// CHECK-NOT:     fusion.reshard
// CHECK:         return
func.func @silu_rows(%a: tensor<16x16xf32, #cols>, %w: tensor<16x16xf32, #rows>) -> tensor<16x16xf32, #rows> {
  %p = fusion.matmul %a, %w : tensor<16x16xf32, #cols>, tensor<16x16xf32, #rows> -> tensor<16x16xf32>
  %e = math.exp %p : tensor<16x16xf32>
  %s = arith.mulf %e, %p : tensor<16x16xf32>
  %z = fusion.permute %s [0, 1] : tensor<16x16xf32> -> tensor<16x16xf32, #rows>
  return %z : tensor<16x16xf32, #rows>
}

// -----

#tp = #fusion.mesh<"tp", ["x" = 4]>
!part = tensor<16x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!whole = tensor<16x16xf32, #fusion.axes<#tp, [-, -]>>
!rows = tensor<16x16xf32, #fusion.axes<#tp, [didx("x"), -]>>

// Written twice, done once; the third is made for the product, whose result is not partial; what is made of the one is
// made once, too.
// CHECK-LABEL: @written
// CHECK-NEXT:    %[[A:.*]] = fusion.reshard %arg0 : {{.*}}, partial = ["x"]>> -> tensor<16x16xf32, #fusion.axes<#tp, [-, -]>>
// CHECK-NEXT:    %[[B:.*]] = fusion.reshard %[[A]] : {{.*}} -> tensor<16x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK-NEXT:    %[[C:.*]] = fusion.matmul %[[A]], %arg1
// CHECK-NEXT:    return %[[A]], %[[A]], %[[B]], %[[B]], %[[C]]
func.func @written(%0: !part, %1: !whole) -> (!whole, !whole, !rows, !rows, !whole) {
  %2 = fusion.reshard %0 : !part -> !whole
  %3 = fusion.reshard %2 : !whole -> !rows
  %4 = fusion.reshard %0 : !part -> !whole
  %5 = fusion.reshard %4 : !whole -> !rows
  %6 = fusion.matmul %0, %1 : !part, !whole -> !whole
  return %2, %4, %3, %5, %6 : !whole, !whole, !rows, !rows, !whole
}

// A schedule that is named is the word on that reshard, and another place is another reshard.
// CHECK-LABEL: @named
// CHECK-NEXT:    %[[A:.*]] = fusion.reshard %arg0 {schedule = #fusion.schedule<ring>}
// CHECK-NEXT:    %[[B:.*]] = fusion.reshard %arg0 {schedule = #fusion.schedule<exchange>}
// CHECK-NEXT:    %[[C:.*]] = fusion.reshard %arg0 :
// CHECK-NEXT:    %[[D:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<16x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK-NEXT:    return %[[A]], %[[B]], %[[A]], %[[C]], %[[D]]
func.func @named(%0: !part) -> (!whole, !whole, !whole, !whole, !rows) {
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<ring>} : !part -> !whole
  %2 = fusion.reshard %0 {schedule = #fusion.schedule<exchange>} : !part -> !whole
  %3 = fusion.reshard %0 {schedule = #fusion.schedule<ring>} : !part -> !whole
  %4 = fusion.reshard %0 : !part -> !whole
  %5 = fusion.reshard %0 : !part -> !rows
  return %1, %2, %3, %4, %5 : !whole, !whole, !whole, !whole, !rows
}

// -----

#tp = #fusion.mesh<"tp", ["x" = 4]>
!rows = tensor<16x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!whole = tensor<16x16xf32, #fusion.axes<#tp, [-, -]>>
!two = tensor<16x16xf32, #fusion.axes<#tp, [stream(2), -]>>
!four = tensor<16x16xf32, #fusion.axes<#tp, [stream(4), -]>>

// The product needs no slices and takes those of the other, which stands before it or behind.
// CHECK-LABEL: @slices
// CHECK-NEXT:    %[[A:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<16x16xf32, #fusion.axes<#tp, [stream(2), -]>>
// CHECK-NEXT:    fusion.matmul %[[A]], %arg1
// CHECK-NEXT:    math.exp %[[A]]
// CHECK-NEXT:    return
func.func @slices(%0: !rows, %1: !whole) {
  %2 = fusion.reshard %0 : !rows -> !whole
  %3 = fusion.matmul %2, %1 : !whole, !whole -> !whole
  %4 = fusion.reshard %0 : !rows -> !two
  %5 = math.exp %4 : !two
  return
}

// An elementwise op's type is that of its result: it takes no others, and two loops are two gathers.
// CHECK-LABEL: @bound
// CHECK-NEXT:    %[[A:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<16x16xf32, #fusion.axes<#tp, [-, -]>>
// CHECK-NEXT:    math.exp %[[A]]
// CHECK-NEXT:    %[[B:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<16x16xf32, #fusion.axes<#tp, [stream(2), -]>>
// CHECK-NEXT:    math.exp %[[B]]
// CHECK-NEXT:    %[[C:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<16x16xf32, #fusion.axes<#tp, [stream(4), -]>>
// CHECK-NEXT:    math.exp %[[C]]
// CHECK-NEXT:    math.sin %[[B]]
// CHECK-NEXT:    return
func.func @bound(%0: !rows) {
  %1 = fusion.reshard %0 : !rows -> !whole
  %2 = math.exp %1 : !whole
  %3 = fusion.reshard %0 : !rows -> !two
  %4 = math.exp %3 : !two
  %5 = fusion.reshard %0 : !rows -> !four
  %6 = math.exp %5 : !four
  %7 = fusion.reshard %0 : !rows -> !two
  %8 = math.sin %7 : !two
  return
}
