// RUN: not tandem-compile %s -o %t.tsp 2>&1 | FileCheck %s

// A tensor beyond the size that a runtime accepts: the error had no place.
// CHECK: size-over-limit.mlir:[[# @LINE + 3]]:1: error: the stream program is invalid: {{.*}}f32[1099511627776] has 4398046511104 bytes of elements, over the limit of
#m = #tandem.mesh<"m", ["x" = 1]>
#whole = #fusion.axes<#m, [-]>
func.func @f(%x: tensor<1099511627776xf32, #whole>) -> tensor<1099511627776xf32, #whole> {
  return %x : tensor<1099511627776xf32, #whole>
}
