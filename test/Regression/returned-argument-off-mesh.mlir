// REQUIRES: runtime
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s

// The copy of an argument that is returned ran on all ranks, also on those that have none of it.
// CHECK: verified f: ranks 5
#m = #tandem.mesh<"m", ["x" = 3], devices = [4, 2, 0]>
func.func @f(%0: tensor<3x6xf32, #fusion.axes<#m, [didx("x"), -]>>)
    -> (tensor<3x6xf32, #fusion.axes<#m, [-, -]>>, tensor<3x6xf32, #fusion.axes<#m, [didx("x"), -]>>) {
  %1 = fusion.reshard %0 : tensor<3x6xf32, #fusion.axes<#m, [didx("x"), -]>>
                        -> tensor<3x6xf32, #fusion.axes<#m, [-, -]>>
  return %1, %0 : tensor<3x6xf32, #fusion.axes<#m, [-, -]>>, tensor<3x6xf32, #fusion.axes<#m, [didx("x"), -]>>
}
