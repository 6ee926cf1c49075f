// RUN: tandem-opt %s --split-input-file --verify-diagnostics --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir

// What the schedule ring does not take, said at the reshard that names it.

#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<96x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!slices = tensor<96x16xf32, #fusion.axes<#tp, [stream("x"), -]>>
!w = tensor<16x24xf32, #fusion.axes<#tp, [-, -]>>
!y = tensor<96x24xf32, #fusion.axes<#tp, [stream("x"), -]>>
func.func @three_directions(%x: !x, %w: !w) -> !y {
  // expected-error @below {{schedule ring: expected 1 or 2 directions, found 3}}
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring, directions = 3>} : !x -> !slices
  %1 = fusion.matmul %0, %w : !slices, !w -> !y
  return %1 : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<96x48xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!terms = tensor<96x16xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
!y = tensor<96x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @odd_slices(%x: !x, %w: !w) -> !y {
  %0 = fusion.matmul %x, %w : !x, !w -> !terms
  // expected-error @below {{schedule ring: expected an even number of slices per device, half of which go each way, found 1}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<ring, directions = 2>} : !terms -> !y
  return %1 : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<96x48xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!terms = tensor<96x16xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
!y = tensor<96x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @buffers_of_a_reduction(%x: !x, %w: !w) -> !y {
  %0 = fusion.matmul %x, %w : !x, !w -> !terms
  // expected-error @below {{schedule ring: expected a gather with 'buffers', found a reduction}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<ring, buffers = 2>} : !terms -> !y
  return %1 : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<96x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!slices = tensor<96x16xf32, #fusion.axes<#tp, [stream("x"), -]>>
!w = tensor<16x24xf32, #fusion.axes<#tp, [-, -]>>
!y = tensor<96x24xf32, #fusion.axes<#tp, [stream("x"), -]>>
func.func @three_buffers(%x: !x, %w: !w) -> !y {
  // expected-error @below {{schedule ring: expected buffers = 2, or none for one per device, found 3}}
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring, buffers = 3>} : !x -> !slices
  %1 = fusion.matmul %0, %w : !slices, !w -> !y
  return %1 : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<96x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!slices = tensor<96x16xf32, #fusion.axes<#tp, [stream("x"), -]>>
!w = tensor<16x24xf32, #fusion.axes<#tp, [-, -]>>
!y = tensor<96x24xf32, #fusion.axes<#tp, [stream("x"), -]>>
func.func @adds_of_a_gather(%x: !x, %w: !w) -> !y {
  // expected-error @below {{schedule ring: expected a reduction with sum = matmul, found a gather}}
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring, sum = "matmul">} : !x -> !slices
  %1 = fusion.matmul %0, %w : !slices, !w -> !y
  return %1 : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<96x48xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<48x16xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!terms = tensor<96x16xbf16, #fusion.axes<#tp, [stream("x") * stream(2), -], partial = ["x"]>>
!y = tensor<96x16xbf16, #fusion.axes<#tp, [didx("x"), -]>>
func.func @adds_in_16_bits(%x: !x, %w: !w) -> !y {
  %0 = fusion.matmul %x, %w : !x, !w -> !terms
  // expected-error @below {{schedule ring: expected partial sums in f32 of matmuls without bias, with 'sum = matmul', found 'tensor<96x16xbf16}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<ring, directions = 2, sum = "matmul">} : !terms -> !y
  return %1 : !y
}

// -----

// Each device gets another part of a slice, so none can be passed on.
#tp = #tandem.mesh<"tp", ["x" = 2]>
!tokens = tensor<24x48x16xf32, #fusion.axes<#tp, [-, didx("x"), -]>>
!slices = tensor<24x48x16xf32, #fusion.axes<#tp, [didx("x"), stream("x"), -]>>
!w = tensor<24x16x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
!y = tensor<24x48x8xf32, #fusion.axes<#tp, [didx("x"), stream("x"), -]>>
func.func @all_to_all(%x: !tokens, %w: !w) -> !y {
  // expected-error @below {{schedule ring forwards slices, found an all-to-all, in which each device gets another part of a slice; exchange and push take it}}
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring>} : !tokens -> !slices
  %1 = fusion.matmul %0, %w : !slices, !w -> !y
  return %1 : !y
}

// -----

// Sums travel, so their order differs from device to device.
#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<96x48xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!terms = tensor<96x16xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
!y = tensor<96x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @deterministic(%x: !x, %w: !w) -> !y attributes {fusion.deterministic = "bitwise"} {
  %0 = fusion.matmul %x, %w : !x, !w -> !terms
  // expected-error @below {{schedule ring adds partial sums in an order of its own, but the function has 'fusion.deterministic'; name a schedule that adds in the order of the ranks}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<ring>} : !terms -> !y
  return %1 : !y
}
