// RUN: tandem-opt %s -split-input-file -fusion-propagate-axes -fusion-insert-reshards -fusion-verify | FileCheck %s

#tp = #tandem.mesh<"tp", ["x" = 4]>
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

#tp = #tandem.mesh<"tp", ["x" = 4]>
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

#tp = #tandem.mesh<"tp", ["x" = 4]>
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
// CHECK-NEXT:    %[[A:.*]] = fusion.reshard %arg0 {schedule = #fusion.schedule<pipeline>}
// CHECK-NEXT:    %[[B:.*]] = fusion.reshard %arg0 {schedule = #fusion.schedule<exchange>}
// CHECK-NEXT:    %[[C:.*]] = fusion.reshard %arg0 :
// CHECK-NEXT:    %[[D:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<16x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK-NEXT:    return %[[A]], %[[B]], %[[A]], %[[C]], %[[D]]
func.func @named(%0: !part) -> (!whole, !whole, !whole, !whole, !rows) {
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<pipeline>} : !part -> !whole
  %2 = fusion.reshard %0 {schedule = #fusion.schedule<exchange>} : !part -> !whole
  %3 = fusion.reshard %0 {schedule = #fusion.schedule<pipeline>} : !part -> !whole
  %4 = fusion.reshard %0 : !part -> !whole
  %5 = fusion.reshard %0 : !part -> !rows
  return %1, %2, %3, %4, %5 : !whole, !whole, !whole, !whole, !rows
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
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

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
#cols = #fusion.axes<#tp, [-, didx("x")]>
#seq = #fusion.axes<#tp, [-, didx("x"), -]>
#heads = #fusion.axes<#tp, [-, -, didx("x")]>

// A layer on [batch, sequence, feature] and its weight gradient, which reads the input as a matrix: one gather.
// CHECK-LABEL: @layer_and_weight_gradient
// CHECK:         %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<2x8x16xf32, #fusion.axes<#tp, [-, -, -]>>
// CHECK-NEXT:    fusion.matmul %[[G]], %arg1
// CHECK-NOT:     fusion.reshard
// CHECK:         %[[V:.*]] = fusion.reshape %[[G]] : {{.*}} -> tensor<16x16xf32, #fusion.axes<#tp, [-, -]>>
// CHECK-NEXT:    fusion.matmul %[[V]], %{{.*}} {transpose_a}
// CHECK-NEXT:    return
func.func @layer_and_weight_gradient(%x: tensor<2x8x16xf32, #seq>, %w: tensor<16x32xf32, #cols>, %dh: tensor<2x8x32xf32, #heads>)
    -> (tensor<2x8x32xf32, #heads>, tensor<16x32xf32, #cols>) {
  %h = fusion.matmul %x, %w : tensor<2x8x16xf32, #seq>, tensor<16x32xf32, #cols> -> tensor<2x8x32xf32, #heads>
  %x2 = fusion.reshape %x : tensor<2x8x16xf32, #seq> -> tensor<16x16xf32>
  %d2 = fusion.reshape %dh : tensor<2x8x32xf32, #heads> -> tensor<16x32xf32, #cols>
  %dw = fusion.matmul %x2, %d2 {transpose_a} : tensor<16x16xf32>, tensor<16x32xf32, #cols> -> tensor<16x32xf32, #cols>
  return %h, %dw : tensor<2x8x32xf32, #heads>, tensor<16x32xf32, #cols>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!rows = tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!cols = tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!whole = tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>
!turned = tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
!sliced = tensor<8x16xf32, #fusion.axes<#tp, [stream(4), -]>>

// Of two views of one value, too; the value itself is gathered then.
// CHECK-LABEL: @two_views
// CHECK-NEXT:    %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>
// CHECK-NEXT:    %[[T:.*]] = fusion.permute %[[G]] [1, 0]
// CHECK-NEXT:    %[[F:.*]] = fusion.reshape %[[G]] : {{.*}} -> tensor<128xf32, #fusion.axes<#tp, [-]>>
// CHECK-NEXT:    return %[[T]], %[[F]]
func.func @two_views(%0: !rows) -> (!turned, tensor<128xf32, #fusion.axes<#tp, [-]>>) {
  %1 = fusion.permute %0 [1, 0] : !rows -> !cols
  %2 = fusion.reshard %1 : !cols -> !turned
  %3 = fusion.reshape %0 : !rows -> tensor<128xf32, #fusion.axes<#tp, [didx("x")]>>
  %4 = fusion.reshard %3 : tensor<128xf32, #fusion.axes<#tp, [didx("x")]>> -> tensor<128xf32, #fusion.axes<#tp, [-]>>
  return %2, %4 : !turned, tensor<128xf32, #fusion.axes<#tp, [-]>>
}

// Slices are kept: the view has them as well. What needs other slices is another reshard.
// CHECK-LABEL: @sliced_views
// CHECK-NEXT:    %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x16xf32, #fusion.axes<#tp, [stream(4), -]>>
// CHECK-NEXT:    %[[T:.*]] = fusion.permute %[[G]] [1, 0] : {{.*}} -> tensor<16x8xf32, #fusion.axes<#tp, [-, stream(4)]>>
// CHECK-NEXT:    fusion.matmul %[[T]], %[[G]]
// CHECK-NEXT:    %[[P:.*]] = fusion.permute %arg0
// CHECK-NEXT:    %[[O:.*]] = fusion.reshard %[[P]] : {{.*}} -> tensor<16x8xf32, #fusion.axes<#tp, [stream(2), -]>>
// CHECK-NEXT:    return
func.func @sliced_views(%0: !rows) -> (tensor<16x16xf32, #fusion.axes<#tp, [-, -]>>, tensor<16x8xf32, #fusion.axes<#tp, [stream(2), -]>>) {
  %1 = fusion.reshard %0 : !rows -> !sliced
  %2 = fusion.permute %0 [1, 0] : !rows -> !cols
  %3 = fusion.reshard %2 : !cols -> !turned
  %4 = fusion.matmul %3, %1 : !turned, !sliced -> tensor<16x16xf32, #fusion.axes<#tp, [-, -]>>
  %5 = fusion.permute %0 [1, 0] : !rows -> !cols
  %6 = fusion.reshard %5 : !cols -> tensor<16x8xf32, #fusion.axes<#tp, [stream(2), -]>>
  return %4, %6 : tensor<16x16xf32, #fusion.axes<#tp, [-, -]>>, tensor<16x8xf32, #fusion.axes<#tp, [stream(2), -]>>
}
