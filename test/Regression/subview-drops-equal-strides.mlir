// REQUIRES: runtime
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s

// All dimensions of the permuted piece, 1x1x3x1, have stride 1: upstream's rule which of them a subview drops goes by
// strides and left 3x1 of what is 1x3.
// CHECK: verified f: ranks 2
#m = #tandem.mesh<"m", ["x" = 2, "y" = 1]>
func.func @f(%0: tensor<3x1x1x2xf32, #fusion.axes<#m, [didx("y"), -, -, didx("x")]>>)
    -> tensor<1x1x3x2xf32, #fusion.axes<#m, [-, didx("y"), -, didx("x")]>> {
  %1 = fusion.permute %0 [1, 2, 0, 3] : tensor<3x1x1x2xf32, #fusion.axes<#m, [didx("y"), -, -, didx("x")]>>
                                     -> tensor<1x1x3x2xf32, #fusion.axes<#m, [-, -, didx("y"), didx("x")]>>
  %2 = fusion.reshard %1 : tensor<1x1x3x2xf32, #fusion.axes<#m, [-, -, didx("y"), didx("x")]>>
                        -> tensor<1x1x3x2xf32, #fusion.axes<#m, [-, didx("y"), -, didx("x")]>>
  return %2 : tensor<1x1x3x2xf32, #fusion.axes<#m, [-, didx("y"), -, didx("x")]>>
}
