// REQUIRES: runtime
// RUN: tandem-compile %s --entry=slices --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s
// RUN: tandem-compile %s --entry=one_slice --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s
// RUN: tandem-compile %s --entry=batches --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s
// RUN: tandem-compile %s --entry=uneven_batches --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s

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

// Batch indices that are not neighbours are dimensions before the rows, not features.
#all = #fusion.axes<#m, [-, -, -]>
#batches = #fusion.axes<#m, [serial(2) * stream(3), -, -]>
func.func @batches(%q: tensor<12x4x8xf32, #all>, %k: tensor<12x5x8xf32, #all>, %v: tensor<12x5x6xf32, #all>) -> tensor<12x4x6xf32, #batches> {
  %y = fusion.attention %q, %k, %v : tensor<12x4x8xf32, #all>, tensor<12x5x8xf32, #all>, tensor<12x5x6xf32, #all> -> tensor<12x4x6xf32, #batches>
  return %y : tensor<12x4x6xf32, #batches>
}
#uneven = #fusion.axes<#m, [serial(2) * stream(5), -, serial(2) * stream(3)]>
func.func @uneven_batches(%q: tensor<18x4x8xf32, #all>, %k: tensor<18x5x8xf32, #all>, %v: tensor<18x5x24xf32, #all>) -> tensor<18x4x24xf32, #uneven> {
  %y = fusion.attention %q, %k, %v {scale = 0.5 : f64} : tensor<18x4x8xf32, #all>, tensor<18x5x8xf32, #all>, tensor<18x5x24xf32, #all> -> tensor<18x4x24xf32, #uneven>
  return %y : tensor<18x4x24xf32, #uneven>
}
