// RUN: tandem-opt %s -fusion-propagate-axes -fusion-verify="stage=propagated" | FileCheck %s

// Results decide operands, through every op.

#m = #tandem.mesh<"m", ["x" = 2, "y" = 2]>
// CHECK-LABEL: @reduce(
// CHECK-SAME:    %arg0: tensor<8x4x16xf32, #fusion.axes<#m, [didx("x"), -, didx("y")]>>
func.func @reduce(%0: tensor<8x4x16xf32>) -> tensor<8x16xf32, #fusion.axes<#m, [didx("x"), didx("y")]>> {
  %1 = fusion.reduce sum %0 dims [1] : tensor<8x4x16xf32> -> tensor<8x16xf32, #fusion.axes<#m, [didx("x"), didx("y")]>>
  return %1 : tensor<8x16xf32, #fusion.axes<#m, [didx("x"), didx("y")]>>
}

// What is repeated has no digit.
// CHECK-LABEL: @broadcast(
// CHECK-SAME:    %arg0: tensor<8x1xf32, #fusion.axes<#m, [didx("x"), -]>>
func.func @broadcast(%0: tensor<8x1xf32>) -> tensor<4x8x16xf32, #fusion.axes<#m, [-, didx("x"), didx("y")]>> {
  %1 = fusion.broadcast %0 dims [1, 2] : tensor<8x1xf32> -> tensor<4x8x16xf32, #fusion.axes<#m, [-, didx("x"), didx("y")]>>
  return %1 : tensor<4x8x16xf32, #fusion.axes<#m, [-, didx("x"), didx("y")]>>
}

// CHECK-LABEL: @reshape(
// CHECK-SAME:    %arg0: tensor<32x4xf32, #fusion.axes<#m, [didx("x") * serial(4) * didx("y"), -]>>
func.func @reshape(%0: tensor<32x4xf32>) -> tensor<8x4x4xf32, #fusion.axes<#m, [didx("x"), didx("y"), -]>> {
  %1 = fusion.reshape %0 : tensor<32x4xf32> -> tensor<8x4x4xf32, #fusion.axes<#m, [didx("x"), didx("y"), -]>>
  return %1 : tensor<8x4x4xf32, #fusion.axes<#m, [didx("x"), didx("y"), -]>>
}

// What is cut or concatenated is whole.
// CHECK-LABEL: @slice(
// CHECK-SAME:    %arg0: tensor<8x4xf32, #fusion.axes<#m, [didx("x"), -]>>
func.func @slice(%0: tensor<8x4xf32>) -> tensor<8x2xf32, #fusion.axes<#m, [didx("x"), didx("y")]>> {
  %1 = fusion.slice %0 offsets [0, 2] steps [1, 1] : tensor<8x4xf32> -> tensor<8x2xf32, #fusion.axes<#m, [didx("x"), didx("y")]>>
  return %1 : tensor<8x2xf32, #fusion.axes<#m, [didx("x"), didx("y")]>>
}

// CHECK-LABEL: @concat(
// CHECK-SAME:    %arg0: tensor<8x4xf32, #fusion.axes<#m, [didx("x"), -]>>, %arg1: tensor<8x2xf32, #fusion.axes<#m, [didx("x"), -]>>
func.func @concat(%0: tensor<8x4xf32>, %1: tensor<8x2xf32>) -> tensor<8x6xf32, #fusion.axes<#m, [didx("x"), didx("y")]>> {
  %2 = fusion.concat %0, %1 dim 1 : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<8x6xf32, #fusion.axes<#m, [didx("x"), didx("y")]>>
  return %2 : tensor<8x6xf32, #fusion.axes<#m, [didx("x"), didx("y")]>>
}

// Through a chain of ops, to every argument.
// CHECK-LABEL: @chain(
// CHECK-SAME:    %arg0: tensor<8x4xf32, #fusion.axes<#m, [-, -]>>, %arg1: tensor<4x16xf32, #fusion.axes<#m, [-, didx("y")]>>, %arg2: tensor<16xf32, #fusion.axes<#m, [didx("y")]>>
func.func @chain(%0: tensor<8x4xf32>, %1: tensor<4x16xf32>, %2: tensor<16xf32>) -> tensor<16xf32, #fusion.axes<#m, [didx("y")]>> {
  %3 = fusion.matmul %0, %1 : tensor<8x4xf32>, tensor<4x16xf32> -> tensor<8x16xf32>
  %4 = fusion.broadcast %2 dims [1] : tensor<16xf32> -> tensor<8x16xf32>
  %5 = arith.addf %3, %4 : tensor<8x16xf32>
  %6 = math.tanh %5 : tensor<8x16xf32>
  %7 = fusion.reduce max %6 dims [0] : tensor<8x16xf32> -> tensor<16xf32, #fusion.axes<#m, [didx("y")]>>
  return %7 : tensor<16xf32, #fusion.axes<#m, [didx("y")]>>
}

// A contracted dimension is as in the other operand, if nothing else says anything: the weight is split, so the terms are
// scattered behind it. Behind all else: the gradient of an activation says what the activation is first.
// CHECK-LABEL: @contracted_beside(
// CHECK-SAME:    %arg0: tensor<8x4xf32, #fusion.axes<#m, [didx("x"), didx("y")]>>
func.func @contracted_beside(%0: tensor<8x4xf32>, %1: tensor<4x16xf32, #fusion.axes<#m, [didx("y"), -]>>) -> tensor<8x16xf32, #fusion.axes<#m, [didx("x") * didx("y"), -]>> {
  %2 = fusion.matmul %0, %1 : tensor<8x4xf32>, tensor<4x16xf32, #fusion.axes<#m, [didx("y"), -]>> -> tensor<8x16xf32, #fusion.axes<#m, [didx("x") * didx("y"), -]>>
  return %2 : tensor<8x16xf32, #fusion.axes<#m, [didx("x") * didx("y"), -]>>
}
