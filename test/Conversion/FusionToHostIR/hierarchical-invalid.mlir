// RUN: tandem-opt %s --split-input-file --verify-diagnostics --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir

// What the schedule hierarchical does not take, said at the reshard that names it.

#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>
!x = tensor<48x16xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
!slices = tensor<48x16xf32, #fusion.axes<#pod, [stream("node") * stream("gpu"), -]>>
!w = tensor<16x24xf32, #fusion.axes<#pod, [-, -]>>
!y = tensor<48x24xf32, #fusion.axes<#pod, [stream("node") * stream("gpu"), -]>>
func.func @replicated(%x: !x, %w: !w) -> !y {
  // expected-error @below {{schedule hierarchical: 'merge' takes matmuls whose results differ between the devices along "node"}}
  %0 = fusion.reshard %x {schedule = #fusion.schedule<hierarchical, merge = "node">} : !x -> !slices
  %1 = fusion.matmul %0, %w : !slices, !w -> !y
  return %1 : !y
}

// -----

#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>
!x = tensor<48x48xf32, #fusion.axes<#pod, [-, didx("node") * didx("gpu")]>>
!w = tensor<48x16xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
!terms = tensor<48x16xf32, #fusion.axes<#pod, [stream("node") * stream("gpu"), -], partial = ["node", "gpu"]>>
!y = tensor<48x16xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
func.func @spread_reduction(%x: !x, %w: !w) -> !y {
  %0 = fusion.matmul %x, %w : !x, !w -> !terms
  // expected-error @below {{schedule hierarchical: expected a gather with spread = send, found a reduction}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<hierarchical, spread = "send">} : !terms -> !y
  return %1 : !y
}
