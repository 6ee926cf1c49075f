// REQUIRES: runtime
// RUN: tandem-compile %s --entry=grouped --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s
// RUN: tandem-compile %s --entry=attention --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s
// RUN: tandem-compile %s --entry=one_slice --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s

// CHECK: verified

// An op that needs a dimension of its operands whole waits for all of its slices.
#m = #tandem.mesh<"m", ["x" = 2]>
!rows = tensor<6x3xf32, #fusion.axes<#m, [didx("x"), -]>>
!slices = tensor<6x3xf32, #fusion.axes<#m, [stream("x"), -]>>
!w = tensor<2x3x8xf32, #fusion.axes<#m, [stream(2), -, didx("x")]>>
!ends = tensor<2xi32, #fusion.axes<#m, [-]>>
!y = tensor<6x8xf32, #fusion.axes<#m, [-, didx("x")]>>
func.func @grouped(%x: !rows, %w: !w, %ends: !ends) -> !y {
  %s = fusion.reshard %x {schedule = #fusion.schedule<exchange>} : !rows -> !slices
  %y = fusion.grouped_matmul %s, %w, %ends : !slices, !w, !ends -> !y
  return %y : !y
}

// A slice of keys is folded once, into all columns of its values, also where these are slices.
!v = tensor<6x4xf32, #fusion.axes<#m, [stream("x"), stream(2)]>>
func.func @attention(%q: tensor<6x3xf32, #fusion.axes<#m, [didx("x"), -]>>, %k: !rows, %x: tensor<6x4xf32, #fusion.axes<#m, [didx("x"), -]>>) -> tensor<6x4xf32, #fusion.axes<#m, [didx("x"), stream(2)]>> {
  %v = fusion.reshard %x : tensor<6x4xf32, #fusion.axes<#m, [didx("x"), -]>> -> !v
  %s = fusion.reshard %k : !rows -> tensor<6x3xf32, #fusion.axes<#m, [-, -]>>
  %y = fusion.attention %q, %s, %v : tensor<6x3xf32, #fusion.axes<#m, [didx("x"), -]>>, tensor<6x3xf32, #fusion.axes<#m, [-, -]>>, !v -> tensor<6x4xf32, #fusion.axes<#m, [didx("x"), stream(2)]>>
  return %y : tensor<6x4xf32, #fusion.axes<#m, [didx("x"), stream(2)]>>
}

// Rows of two devices at once, in slices of which each device has one, are one run.
!one = tensor<6x3xf32, #fusion.axes<#m, [stream(2) * stream(1), -]>>
func.func @one_slice(%x: !rows, %k: tensor<5x3xf32, #fusion.axes<#m, [-, -]>>) -> tensor<6x3xf32, #fusion.axes<#m, [-, -]>> {
  %s = fusion.reshard %x {schedule = #fusion.schedule<push, merge = [2]>} : !rows -> !one
  %y = fusion.attention %s, %k, %k : !one, tensor<5x3xf32, #fusion.axes<#m, [-, -]>>, tensor<5x3xf32, #fusion.axes<#m, [-, -]>> -> tensor<6x3xf32>
  %z = fusion.reshard %y : tensor<6x3xf32> -> tensor<6x3xf32, #fusion.axes<#m, [-, -]>>
  return %z : tensor<6x3xf32, #fusion.axes<#m, [-, -]>>
}
