// REQUIRES: runtime
// RUN: tandem-compile %s --entry=slices --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s
// RUN: tandem-compile %s --entry=one_slice --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s

// A slice of features that are not neighbours in memory is a view with two dimensions of them.
// CHECK: verified {{.*}}: ranks 2
#m = #tandem.mesh<"m", ["x" = 2]>
#whole = #fusion.axes<#m, [-, -]>
func.func @slices(%q: tensor<6x4xf32, #whole>, %k: tensor<5x4xf32, #whole>,
                  %v: tensor<5x24xf32, #fusion.axes<#m, [-, serial(2) * stream(3)]>>)
    -> tensor<6x24xf32, #fusion.axes<#m, [-, serial(2) * stream(3)]>> {
  %y = fusion.attention %q, %k, %v : tensor<6x4xf32, #whole>, tensor<5x4xf32, #whole>, tensor<5x24xf32, #fusion.axes<#m, [-, serial(2) * stream(3)]>> -> tensor<6x24xf32, #fusion.axes<#m, [-, serial(2) * stream(3)]>>
  return %y : tensor<6x24xf32, #fusion.axes<#m, [-, serial(2) * stream(3)]>>
}
func.func @one_slice(%q: tensor<6x4xf32, #whole>, %k: tensor<5x4xf32, #whole>,
                     %v: tensor<5x24xf32, #fusion.axes<#m, [-, serial(2) * stream(1)]>>)
    -> tensor<6x24xf32, #fusion.axes<#m, [-, serial(2) * stream(1)]>> {
  %y = fusion.attention %q, %k, %v : tensor<6x4xf32, #whole>, tensor<5x4xf32, #whole>, tensor<5x24xf32, #fusion.axes<#m, [-, serial(2) * stream(1)]>> -> tensor<6x24xf32, #fusion.axes<#m, [-, serial(2) * stream(1)]>>
  return %y : tensor<6x24xf32, #fusion.axes<#m, [-, serial(2) * stream(1)]>>
}
