// RUN: tandem-opt %s -split-input-file -fusion-propagate-axes -fusion-verify="stage=propagated" -o %t
// RUN: FileCheck %s --input-file %t
// RUN: tandem-opt %s -split-input-file -fusion-propagate-axes -fusion-insert-reshards -fusion-verify | FileCheck %s --check-prefix=LOCAL
// RUN: tandem-opt %s -split-input-file -fusion-propagate-axes -fusion-insert-reshards="gather=after" -fusion-verify | FileCheck %s --check-prefix=LOCAL

// Operands that do not fit each other, and a result that says nothing: one of them gives way.

#m = #tandem.mesh<"m", ["x" = 2, "y" = 2]>

// A mesh axis on M and on N: the weight stays, the other one is gathered.
// CHECK-LABEL: @on_both
// CHECK: fusion.matmul {{.*}} -> tensor<8x16xf32, #fusion.axes<#m, [didx("y"), didx("x")]>>
// LOCAL-LABEL: @on_both
// LOCAL-NEXT:    %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#m, [didx("y"), -]>>
// LOCAL-NEXT:    fusion.matmul %[[G]], %arg1
func.func @on_both(%0: tensor<8x4xf32, #fusion.axes<#m, [didx("y") * didx("x"), -]>>, %1: tensor<4x16xf32, #fusion.axes<#m, [-, didx("x")]>>) {
  %2 = fusion.matmul %0, %1 : tensor<8x4xf32, #fusion.axes<#m, [didx("y") * didx("x"), -]>>, tensor<4x16xf32, #fusion.axes<#m, [-, didx("x")]>> -> tensor<8x16xf32>
  return
}

// A dimension of the result wins over a contraction that one operand has alone; that keeps what both have.
// CHECK-LABEL: @result_before_contraction
// CHECK: fusion.matmul {{.*}} -> tensor<8x16xf32, #fusion.axes<#m, [-, didx("x")], partial = ["y"]>>
// LOCAL-LABEL: @result_before_contraction
// LOCAL-NEXT:    %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#m, [-, didx("y")]>>
// LOCAL-NEXT:    fusion.matmul %[[G]], %arg1
func.func @result_before_contraction(%0: tensor<8x4xf32, #fusion.axes<#m, [-, didx("y") * didx("x")]>>, %1: tensor<4x16xf32, #fusion.axes<#m, [didx("y"), didx("x")]>>) {
  %2 = fusion.matmul %0, %1 : tensor<8x4xf32, #fusion.axes<#m, [-, didx("y") * didx("x")]>>, tensor<4x16xf32, #fusion.axes<#m, [didx("y"), didx("x")]>> -> tensor<8x16xf32>
  return
}

// Contracted dimensions that are split differently: the larger operand stays. One that is split finer is no conflict.
// CHECK-LABEL: @contraction
// CHECK: fusion.matmul {{.*}} -> tensor<8x16xf32, #fusion.axes<#m, [-, -], partial = ["y"]>>
// CHECK: fusion.matmul {{.*}} -> tensor<8x16xf32, #fusion.axes<#m, [-, -], partial = ["x", "y"]>>
// LOCAL-LABEL: @contraction
// LOCAL-NEXT:    %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#m, [-, didx("y")]>>
// LOCAL-NEXT:    fusion.matmul %[[G]], %arg1
// LOCAL-NEXT:    %[[F:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#m, [-, didx("x") * didx("y")]>>
// LOCAL-NEXT:    fusion.matmul %[[F]], %arg2
func.func @contraction(%0: tensor<8x4xf32, #fusion.axes<#m, [-, didx("x")]>>, %1: tensor<4x16xf32, #fusion.axes<#m, [didx("y"), -]>>, %2: tensor<4x16xf32, #fusion.axes<#m, [didx("x") * didx("y"), -]>>) {
  %3 = fusion.matmul %0, %1 : tensor<8x4xf32, #fusion.axes<#m, [-, didx("x")]>>, tensor<4x16xf32, #fusion.axes<#m, [didx("y"), -]>> -> tensor<8x16xf32>
  %4 = fusion.matmul %0, %2 : tensor<8x4xf32, #fusion.axes<#m, [-, didx("x")]>>, tensor<4x16xf32, #fusion.axes<#m, [didx("x") * didx("y"), -]>> -> tensor<8x16xf32>
  return
}

