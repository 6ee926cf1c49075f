// RUN: tandem-opt %s -split-input-file -fusion-insert-reshards -fusion-verify | FileCheck %s

#tp = #tandem.mesh<"tp", ["x" = 4]>

// One gather serves several consumers.
// CHECK-LABEL: @shared_gather
// CHECK:         %[[G:.*]] = fusion.reshard %arg0
// CHECK-NEXT:    fusion.matmul %[[G]], %arg1
// CHECK-NEXT:    fusion.matmul %[[G]], %arg2
// CHECK-NEXT:    return
func.func @shared_gather(%0: tensor<64x32xf32, #fusion.axes<#tp, [-, didx("x")]>>, %1: tensor<32x16xf32, #fusion.axes<#tp, [-, didx("x")]>>, %2: tensor<32x8xf32, #fusion.axes<#tp, [-, didx("x")]>>) {
  %3 = fusion.matmul %0, %1 : tensor<64x32xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<32x16xf32, #fusion.axes<#tp, [-, didx("x")]>> -> tensor<64x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %4 = fusion.matmul %0, %2 : tensor<64x32xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<32x8xf32, #fusion.axes<#tp, [-, didx("x")]>> -> tensor<64x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!rows = tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!cols = tensor<8x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
!whole = tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>
!part = tensor<8x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>

// Each op takes its operand as its result needs it.
// CHECK-LABEL: @each
func.func @each(%0: !rows, %1: !part, %2: !whole) {
  // CHECK: %[[A:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
  // CHECK: fusion.permute %[[A]] [1, 0] : {{.*}} -> tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %3 = fusion.permute %0 [1, 0] : !rows -> tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
  // CHECK: %[[B:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>
  // CHECK: fusion.reshape %[[B]] : {{.*}} -> tensor<2x4x16xf32, #fusion.axes<#tp, [-, -, -]>>
  %4 = fusion.reshape %0 : !rows -> tensor<2x4x16xf32, #fusion.axes<#tp, [-, -, -]>>
  // CHECK: %[[C:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x16xf32, #fusion.axes<#tp, [-, serial(4) * didx("x")]>>
  // CHECK: fusion.reshape %[[C]] : {{.*}} -> tensor<128xf32, #fusion.axes<#tp, [serial(32) * didx("x")]>>
  %5 = fusion.reshape %0 : !rows -> tensor<128xf32, #fusion.axes<#tp, [serial(32) * didx("x")]>>
  // A dimension that is cut must be whole; the cut result is split behind. The gather above serves here too.
  // CHECK: %[[D:.*]] = fusion.slice %[[B]] {{.*}} -> tensor<4x16xf32, #fusion.axes<#tp, [-, -]>>
  // CHECK: fusion.reshard %[[D]] : {{.*}} -> tensor<4x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %6 = fusion.slice %0 offsets [4, 0] steps [1, 1] : !rows -> tensor<4x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  // CHECK: %[[E:.*]] = fusion.reshard %arg1 : {{.*}} -> tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>
  // CHECK: fusion.concat %[[E]], %arg2 dim 1
  %7 = fusion.concat %1, %2 dim 1 : (!part, !whole) -> tensor<8x32xf32, #fusion.axes<#tp, [-, -]>>
  // CHECK: fusion.call @kernel(%[[B]])
  %8 = fusion.call @kernel(%0) dims "s_ -> s_" : (!rows) -> !whole
  // The all-reduce goes before what needs the whole value.
  // CHECK: fusion.reduce max %[[E]] dims [1]
  %9 = fusion.reduce max %1 dims [1] : !part -> tensor<8xf32, #fusion.axes<#tp, [-]>>
  // A new dimension is split for nothing.
  // CHECK: fusion.broadcast %arg2 {{.*}} -> tensor<4x8x16xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
  // CHECK-NEXT: fusion.broadcast %[[B]] {{.*}} -> tensor<4x8x16xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
  %10 = fusion.broadcast %2 dims [1, 2] : !whole -> tensor<4x8x16xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
  %11 = fusion.broadcast %0 dims [1, 2] : !rows -> tensor<4x8x16xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
  // A product with terms.
  // CHECK: fusion.matmul %[[E]], %arg2 {transpose_b}
  %12 = fusion.matmul %1, %2 {transpose_b} : !part, !whole -> tensor<8x8xf32, #fusion.axes<#tp, [-, -]>>
  // CHECK-NEXT: fusion.matmul %arg1, %arg2 {transpose_b}
  %13 = fusion.matmul %1, %2 {transpose_b} : !part, !whole -> tensor<8x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
  return
}
// The result is partial over x for one reason only: the contraction, or the operand.
// CHECK-LABEL: @one_reason
// CHECK-NEXT:    %[[A:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
// CHECK-NEXT:    fusion.matmul %[[A]], %arg1
// CHECK-NEXT:    %[[B:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x8xf32, #fusion.axes<#tp, [-, -]>>
// CHECK-NEXT:    fusion.matmul %arg0, %[[B]]
// CHECK-NEXT:    %[[C:.*]] = fusion.reduce max %[[B]]
// CHECK-NEXT:    return
func.func @one_reason(%0: tensor<8x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>, %1: tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) {
  %2 = fusion.matmul %0, %1 : tensor<8x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>, tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<8x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
  %3 = fusion.matmul %0, %0 : tensor<8x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>, tensor<8x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>> -> tensor<8x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
  %4 = fusion.reduce max %0 dims [0] : tensor<8x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>> -> tensor<8xf32, #fusion.axes<#tp, [-]>>
  return
}

// What the result's digits are in the operand's dimensions cannot be said: behind, then.
// CHECK-LABEL: @reshape_behind
// CHECK-NEXT:    %[[R:.*]] = fusion.reshape %arg0 : {{.*}} -> tensor<8x3xf32, #fusion.axes<#tp, [-, -]>>
// CHECK-NEXT:    fusion.reshard %[[R]] : {{.*}} -> tensor<8x3xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @reshape_behind(%0: tensor<6x4xf32, #fusion.axes<#tp, [-, -]>>) {
  %1 = fusion.reshape %0 : tensor<6x4xf32, #fusion.axes<#tp, [-, -]>> -> tensor<8x3xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return
}
func.func private @kernel(tensor<8x16xf32>) -> tensor<8x16xf32>

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>

