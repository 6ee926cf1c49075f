// RUN: tandem-opt %s -split-input-file -fusion-insert-reshards -fusion-verify | FileCheck %s
// RUN: tandem-opt %s -split-input-file -fusion-insert-reshards="gather=after" -fusion-verify | FileCheck %s --check-prefix=AFTER

// Sharded operands and a sharded result, nothing else: a gather before or after, a reduction behind.
#m = #tandem.mesh<"m", ["x" = 2, "y" = 2]>
!rows = tensor<8x4xf32, #fusion.axes<#m, [didx("x"), -]>>
!cols = tensor<8x4xf32, #fusion.axes<#m, [-, didx("x")]>>
!out = tensor<8x16xf32, #fusion.axes<#m, [-, -]>>

// CHECK-LABEL: @matmul
// CHECK-NEXT:    %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#m, [-, -]>>
// CHECK-NEXT:    fusion.matmul %[[G]], %arg2 : {{.*}} -> tensor<8x16xf32, #fusion.axes<#m, [-, -]>>
// CHECK-NEXT:    %[[M:.*]] = fusion.matmul %arg1, %arg3 : {{.*}} partial = ["x"]>>
// CHECK-NEXT:    fusion.reshard %[[M]] : {{.*}} -> tensor<8x16xf32, #fusion.axes<#m, [-, -]>>
// CHECK-NEXT:    %[[T:.*]] = fusion.matmul %arg1, %arg3 : {{.*}} partial = ["x"]>>
// CHECK-NEXT:    fusion.reshard %[[T]] : {{.*}} -> tensor<8x16xf32, #fusion.axes<#m, [-, didx("x") * stream(4)]>>
// AFTER-LABEL: @matmul
// AFTER-NEXT:    %[[M:.*]] = fusion.matmul %arg0, %arg2 : {{.*}} -> tensor<8x16xf32, #fusion.axes<#m, [didx("x"), -]>>
// AFTER-NEXT:    fusion.reshard %[[M]] : {{.*}} -> tensor<8x16xf32, #fusion.axes<#m, [-, -]>>
// AFTER-NEXT:    fusion.matmul %arg1, %arg3 : {{.*}} partial = ["x"]>>
func.func @matmul(%0: !rows, %1: !cols, %2: tensor<4x16xf32, #fusion.axes<#m, [-, -]>>, %3: tensor<4x16xf32, #fusion.axes<#m, [didx("x"), -]>>) {
  %ag = fusion.matmul %0, %2 : !rows, tensor<4x16xf32, #fusion.axes<#m, [-, -]>> -> !out
  %ar = fusion.matmul %1, %3 : !cols, tensor<4x16xf32, #fusion.axes<#m, [didx("x"), -]>> -> !out
  %rs = fusion.matmul %1, %3 : !cols, tensor<4x16xf32, #fusion.axes<#m, [didx("x"), -]>> -> tensor<8x16xf32, #fusion.axes<#m, [-, didx("x") * stream(4)]>>
  return
}

// Dimensions that are needed whole, split in operands and result: gathered before in either mode, cut behind.
// CHECK-LABEL: @whole
// CHECK-NEXT:    %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#m, [-, -]>>
// CHECK-NEXT:    %[[S:.*]] = fusion.slice %[[G]] {{.*}} -> tensor<4x4xf32, #fusion.axes<#m, [-, -]>>
// CHECK-NEXT:    fusion.reshard %[[S]] : {{.*}} -> tensor<4x4xf32, #fusion.axes<#m, [didx("x"), -]>>
// CHECK-NEXT:    %[[C:.*]] = fusion.concat %[[G]], %[[G]] dim 0
// CHECK-NEXT:    fusion.reshard %[[C]] : {{.*}} -> tensor<16x4xf32, #fusion.axes<#m, [didx("x"), -]>>
// CHECK-NEXT:    return
// AFTER-LABEL: @whole
// AFTER-NEXT:    %[[G:.*]] = fusion.reshard %arg0
// AFTER-NEXT:    fusion.slice %[[G]]
// AFTER-NEXT:    fusion.reshard
// AFTER-NEXT:    fusion.concat %[[G]], %[[G]]
// AFTER-NEXT:    fusion.reshard
// AFTER-NEXT:    return
func.func @whole(%0: !rows) {
  %1 = fusion.slice %0 offsets [2, 0] steps [1, 1] : !rows -> tensor<4x4xf32, #fusion.axes<#m, [didx("x"), -]>>
  %2 = fusion.concat %0, %0 dim 0 : (!rows, !rows) -> tensor<16x4xf32, #fusion.axes<#m, [didx("x"), -]>>
  return
}

