// REQUIRES: runtime
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s

// Only elementwise ops have constants in their kernels: all others (and the caller) need them in a buffer.
// CHECK: verified f: ranks 2
#m = #tandem.mesh<"m", ["x" = 2]>
func.func @f(%0: tensor<3x4xf32, #fusion.axes<#m, [-, -]>>)
    -> (tensor<4x5xf32, #fusion.axes<#m, [didx("x"), -]>>, tensor<5x4xf32, #fusion.axes<#m, [-, -]>>,
        tensor<3x5xf32, #fusion.axes<#m, [-, -]>>) {
  %1 = arith.constant dense<0.5> : tensor<4x5xf32, #fusion.axes<#m, [-, -]>>
  %2 = fusion.reshard %1 : tensor<4x5xf32, #fusion.axes<#m, [-, -]>>
                        -> tensor<4x5xf32, #fusion.axes<#m, [didx("x"), -]>>
  %3 = fusion.permute %1 [1, 0] : tensor<4x5xf32, #fusion.axes<#m, [-, -]>> -> tensor<5x4xf32, #fusion.axes<#m, [-, -]>>
  %4 = fusion.matmul %0, %1 : tensor<3x4xf32, #fusion.axes<#m, [-, -]>>, tensor<4x5xf32, #fusion.axes<#m, [-, -]>>
                           -> tensor<3x5xf32, #fusion.axes<#m, [-, -]>>
  return %2, %3, %4 : tensor<4x5xf32, #fusion.axes<#m, [didx("x"), -]>>, tensor<5x4xf32, #fusion.axes<#m, [-, -]>>,
                      tensor<3x5xf32, #fusion.axes<#m, [-, -]>>
}
