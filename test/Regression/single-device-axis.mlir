// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --split-input-file %s | FileCheck %s

// A mesh axis of one device moves nothing: beside it the reduction is one step.

// CHECK-LABEL: hostir.program @reduction
// CHECK: hostir.collective all_reduce {{.*}} via %[[CH:.+]] on
#grid = #tandem.mesh<"grid", ["x" = 2, "y" = 1]>
func.func @reduction(%t: tensor<4x6xf32, #fusion.axes<#grid, [-, -], partial = ["x", "y"]>>)
    -> tensor<4x6xf32, #fusion.axes<#grid, [didx("y"), -]>> {
  %0 = fusion.reshard %t : tensor<4x6xf32, #fusion.axes<#grid, [-, -], partial = ["x", "y"]>>
                        -> tensor<4x6xf32, #fusion.axes<#grid, [didx("y"), -]>>
  return %0 : tensor<4x6xf32, #fusion.axes<#grid, [didx("y"), -]>>
}

// -----

// A gather in a loop with another reshard: only the fallback runs the loop.

// CHECK-LABEL: hostir.program @two_gathers
// CHECK: hostir.collective broadcast
// CHECK: hostir.collective all_gather
#grid = #tandem.mesh<"grid", ["x" = 2, "y" = 2]>
func.func @two_gathers(%a: tensor<2x6xf32, #fusion.axes<#grid, [didx("x"), didx("y")]>>)
    -> tensor<2x6xf32, #fusion.axes<#grid, [stream, -]>> {
  %0 = fusion.reshard %a
      : tensor<2x6xf32, #fusion.axes<#grid, [didx("x"), didx("y")]>> -> tensor<2x6xf32, #fusion.axes<#grid, [stream, didx("y")]>>
  %1 = fusion.reshard %0
      : tensor<2x6xf32, #fusion.axes<#grid, [stream, didx("y")]>> -> tensor<2x6xf32, #fusion.axes<#grid, [stream, -]>>
  return %1 : tensor<2x6xf32, #fusion.axes<#grid, [stream, -]>>
}
