// REQUIRES: runtime
// RUN: tandem-compile %s --gather=after --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s

// The bias is added to the reduced result, so it is resharded apart from the matmul: before it, since the matmul reads the
// same value.
// CHECK: verified f: ranks 2
#m = #tandem.mesh<"m", ["x" = 2]>
func.func @f(%x: tensor<4xf32, #fusion.axes<#m, [-]>>, %w: tensor<4x4xf32, #fusion.axes<#m, [-, didx("x")]>>)
    -> tensor<4xf32, #fusion.axes<#m, [didx("x")]>> {
  %y = fusion.matmul %x, %w bias %x {transpose_b} : tensor<4xf32, #fusion.axes<#m, [-]>>, tensor<4x4xf32, #fusion.axes<#m, [-, didx("x")]>>, tensor<4xf32, #fusion.axes<#m, [-]>> -> tensor<4xf32, #fusion.axes<#m, [didx("x")]>>
  return %y : tensor<4xf32, #fusion.axes<#m, [didx("x")]>>
}
