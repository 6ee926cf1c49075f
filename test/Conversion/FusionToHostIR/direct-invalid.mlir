// RUN: tandem-opt %s --split-input-file --verify-diagnostics --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir

// What the schedule direct does not take, reported at the reshard that names it.

#tp = #tandem.mesh<"tp", ["x" = 4]>

func.func @all_to_all(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>> {
  // expected-error @below {{schedule direct: expected an all-gather, a reduce-scatter or an all-reduce, found another reshard}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!y = tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>

func.func @shots_of_a_gather(%0: !x) -> !y {
  // expected-error @below {{schedule direct: expected an all-reduce with shots = two, found a gather}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct, shots = "two">} : !x -> !y
  return %1 : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!t = tensor<1024x516xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<1024x516xf32, #fusion.axes<#tp, [didx("x"), -]>>

func.func @words_of_a_scatter(%0: !t) -> !y {
  // expected-error @below {{schedule direct, protocol = ll: expected at most 8 devices and 524288 bytes, found 4 and 528384}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct, protocol = "ll">} : !t -> !y
  return %1 : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!t = tensor<12x8xf32, #fusion.axes<#tp, [stream(3), -], partial = ["x"]>>
!y = tensor<12x8xf32, #fusion.axes<#tp, [stream(3), -]>>

func.func @slices(%0: !t) -> !y {
  // expected-error @below {{schedule direct: expected a reshard without stream digits, found 3 slices}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct>} : !t -> !y
  return %1 : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!t = tensor<6x7xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<6x7xf32, #fusion.axes<#tp, [-, -]>>

func.func @odd(%0: !t) -> !y {
  // expected-error @below {{schedule direct, two shots: expected a dimension that is a multiple of the 4 devices, found none}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct, shots = "two">} : !t -> !y
  return %1 : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!t = tensor<6x7xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<6x7xf32, #fusion.axes<#tp, [-, -]>>

func.func @many(%0: !t) -> !y {
  // expected-error @below {{schedule direct: expected at most 1024 thread blocks, found 1025}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct, blocks = 1025>} : !t -> !y
  return %1 : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!t = tensor<6x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<6x8xf32, #fusion.axes<#tp, [-, -]>>

func.func @words(%0: !t) -> !y {
  // expected-error @below {{schedule direct: expected no protocol = ll with shots = two, found both}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct, shots = "two", protocol = "ll">} : !t -> !y
  return %1 : !y
}