// Contracted dimensions that are split differently: the smaller operand moves to where the larger one is.
// CHECK-LABEL: @contraction
// CHECK-NEXT:    %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#m, [-, didx("y")]>>
// CHECK-NEXT:    %[[M:.*]] = fusion.matmul %[[G]], %arg1 : {{.*}} partial = ["y"]>>
// CHECK-NEXT:    fusion.reshard %[[M]]
// AFTER-LABEL: @contraction
// AFTER-NEXT:    %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#m, [-, didx("y")]>>
// AFTER-NEXT:    %[[M:.*]] = fusion.matmul %[[G]], %arg1 : {{.*}} partial = ["y"]>>
func.func @contraction(%0: !cols, %1: tensor<4x16xf32, #fusion.axes<#m, [didx("y"), -]>>) {
  %2 = fusion.matmul %0, %1 : !cols, tensor<4x16xf32, #fusion.axes<#m, [didx("y"), -]>> -> !out
  return
}

// A loop over the contraction that one operand asks for: the other one is gathered into its slices.
// CHECK-LABEL: @contraction_in_slices
// CHECK-NEXT:    %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#m, [-, stream(2)]>>
// CHECK-NEXT:    fusion.matmul %[[G]], %arg1
// AFTER-LABEL: @contraction_in_slices
func.func @contraction_in_slices(%0: !cols, %1: tensor<4x16xf32, #fusion.axes<#m, [stream(2), -]>>) {
  %2 = fusion.matmul %0, %1 : !cols, tensor<4x16xf32, #fusion.axes<#m, [stream(2), -]>> -> !out
  return
}

// A mesh axis on M and N: the result says which one moves.
// CHECK-LABEL: @on_both
// CHECK-NEXT:    %[[G:.*]] = fusion.reshard %arg1 : {{.*}} -> tensor<4x16xf32, #fusion.axes<#m, [-, -]>>
// CHECK-NEXT:    fusion.matmul %arg0, %[[G]]
// AFTER-LABEL: @on_both
// AFTER-NEXT:    %[[G:.*]] = fusion.reshard %arg1 : {{.*}} -> tensor<4x16xf32, #fusion.axes<#m, [-, -]>>
// AFTER-NEXT:    fusion.matmul %arg0, %[[G]]
func.func @on_both(%0: !rows, %1: tensor<4x16xf32, #fusion.axes<#m, [-, didx("x")]>>) {
  %2 = fusion.matmul %0, %1 : !rows, tensor<4x16xf32, #fusion.axes<#m, [-, didx("x")]>> -> tensor<8x16xf32, #fusion.axes<#m, [didx("x") * stream(2), -]>>
  return
}

