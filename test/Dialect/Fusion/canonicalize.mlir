// RUN: tandem-opt %s -canonicalize | FileCheck %s

#tp = #tandem.mesh<"tp", ["x" = 2, "y" = 2]>
!rows = tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
!cols = tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>>
!whole = tensor<8x4xf32, #fusion.axes<#tp, [-, -]>>
!part = tensor<8x4xf32, #fusion.axes<#tp, [-, -], partial = ["x", "y"]>>
!part_y = tensor<8x4xf32, #fusion.axes<#tp, [-, -], partial = ["y"]>>

// CHECK-LABEL: @reshard_to_the_same
// CHECK-NEXT:    return %arg0
func.func @reshard_to_the_same(%0: !rows) -> !rows {
  %1 = fusion.reshard %0 : !rows -> !rows
  return %1 : !rows
}

// CHECK-LABEL: @reshard_of_reshard
// CHECK-NEXT:    %[[R:.*]] = fusion.reshard %arg0 : tensor<8x4xf32, {{.*}}[didx("x"), -]>> -> tensor<8x4xf32, {{.*}}[-, didx("x")]>>
// CHECK-NEXT:    return %[[R]]
func.func @reshard_of_reshard(%0: !rows) -> !cols {
  %1 = fusion.reshard %0 : !rows -> !whole
  %2 = fusion.reshard %1 : !whole -> !cols
  return %2 : !cols
}

// There and back is nothing.
// CHECK-LABEL: @reshard_and_back
// CHECK-NEXT:    return %arg0
func.func @reshard_and_back(%0: !rows) -> !rows {
  %1 = fusion.reshard %0 : !rows -> !whole
  %2 = fusion.reshard %1 : !whole -> !rows
  return %2 : !rows
}

// CHECK-LABEL: @partial_reshards
// CHECK-NEXT:    %[[R:.*]] = fusion.reshard %arg0 : {{.*}}partial = ["x", "y"]>> -> tensor<8x4xf32, {{.*}}[-, -]>>
// CHECK-NEXT:    return %[[R]]
func.func @partial_reshards(%0: !part) -> !whole {
  %1 = fusion.reshard %0 : !part -> !part_y
  %2 = fusion.reshard %1 : !part_y -> !whole
  return %2 : !whole
}

