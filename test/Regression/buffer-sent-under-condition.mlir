// REQUIRES: runtime
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s

// A message that stands in a loop or condition of its group was no use of its buffer, which ended before it.
// CHECK: verified f: ranks 2
#m = #tandem.mesh<"m", ["x" = 1, "y" = 2]>
func.func @f(%0: tensor<1x2xf32, #fusion.axes<#m, [-, -]>>) -> tensor<1x2xf32, #fusion.axes<#m, [-, -]>> {
  %1 = fusion.reshard %0 : tensor<1x2xf32, #fusion.axes<#m, [-, -]>>
                        -> tensor<1x2xf32, #fusion.axes<#m, [didx("x"), didx("y")]>>
  %2 = fusion.reshard %1 : tensor<1x2xf32, #fusion.axes<#m, [didx("x"), didx("y")]>>
                        -> tensor<1x2xf32, #fusion.axes<#m, [-, -]>>
  return %2 : tensor<1x2xf32, #fusion.axes<#m, [-, -]>>
}