// One gather, sliced or not: who needs no slices takes those of the other, be that before or behind.
// CHECK-LABEL: @one_gather
// CHECK:         %[[A:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x6xf32, #fusion.axes<#tp, [stream(2), -]>>
// CHECK-NEXT:    fusion.matmul %[[A]], %arg1
// CHECK-NEXT:    fusion.matmul %[[A]], %arg1
// CHECK:         %[[B:.*]] = fusion.reshard %arg2 : {{.*}} -> tensor<8x6xf32, #fusion.axes<#tp, [stream(2), -]>>
// CHECK-NEXT:    fusion.matmul %[[B]], %arg1
// CHECK-NEXT:    fusion.matmul %[[B]], %arg1
//
// Other slices are another gather.
// CHECK:         %[[C:.*]] = fusion.reshard %arg2 : {{.*}} -> tensor<8x6xf32, #fusion.axes<#tp, [stream(4), -]>>
// CHECK-NEXT:    fusion.matmul %[[C]], %arg1
func.func @one_gather(%0: tensor<8x6xf32, #rows>, %1: tensor<6x4xf32, #columns>, %2: tensor<8x6xf32, #rows>) {
  %3 = fusion.matmul %0, %1 : tensor<8x6xf32, #rows>, tensor<6x4xf32, #columns> -> tensor<8x4xf32, #fusion.axes<#tp, [stream(2), didx("x")]>>
  %4 = fusion.matmul %0, %1 : tensor<8x6xf32, #rows>, tensor<6x4xf32, #columns> -> tensor<8x4xf32, #columns>
  %5 = fusion.matmul %2, %1 : tensor<8x6xf32, #rows>, tensor<6x4xf32, #columns> -> tensor<8x4xf32, #columns>
  %6 = fusion.matmul %2, %1 : tensor<8x6xf32, #rows>, tensor<6x4xf32, #columns> -> tensor<8x4xf32, #fusion.axes<#tp, [stream(2), didx("x")]>>
  %7 = fusion.matmul %2, %1 : tensor<8x6xf32, #rows>, tensor<6x4xf32, #columns> -> tensor<8x4xf32, #fusion.axes<#tp, [stream(4), didx("x")]>>
  return
}

// -----

#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>
!both = tensor<8x16xf32, #fusion.axes<#pod, [didx("node"), -], partial = ["gpu"]>>

// Several rows of the table are written out, what shrinks the data first; a schedule that takes them whole gets them
// whole, and keeps its place on each otherwise.
// CHECK-LABEL: @sequence
// CHECK:         %[[A:.*]] = fusion.reshard %arg0 {part} : {{.*}} -> tensor<8x16xf32, #fusion.axes<#pod, [didx("node"), didx("gpu")]>>
// CHECK:         %[[B:.*]] = fusion.reshard %[[A]] {part} : {{.*}} -> tensor<8x16xf32, #fusion.axes<#pod, [stream, didx("gpu")]>>
// CHECK-NEXT:    return %[[B]]
func.func @sequence(%0: !both) -> tensor<8x16xf32, #fusion.axes<#pod, [stream, didx("gpu")]>> {
  %1 = fusion.reshard %0 : !both -> tensor<8x16xf32, #fusion.axes<#pod, [stream, didx("gpu")]>>
  return %1 : tensor<8x16xf32, #fusion.axes<#pod, [stream, didx("gpu")]>>
}

// CHECK-LABEL: @annotated_sequence
// CHECK-NEXT:    fusion.reshard %arg0 {part, schedule = #fusion.schedule<exchange>}
// CHECK-NEXT:    fusion.reshard %{{.*}} {part, schedule = #fusion.schedule<exchange>}
// CHECK-NEXT:    return
func.func @annotated_sequence(%0: !both) {
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<exchange>} : !both -> tensor<8x16xf32, #fusion.axes<#pod, [-, didx("gpu")]>>
  return
}