// What is needed whole is gathered, along its axis only.
// CHECK-LABEL: @whole
// CHECK: fusion.slice {{.*}} -> tensor<8x2xf32, #fusion.axes<#m, [didx("y"), -]>>
// CHECK: fusion.concat {{.*}} -> tensor<8x8xf32, #fusion.axes<#m, [didx("y"), -]>>
// CHECK: fusion.concat {{.*}} -> tensor<16x4xf32, #fusion.axes<#m, [-, didx("x")]>>
// CHECK: fusion.call {{.*}} -> tensor<8x4xf32, #fusion.axes<#m, [didx("y"), -]>>
// LOCAL-LABEL: @whole
// LOCAL-NEXT:    %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#m, [didx("y"), -]>>
// LOCAL-NEXT:    fusion.slice %[[G]]
// LOCAL-NEXT:    %[[S:.*]] = fusion.reshard %arg1 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#m, [didx("y"), -]>>
// LOCAL-NEXT:    fusion.concat %[[G]], %[[S]]
// LOCAL:         fusion.concat
// LOCAL-NEXT:    fusion.call @kernel(%[[G]])
func.func @whole(%0: tensor<8x4xf32, #fusion.axes<#m, [didx("y"), didx("x")]>>, %1: tensor<8x4xf32, #fusion.axes<#m, [-, -]>>) {
  %2 = fusion.slice %0 offsets [0, 1] steps [1, 1] : tensor<8x4xf32, #fusion.axes<#m, [didx("y"), didx("x")]>> -> tensor<8x2xf32>
  %3 = fusion.concat %0, %1 dim 1 : (tensor<8x4xf32, #fusion.axes<#m, [didx("y"), didx("x")]>>, tensor<8x4xf32, #fusion.axes<#m, [-, -]>>) -> tensor<8x8xf32>
  %4 = fusion.concat %0, %1 dim 0 : (tensor<8x4xf32, #fusion.axes<#m, [didx("y"), didx("x")]>>, tensor<8x4xf32, #fusion.axes<#m, [-, -]>>) -> tensor<16x4xf32>
  %5 = fusion.call @kernel(%0) dims "s_ -> s_" : (tensor<8x4xf32, #fusion.axes<#m, [didx("y"), didx("x")]>>) -> tensor<8x4xf32>
  return
}
func.func private @kernel(tensor<8x4xf32>) -> tensor<8x4xf32>

// What a bias is added to is reduced.
// CHECK-LABEL: @bias
// CHECK: fusion.matmul {{.*}} bias {{.*}} -> tensor<8x16xf32, #fusion.axes<#m, [-, didx("y")]>>
// LOCAL-LABEL: @bias
// LOCAL-NEXT:    fusion.reshard %arg2
// LOCAL-NEXT:    %[[M:.*]] = fusion.matmul %arg0, %arg1 : {{.*}} partial = ["x"]
// LOCAL-NEXT:    %[[R:.*]] = fusion.reshard %[[M]] : {{.*}} -> tensor<8x16xf32, #fusion.axes<#m, [-, didx("y")]>>
// LOCAL:         arith.addf %[[R]]
func.func @bias(%0: tensor<8x4xf32, #fusion.axes<#m, [-, didx("x")]>>, %1: tensor<4x16xf32, #fusion.axes<#m, [didx("x"), didx("y")]>>, %2: tensor<16xf32, #fusion.axes<#m, [-]>>) {
  %3 = fusion.matmul %0, %1 bias %2 : tensor<8x4xf32, #fusion.axes<#m, [-, didx("x")]>>, tensor<4x16xf32, #fusion.axes<#m, [didx("x"), didx("y")]>>, tensor<16xf32, #fusion.axes<#m, [-]>> -> tensor<8x16xf32>
  return
}

// Behind all this stands what a consumer says, if it says something.
// CHECK-LABEL: @consumer_first
// CHECK: fusion.matmul {{.*}} -> tensor<8x16xf32, #fusion.axes<#m, [didx("x"), -]>>
func.func @consumer_first(%0: tensor<8x4xf32, #fusion.axes<#m, [didx("x"), -]>>, %1: tensor<4x16xf32, #fusion.axes<#m, [-, didx("x")]>>) {
  %2 = fusion.matmul %0, %1 : tensor<8x4xf32, #fusion.axes<#m, [didx("x"), -]>>, tensor<4x16xf32, #fusion.axes<#m, [-, didx("x")]>> -> tensor<8x16xf32>
  %3 = math.exp %2 : tensor<8x16xf32>
  %4 = fusion.permute %3 [1, 0] : tensor<8x16xf32> -> tensor<16x8xf32, #fusion.axes<#m, [-, didx("x")]>>
  return
}

// -----

// The mesh of the larger operand.
#a = #tandem.mesh<"a", ["x" = 2]>
#b = #tandem.mesh<"b", ["x" = 2], devices = [2, 3]>
// CHECK-LABEL: @meshes
// CHECK: fusion.matmul {{.*}} -> tensor<8x16xf32, #fusion.axes<#b, [-, didx("x")]>>
// LOCAL-LABEL: @meshes
// LOCAL-NEXT:    %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#b, [-, -]>>
// LOCAL-NEXT:    fusion.matmul %[[G]], %arg1
func.func @meshes(%0: tensor<8x4xf32, #fusion.axes<#a, [-, -]>>, %1: tensor<4x16xf32, #fusion.axes<#b, [-, didx("x")]>>) {
  %2 = fusion.matmul %0, %1 : tensor<8x4xf32, #fusion.axes<#a, [-, -]>>, tensor<4x16xf32, #fusion.axes<#b, [-, didx("x")]>> -> tensor<8x16xf32>
  return
}

// -----

#m = #tandem.mesh<"m", ["x" = 4, "y" = 2]>

// A reshape keeps the mesh axes that fit; the operand is gathered along the others.
// CHECK-LABEL: @reshape_gathers
// CHECK: fusion.reshape {{.*}} -> tensor<8x3xf32, #fusion.axes<#m, [didx("y"), -]>>
// LOCAL-LABEL: @reshape_gathers
// LOCAL-NEXT:    %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<6x4xf32, #fusion.axes<#m, [didx("y"), -]>>
// LOCAL-NEXT:    fusion.reshape %[[G]]
func.func @reshape_gathers(%0: tensor<6x4xf32, #fusion.axes<#m, [didx("y"), didx("x")]>>) {
  %1 = fusion.reshape %0 : tensor<6x4xf32, #fusion.axes<#m, [didx("y"), didx("x")]>> -> tensor<8x3xf32>
  return
}

// Slices that are none of the result's end here.
// CHECK-LABEL: @reshape_ends_slices
// CHECK: fusion.reshape {{.*}} -> tensor<16x3xf32, #fusion.axes<#m, [didx("y"), -]>>
// LOCAL-LABEL: @reshape_ends_slices
// LOCAL-NEXT:    %[[S:.*]] = math.exp %arg0
// LOCAL-NEXT:    fusion.reshape %[[S]]
func.func @reshape_ends_slices(%0: tensor<6x8xf32, #fusion.axes<#m, [didx("y") * stream(3), -]>>) {
  %1 = math.exp %0 : tensor<6x8xf32, #fusion.axes<#m, [didx("y") * stream(3), -]>>
  %2 = fusion.reshape %1 : tensor<6x8xf32, #fusion.axes<#m, [didx("y") * stream(3), -]>> -> tensor<16x3xf32>
  return
}
