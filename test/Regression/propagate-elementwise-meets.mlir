// RUN: tandem-opt %s -fusion-propagate-axes -fusion-verify="stage=propagated" | FileCheck %s

// The result of an elementwise op is decided by its consumer, an operand by its producer: they are made one type.
// CHECK-LABEL: @f
// CHECK: %[[R:.*]] = fusion.reshard %{{.*}} -> tensor<9x4xf32, #fusion.axes<{{.*}}, [-, didx("x")]>>
// CHECK: arith.mulf %[[R]], %{{.*}} : tensor<9x4xf32, #fusion.axes<{{.*}}, [-, didx("x")]>>
#m = #tandem.mesh<"m", ["x" = 2]>
func.func @f(%0: tensor<9x2x4xf32, #fusion.axes<#m, [-, -, -]>>)
    -> tensor<4x9xf32, #fusion.axes<#m, [didx("x"), -]>> {
  %1 = fusion.reduce sum %0 dims [1] : tensor<9x2x4xf32, #fusion.axes<#m, [-, -, -]>> -> tensor<9x4xf32>
  %2 = arith.constant dense<3.0> : tensor<9x4xf32>
  %3 = arith.mulf %1, %2 : tensor<9x4xf32>
  %4 = fusion.permute %3 [1, 0] : tensor<9x4xf32> -> tensor<4x9xf32, #fusion.axes<#m, [didx("x"), -]>>
  return %4 : tensor<4x9xf32, #fusion.axes<#m, [didx("x"), -]>>
}
