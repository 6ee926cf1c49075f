// RUN: tandem-opt %s --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --split-input-file | FileCheck %s

// Every device holds a copy of the result, which must be equal to the last bit. A slice of columns lies otherwise in its
// owner's buffer than in what is gathered, so the owner multiplies it where it has been copied to, as the others do: a
// library may add up in another order if strides are others.
//
// CHECK-LABEL: hostir.program @columns(
// CHECK: hostir.copy
// CHECK: hostir.matmul
// CHECK: hostir.recv
// CHECK: hostir.matmul
#m = #tandem.mesh<"m", ["x" = 2]>
#r = #fusion.axes<#m, [-, -]>
#gathered = #fusion.axes<#m, [-, stream(4)]>
func.func @columns(%x: tensor<24x24xf32, #r>, %w: tensor<24x12xf32, #fusion.axes<#m, [-, didx("x")]>>)
    -> tensor<24x12xf32, #gathered> {
  %g = fusion.reshard %w {schedule = #fusion.schedule<exchange>}
      : tensor<24x12xf32, #fusion.axes<#m, [-, didx("x")]>> -> tensor<24x12xf32, #gathered>
  %y = fusion.matmul %x, %g : tensor<24x24xf32, #r>, tensor<24x12xf32, #gathered> -> tensor<24x12xf32, #gathered>
  return %y : tensor<24x12xf32, #gathered>
}

// -----

// Rows lie alike on both sides: no copy.
//
// CHECK-LABEL: hostir.program @rows(
// CHECK-NOT: hostir.copy
// CHECK: hostir.matmul
// CHECK: hostir.recv
#m = #tandem.mesh<"m", ["x" = 2]>
#r = #fusion.axes<#m, [-, -]>
#gathered = #fusion.axes<#m, [stream(4), -]>
func.func @rows(%x: tensor<24x24xf32, #fusion.axes<#m, [didx("x"), -]>>, %w: tensor<24x12xf32, #r>)
    -> tensor<24x12xf32, #gathered> {
  %g = fusion.reshard %x {schedule = #fusion.schedule<exchange>}
      : tensor<24x24xf32, #fusion.axes<#m, [didx("x"), -]>> -> tensor<24x24xf32, #gathered>
  %y = fusion.matmul %g, %w : tensor<24x24xf32, #gathered>, tensor<24x12xf32, #r> -> tensor<24x12xf32, #gathered>
  return %y : tensor<24x12xf32, #gathered>
}
