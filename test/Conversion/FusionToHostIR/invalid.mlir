// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --split-input-file --verify-diagnostics %s


#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @exchange_reduces(%x: tensor<6x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>)
    -> tensor<6x8xf32, #fusion.axes<#tp, [stream, -]>> {
  // expected-error @below {{schedule exchange reduces slices that have one owner each, in the loop that computes them, found other ones; pipeline reduces all}}
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>}
      : tensor<6x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>> -> tensor<6x8xf32, #fusion.axes<#tp, [stream, -]>>
  return %0 : tensor<6x8xf32, #fusion.axes<#tp, [stream, -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = ?]>
// expected-error @below {{arg0: expected known extents and mesh sizes, found}}
func.func @unknown(%x: tensor<?xf32, #fusion.axes<#tp, [didx("x")]>>) {
  return
}

// -----

// expected-error @below {{arg0: expected a ranked tensor with axes, found 'tensor<4xf32>'}}
func.func @undecided(%x: tensor<4xf32>) {
  return
}

// -----

// Single rows on two devices in turn, in slices of 820: more pieces than a program should spell out.

#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @too_many_pieces(%x: tensor<4096xf32, #fusion.axes<#tp, [serial(2048) * didx("x")]>>)
    -> tensor<4096xf32, #fusion.axes<#tp, [stream(5)]>> {
  // expected-error @below {{dimension 0: slices of 820 indices that are not all alike fall into more than 1024 pieces on the operand's devices; expected slices that all have one size, or larger blocks on the devices}}
  %0 = fusion.reshard %x : tensor<4096xf32, #fusion.axes<#tp, [serial(2048) * didx("x")]>> -> tensor<4096xf32, #fusion.axes<#tp, [stream(5)]>>
  return %0 : tensor<4096xf32, #fusion.axes<#tp, [stream(5)]>>
}

// -----

#a = #tandem.mesh<"a", ["x" = 2]>
#b = #tandem.mesh<"b", ["x" = 2], devices = [1, 2]>
func.func @partial_moves(%x: tensor<8xf32, #fusion.axes<#a, [-], partial = ["x"]>>) -> tensor<8xf32, #fusion.axes<#b, [didx("x")]>> {
  // expected-error @below {{a partial value does not move from mesh @a to mesh @b, but from all devices of its mesh to one device; reduce it on its own mesh first}}
  %0 = fusion.reshard %x : tensor<8xf32, #fusion.axes<#a, [-], partial = ["x"]>> -> tensor<8xf32, #fusion.axes<#b, [didx("x")]>>
  return %0 : tensor<8xf32, #fusion.axes<#b, [didx("x")]>>
}

// -----

#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>
func.func @reduce_and_move(%x: tensor<8xf32, #fusion.axes<#pod, [didx("gpu")], partial = ["node"]>>)
    -> tensor<8xf32, #fusion.axes<#pod, [-]>> {
  // expected-error @below {{a reduction that moves data along other mesh axes too is not one step, found "node", "gpu"; write the reduction as a reshard of its own}}
  %0 = fusion.reshard %x : tensor<8xf32, #fusion.axes<#pod, [didx("gpu")], partial = ["node"]>> -> tensor<8xf32, #fusion.axes<#pod, [-]>>
  return %0 : tensor<8xf32, #fusion.axes<#pod, [-]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
// Slices of the contracted dimension would be added one by one.
func.func @contracted(%x: tensor<32x40xf32, #columns>, %w: tensor<40x48xf32, #columns>) -> tensor<32x48xf32, #columns>
    attributes {fusion.deterministic = "bitwise"} {
  %g = fusion.reshard %x : tensor<32x40xf32, #columns> -> tensor<32x40xf32, #fusion.axes<#tp, [-, stream("x")]>>
  // expected-error @below {{expected slices in dimensions that are not added up, since sums by slices round otherwise than whole ones and the function has 'fusion.deterministic'}}
  %y = fusion.matmul %g, %w
      : tensor<32x40xf32, #fusion.axes<#tp, [-, stream("x")]>>, tensor<40x48xf32, #columns> -> tensor<32x48xf32, #columns>
  return %y : tensor<32x48xf32, #columns>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
func.func private @kernel(tensor<8x4xf32>) -> tensor<8x0xf32>
func.func @writes_empty(%x: tensor<8x4xf32, #rows>) -> tensor<8x0xf32, #rows> {
  // expected-error @below {{expected a result with elements, whose kernel writes memory of its own, found an extent of 0 in each}}
  %y = fusion.call @kernel(%x) dims "s_ -> s_" {effects = "writes"} : (tensor<8x4xf32, #rows>) -> tensor<8x0xf32, #rows>
  return %y : tensor<8x0xf32, #rows>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
#cyclic = #fusion.axes<#tp, [serial(2) * didx("x"), -]>
func.func private @kernel(tensor<8x4xf32>) -> tensor<8x4xf32>
func.func @writes_ranges(%x: tensor<8x4xf32, #cyclic>) -> tensor<8x4xf32, #cyclic> {
  // expected-error @below {{expected one range of indices on a device, for a kernel that writes memory of its own, found 2}}
  %y = fusion.call @kernel(%x) dims "s_ -> s_" {effects = "writes"} : (tensor<8x4xf32, #cyclic>) -> tensor<8x4xf32, #cyclic>
  return %y : tensor<8x4xf32, #cyclic>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
!c = tensor<8xcomplex<f32>, #fusion.axes<#tp, [-]>>
func.func @complex() -> !c {
  // expected-error @+1 {{expected a constant of numbers, found}}
  %c = arith.constant dense<(1.0, 2.0)> : !c
  return %c : !c
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!to = tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @undecided_reshard(%0: tensor<4x8xf32>) -> !to {
  // expected-error @below {{expected decided axes on both sides, found none}}
  %1 = fusion.reshard %0 : tensor<4x8xf32> -> !to
  return %1 : !to
}
