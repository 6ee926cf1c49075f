// REQUIRES: runtime
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s

// Of two dimensions of extent 1 and stride 9 one goes and one stays: a subview cannot say which.
// CHECK: verified f: ranks 1
#m = #tandem.mesh<"m", ["x" = 1]>
func.func @f(%0: tensor<3x1x3x3xbf16, #fusion.axes<#m, [-, -, -, didx("x")]>>)
    -> tensor<3x3x1x3xbf16, #fusion.axes<#m, [-, didx("x"), -, -]>> {
  %1 = fusion.permute %0 [0, 2, 1, 3] : tensor<3x1x3x3xbf16, #fusion.axes<#m, [-, -, -, didx("x")]>>
                                     -> tensor<3x3x1x3xbf16, #fusion.axes<#m, [-, didx("x"), -, -]>>
  return %1 : tensor<3x3x1x3xbf16, #fusion.axes<#m, [-, didx("x"), -, -]>>
}