// Terms beside an operand that is split along their axis do not add up: they are reduced first.
// CHECK-LABEL: @terms_beside_split
// CHECK-NEXT:    %[[R:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#m, [-, -]>>
// CHECK-NEXT:    fusion.matmul %[[R]], %arg1
// AFTER-LABEL: @terms_beside_split
// AFTER-NEXT:    %[[R:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#m, [-, -]>>
// AFTER-NEXT:    fusion.matmul %[[R]], %arg1
func.func @terms_beside_split(%0: tensor<8x4xf32, #fusion.axes<#m, [-, -], partial = ["x"]>>, %1: tensor<4x16xf32, #fusion.axes<#m, [-, didx("x")]>>) {
  %2 = fusion.matmul %0, %1 : tensor<8x4xf32, #fusion.axes<#m, [-, -], partial = ["x"]>>, tensor<4x16xf32, #fusion.axes<#m, [-, didx("x")]>> -> tensor<8x16xf32, #fusion.axes<#m, [-, didx("x")]>>
  return
}

// Digits that a reshape cannot carry: those of the result, or all of it is reshaped everywhere.
// CHECK-LABEL: @reshape
// CHECK-NEXT:    %[[R:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<6x4xf32, #fusion.axes<#m, [didx("x"), -]>>
// CHECK-NEXT:    fusion.reshape %[[R]] : {{.*}} -> tensor<8x3xf32, #fusion.axes<#m, [didx("x"), -]>>
// CHECK-NEXT:    %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<6x4xf32, #fusion.axes<#m, [-, -]>>
// CHECK-NEXT:    %[[W:.*]] = fusion.reshape %[[G]] : {{.*}} -> tensor<8x3xf32, #fusion.axes<#m, [-, -]>>
// CHECK-NEXT:    fusion.reshard %[[W]] : {{.*}} -> tensor<8x3xf32, #fusion.axes<#m, [serial(4) * didx("x"), -]>>
// AFTER-LABEL: @reshape
// AFTER-NEXT:    %[[R:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<6x4xf32, #fusion.axes<#m, [didx("x"), -]>>
// AFTER-NEXT:    fusion.reshape %[[R]]
// AFTER-NEXT:    %[[G:.*]] = fusion.reshard %arg0
// AFTER-NEXT:    fusion.reshape %[[G]]
// AFTER-NEXT:    fusion.reshard
func.func @reshape(%0: tensor<6x4xf32, #fusion.axes<#m, [-, serial(2) * didx("x")]>>) {
  %1 = fusion.reshape %0 : tensor<6x4xf32, #fusion.axes<#m, [-, serial(2) * didx("x")]>> -> tensor<8x3xf32, #fusion.axes<#m, [didx("x"), -]>>
  %2 = fusion.reshape %0 : tensor<6x4xf32, #fusion.axes<#m, [-, serial(2) * didx("x")]>> -> tensor<8x3xf32, #fusion.axes<#m, [serial(4) * didx("x"), -]>>
  return
}

// -----

// Operands and result on three meshes: before, all come to the result's; after, to the larger operand's.
#a = #tandem.mesh<"a", ["x" = 2]>
#b = #tandem.mesh<"b", ["x" = 2], devices = [2, 3]>
#c = #tandem.mesh<"c", ["x" = 4]>
// CHECK-LABEL: @meshes
// CHECK-NEXT:    %[[A:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#c, [didx("x"), -]>>
// CHECK-NEXT:    %[[B:.*]] = fusion.reshard %arg1 : {{.*}} -> tensor<4x16xf32, #fusion.axes<#c, [-, -]>>
// CHECK-NEXT:    fusion.matmul %[[A]], %[[B]] : {{.*}} -> tensor<8x16xf32, #fusion.axes<#c, [didx("x"), -]>>
// AFTER-LABEL: @meshes
// AFTER-NEXT:    %[[A:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#b, [-, -]>>
// AFTER-NEXT:    %[[M:.*]] = fusion.matmul %[[A]], %arg1 : {{.*}} -> tensor<8x16xf32, #fusion.axes<#b, [-, didx("x")]>>
// AFTER-NEXT:    fusion.reshard %[[M]] : {{.*}} -> tensor<8x16xf32, #fusion.axes<#c, [didx("x"), -]>>
func.func @meshes(%0: tensor<8x4xf32, #fusion.axes<#a, [didx("x"), -]>>, %1: tensor<4x16xf32, #fusion.axes<#b, [-, didx("x")]>>) {
  %2 = fusion.matmul %0, %1 : tensor<8x4xf32, #fusion.axes<#a, [didx("x"), -]>>, tensor<4x16xf32, #fusion.axes<#b, [-, didx("x")]>> -> tensor<8x16xf32, #fusion.axes<#c, [didx("x"), -]>>
  return
}

