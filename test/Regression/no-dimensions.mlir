// REQUIRES: runtime
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s

// A permutation of no dimensions is no map, and a reduction over none no reduction.
// CHECK: verified f: ranks 2
#m = #tandem.mesh<"m", ["x" = 2]>
func.func @f(%0: tensor<8xf32, #fusion.axes<#m, [didx("x")]>>)
    -> (tensor<f32, #fusion.axes<#m, []>>, tensor<f32, #fusion.axes<#m, []>>) {
  %1 = fusion.reduce sum %0 dims [0] : tensor<8xf32, #fusion.axes<#m, [didx("x")]>> -> tensor<f32, #fusion.axes<#m, []>>
  %2 = fusion.permute %1 [] : tensor<f32, #fusion.axes<#m, []>> -> tensor<f32, #fusion.axes<#m, []>>
  %3 = math.tanh %1 : tensor<f32, #fusion.axes<#m, []>>
  %4 = fusion.reduce max %3 dims [] : tensor<f32, #fusion.axes<#m, []>> -> tensor<f32, #fusion.axes<#m, []>>
  return %2, %4 : tensor<f32, #fusion.axes<#m, []>>, tensor<f32, #fusion.axes<#m, []>>
}
