// REQUIRES: runtime
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s

// Of the extents of 1 of a slice, the stream digit's vanishes and the others stay: its shape alone does not say which.
// CHECK: verified f: ranks 4
#m = #tandem.mesh<"m", ["x" = 4, "y" = 1]>
func.func @f(%v0: tensor<1x1x10xi32, #fusion.axes<#m, [-, -, -]>>)
    -> tensor<1x10x1xi32, #fusion.axes<#m, [-, serial(2) * stream, -]>> {
  %v1 = fusion.permute %v0 [0, 2, 1] : tensor<1x1x10xi32, #fusion.axes<#m, [-, -, -]>>
                                    -> tensor<1x10x1xi32, #fusion.axes<#m, [-, serial(2) * stream, -]>>
  return %v1 : tensor<1x10x1xi32, #fusion.axes<#m, [-, serial(2) * stream, -]>>
}