// What becomes less on its way to another mesh does so before, unless it is gathered for that or the user says otherwise.
// CHECK-LABEL: @less
// CHECK-NEXT:    %[[R:.*]] = fusion.reduce sum %arg0 {{.*}} -> tensor<8xf32, #fusion.axes<#a, [didx("x")]>>
// CHECK-NEXT:    fusion.reshard %[[R]] : {{.*}} -> tensor<8xf32, #fusion.axes<#b, [-]>>
// CHECK-NEXT:    %[[P:.*]] = fusion.reduce sum %arg0 {{.*}} -> tensor<4xf32, #fusion.axes<#a, [-], partial = ["x"]>>
// CHECK-NEXT:    %[[S:.*]] = fusion.reshard %[[P]] {part} : {{.*}} -> tensor<4xf32, #fusion.axes<#a, [-]>>
// CHECK-NEXT:    fusion.reshard %[[S]] {part} : {{.*}} -> tensor<4xf32, #fusion.axes<#b, [didx("x")]>>
// CHECK-NEXT:    %[[C:.*]] = fusion.slice %arg0 {{.*}} -> tensor<8x2xf32, #fusion.axes<#a, [didx("x"), -]>>
// CHECK-NEXT:    fusion.reshard %[[C]]
// CHECK-NEXT:    %[[W:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#b, [-, -]>>
// CHECK-NEXT:    fusion.slice %[[W]]
// CHECK-NEXT:    fusion.reduce sum %[[W]]
func.func @less(%0: tensor<8x4xf32, #fusion.axes<#a, [didx("x"), -]>>) -> (tensor<8xf32, #fusion.axes<#b, [-]>>, tensor<4xf32, #fusion.axes<#b, [didx("x")]>>, tensor<8x2xf32, #fusion.axes<#b, [-, -]>>, tensor<2x4xf32, #fusion.axes<#b, [-, -]>>, tensor<4xf32, #fusion.axes<#b, [-]>>) {
  %1 = fusion.reduce sum %0 dims [1] : tensor<8x4xf32, #fusion.axes<#a, [didx("x"), -]>> -> tensor<8xf32, #fusion.axes<#b, [-]>>
  %2 = fusion.reduce sum %0 dims [0] : tensor<8x4xf32, #fusion.axes<#a, [didx("x"), -]>> -> tensor<4xf32, #fusion.axes<#b, [didx("x")]>>
  %3 = fusion.slice %0 offsets [0, 1] steps [1, 1] : tensor<8x4xf32, #fusion.axes<#a, [didx("x"), -]>> -> tensor<8x2xf32, #fusion.axes<#b, [-, -]>>
  %4 = fusion.slice %0 offsets [2, 0] steps [1, 1] : tensor<8x4xf32, #fusion.axes<#a, [didx("x"), -]>> -> tensor<2x4xf32, #fusion.axes<#b, [-, -]>>
  %5 = fusion.reduce sum %0 dims [0] {fusion.gather = "before"} : tensor<8x4xf32, #fusion.axes<#a, [didx("x"), -]>> -> tensor<4xf32, #fusion.axes<#b, [-]>>
  return %1, %2, %3, %4, %5 : tensor<8xf32, #fusion.axes<#b, [-]>>, tensor<4xf32, #fusion.axes<#b, [didx("x")]>>, tensor<8x2xf32, #fusion.axes<#b, [-, -]>>, tensor<2x4xf32, #fusion.axes<#b, [-, -]>>, tensor<4xf32, #fusion.axes<#b, [-]>>
}
