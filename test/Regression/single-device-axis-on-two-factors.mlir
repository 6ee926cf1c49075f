// RUN: tandem-opt --tandem-lower=gather=after %s | FileCheck %s

// The axis of one device splits a batch dimension of one operand and the contraction of the other.

// CHECK-LABEL: hostir.program @f
// CHECK: hostir.matmul
#m = #tandem.mesh<"m", ["x" = 2, "y" = 1]>
func.func @f(
    %a: tensor<3x16x1xf32, #fusion.axes<#m, [-, -, didx("y")], partial = ["x"]>>,
    %b: tensor<1x1x3xf32, #fusion.axes<#m, [didx("y"), -, -]>>) -> tensor<3x16x3xf32> {
  %0 = fusion.matmul %a, %b
      : tensor<3x16x1xf32, #fusion.axes<#m, [-, -, didx("y")], partial = ["x"]>>,
        tensor<1x1x3xf32, #fusion.axes<#m, [didx("y"), -, -]>> -> tensor<3x16x3xf32>
  return %0 : tensor<3x16x3xf32>
}
