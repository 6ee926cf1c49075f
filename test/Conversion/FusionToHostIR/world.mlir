// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir %s | FileCheck %s --check-prefix=WHOLE
// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir=ranks=4 %s | FileCheck %s --check-prefix=PART

// In a world with more ranks than the mesh the others run nothing of it.

// WHOLE-LABEL: hostir.program @gather
// WHOLE-NOT: hostir.in_mesh
// PART-LABEL: hostir.program @gather
// PART: %[[MINE:.+]] = hostir.in_mesh
// PART: scf.if %[[MINE]] {
// PART: hostir.group
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @gather(%x: tensor<2x8xf32, #fusion.axes<#tp, [didx("x"), -]>>)
    -> tensor<2x8xf32, #fusion.axes<#tp, [stream, -]>> {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>}
      : tensor<2x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<2x8xf32, #fusion.axes<#tp, [stream, -]>>
  return %0 : tensor<2x8xf32, #fusion.axes<#tp, [stream, -]>>
}