// The user's word on the first reshard is kept, and a schedule on the second does not matter.
// CHECK-LABEL: @reshard_with_schedule
// CHECK-NEXT:    fusion.reshard %arg0 {schedule = #fusion.schedule<exchange>}
// CHECK-NEXT:    fusion.reshard
// CHECK:       @reshard_with_second_schedule
// CHECK-NEXT:    fusion.reshard %arg0 {schedule = #fusion.schedule<exchange>} : {{.*}}[didx("x"), -]>> -> {{.*}}[-, didx("x")]>>
// CHECK-NEXT:    return
func.func @reshard_with_schedule(%0: !rows) -> !cols {
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<exchange>} : !rows -> !whole
  %2 = fusion.reshard %1 : !whole -> !cols
  return %2 : !cols
}
func.func @reshard_with_second_schedule(%0: !rows) -> !cols {
  %1 = fusion.reshard %0 : !rows -> !whole
  %2 = fusion.reshard %1 {schedule = #fusion.schedule<exchange>} : !whole -> !cols
  return %2 : !cols
}

// Both values exist; the second comes from the nearer one.
// CHECK-LABEL: @reshard_used_twice
// CHECK-NEXT:    %[[A:.*]] = fusion.reshard %arg0
// CHECK-NEXT:    %[[B:.*]] = fusion.reshard %[[A]]
// CHECK-NEXT:    return %[[A]], %[[B]]
func.func @reshard_used_twice(%0: !rows) -> (!whole, !cols) {
  %1 = fusion.reshard %0 : !rows -> !whole
  %2 = fusion.reshard %1 : !whole -> !cols
  return %1, %2 : !whole, !cols
}

// What an undecided value becomes is not known yet.
// CHECK-LABEL: @reshard_of_undecided
// CHECK-NEXT:    fusion.reshard
// CHECK-NEXT:    fusion.reshard
func.func @reshard_of_undecided(%0: tensor<8x4xf32>) -> !cols {
  %1 = fusion.reshard %0 : tensor<8x4xf32> -> !whole
  %2 = fusion.reshard %1 : !whole -> !cols
  return %2 : !cols
}

// CHECK-LABEL: @identities
// CHECK-NEXT:    return %arg0, %arg0, %arg0, %arg0, %arg0, %arg0
func.func @identities(%0: !rows) -> (!rows, !rows, !rows, !rows, !rows, !rows) {
  %1 = fusion.permute %0 [0, 1] : !rows -> !rows
  %2 = fusion.reshape %0 : !rows -> !rows
  %3 = fusion.broadcast %0 dims [0, 1] : !rows -> !rows
  %4 = fusion.slice %0 offsets [0, 0] steps [1, 1] : !rows -> !rows
  %5 = fusion.concat %0 dim 1 : (!rows) -> !rows
  %6 = fusion.reduce sum %0 dims [] : !rows -> !rows
  return %1, %2, %3, %4, %5, %6 : !rows, !rows, !rows, !rows, !rows, !rows
}

// Same shape is not same elements, and other axes are a reshard in waiting.
// CHECK-LABEL: @no_identities
// CHECK-NEXT:    fusion.permute
// CHECK-NEXT:    fusion.permute
// CHECK-NEXT:    fusion.slice
// CHECK-NEXT:    fusion.concat
func.func @no_identities(%0: tensor<4x4xf32>, %1: !rows, %2: tensor<?xf32>) -> (tensor<4x4xf32>, !whole, tensor<?xf32>, tensor<8x4xf32>) {
  %3 = fusion.permute %0 [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
  %4 = fusion.permute %1 [0, 1] : !rows -> !whole
  %7 = fusion.slice %2 offsets [0] steps [2] : tensor<?xf32> -> tensor<?xf32>
  %8 = fusion.concat %0, %0 dim 0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %3, %4, %7, %8 : tensor<4x4xf32>, !whole, tensor<?xf32>, tensor<8x4xf32>
}

// CHECK-LABEL: @permute_of_permute
// CHECK-NEXT:    %[[P:.*]] = fusion.permute %arg0 [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
// CHECK-NEXT:    return %[[P]]
func.func @permute_of_permute(%0: tensor<2x3x4xf32>) -> tensor<3x4x2xf32> {
  %1 = fusion.permute %0 [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %2 = fusion.permute %1 [2, 0, 1] : tensor<4x2x3xf32> -> tensor<3x4x2xf32>
  return %2 : tensor<3x4x2xf32>
}

// CHECK-LABEL: @permute_there_and_back
// CHECK-NEXT:    return %arg0
func.func @permute_there_and_back(%0: !rows) -> !rows {
  %1 = fusion.permute %0 [1, 0] : !rows -> tensor<4x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %2 = fusion.permute %1 [1, 0] : tensor<4x8xf32, #fusion.axes<#tp, [-, didx("x")]>> -> !rows
  return %2 : !rows
}

// The value between asks for a gather.
// CHECK-LABEL: @permute_through_other_axes
// CHECK-NEXT:    fusion.permute
// CHECK-NEXT:    fusion.permute
func.func @permute_through_other_axes(%0: !rows) -> !rows {
  %1 = fusion.permute %0 [1, 0] : !rows -> tensor<4x8xf32, #fusion.axes<#tp, [-, -]>>
  %2 = fusion.permute %1 [1, 0] : tensor<4x8xf32, #fusion.axes<#tp, [-, -]>> -> !rows
  return %2 : !rows
}

// CHECK-LABEL: @reshape_of_reshape
// CHECK-NEXT:    %[[R:.*]] = fusion.reshape %arg0 : tensor<8x4xf32> -> tensor<2x16xf32>
// CHECK-NEXT:    return %[[R]], %arg0
func.func @reshape_of_reshape(%0: tensor<8x4xf32>) -> (tensor<2x16xf32>, tensor<8x4xf32>) {
  %1 = fusion.reshape %0 : tensor<8x4xf32> -> tensor<32xf32>
  %2 = fusion.reshape %1 : tensor<32xf32> -> tensor<2x16xf32>
  %3 = fusion.reshape %1 : tensor<32xf32> -> tensor<8x4xf32>
  return %2, %3 : tensor<2x16xf32>, tensor<8x4xf32>
}
