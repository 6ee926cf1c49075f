// REQUIRES: runtime
// RUN: tandem-opt %s --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir | FileCheck %s --check-prefix=IR
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s

// Iteration i of the copy writes slice (i / 2, i mod 2); iteration i of the permutation reads (i mod 2, i / 2), which is
// there only when the copy's whole loop is done.
// IR: scf.for
// IR: memref.subview %arg0
// IR: scf.for
// IR: hostir.sync %[[MAIN:.*]] after
// IR: scf.for
// IR: hostir.sync %{{.*}} after %[[MAIN]]
// IR: memref.subview %arg1
// CHECK: verified f: ranks 2
#m = #tandem.mesh<"m", ["x" = 2]>
func.func @f(%0: tensor<2x4xf32, #fusion.axes<#m, [-, -]>>)
    -> tensor<4x2xf32, #fusion.axes<#m, [didx("x") * stream, stream]>> {
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<pipeline>}
      : tensor<2x4xf32, #fusion.axes<#m, [-, -]>> -> tensor<2x4xf32, #fusion.axes<#m, [stream, didx("x") * stream]>>
  %2 = fusion.permute %1 [1, 0] : tensor<2x4xf32, #fusion.axes<#m, [stream, didx("x") * stream]>>
                               -> tensor<4x2xf32, #fusion.axes<#m, [didx("x") * stream, stream]>>
  return %2 : tensor<4x2xf32, #fusion.axes<#m, [didx("x") * stream, stream]>>
}
