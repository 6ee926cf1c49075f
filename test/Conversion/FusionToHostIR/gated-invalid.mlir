// RUN: tandem-opt %s --split-input-file --verify-diagnostics --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir

// What the schedule gated does not take, reported at the reshard that names it.

#tp = #tandem.mesh<"tp", ["x" = 4]>

func.func @alone(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>> {
  // expected-error @below {{schedule gated: expected a matmul of the gathered rows, found none}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<gated>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

!g = tensor<2x8x8xf32, #fusion.axes<#tp, [-, stream(4) * stream(2), -]>>
!w = tensor<8x3xf32, #fusion.axes<#tp, [-, -]>>
!y = tensor<2x8x3xf32, #fusion.axes<#tp, [-, stream(4) * stream(2), -]>>

func.func @rows_apart(%0: tensor<2x8x8xf32, #fusion.axes<#tp, [-, didx("x"), -]>>, %w: !w) -> !y {
  // expected-error @below {{schedule gated: expected slices with more than one row of each matrix, found [-, stream(4) * stream(2), -] on #tp}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<gated>} : tensor<2x8x8xf32, #fusion.axes<#tp, [-, didx("x"), -]>> -> !g
  %2 = fusion.matmul %1, %w : !g, !w -> !y
  return %2 : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

func.func @whole(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [-, -]>> {
  // expected-error @below {{schedule gated gathers into slices: stream digits in place of the device's; found [didx("x"), -] on #tp to [-, -] on #tp}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<gated>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!g = tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>

func.func @elementwise(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> !g {
  // expected-error @below {{schedule gated: expected a matmul of the gathered rows, found none}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<gated>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> !g
  %2 = math.tanh %1 : !g
  return %2 : !g
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!g = tensor<2x16x8xf32, #fusion.axes<#tp, [-, stream(4), -]>>
!w = tensor<2x8x4xf32, #fusion.axes<#tp, [-, -, didx("x")]>>
!y = tensor<2x16x4xf32, #fusion.axes<#tp, [-, stream(4), didx("x")]>>

func.func @batches(%0: tensor<2x16x8xf32, #fusion.axes<#tp, [-, didx("x"), -]>>, %w: !w) -> !y {
  // expected-error @below {{schedule gated: expected matmuls by one matrix, found a right operand of another rank}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<gated>} : tensor<2x16x8xf32, #fusion.axes<#tp, [-, didx("x"), -]>> -> !g
  %2 = fusion.matmul %1, %w : !g, !w -> !y
  return %2 : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!g = tensor<8x16xf32, #fusion.axes<#tp, [-, stream(4)]>>
!a = tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!y = tensor<4x16xf32, #fusion.axes<#tp, [didx("x"), stream(4)]>>

func.func @columns(%0: tensor<8x16xf32, #fusion.axes<#tp, [-, didx("x")]>>, %a: !a) -> !y {
  // expected-error @below {{schedule gated: expected a gather of blocks of rows, found the slices [-, stream(4)]}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<gated>} : tensor<8x16xf32, #fusion.axes<#tp, [-, didx("x")]>> -> !g
  %2 = fusion.matmul %a, %1 : !a, !g -> !y
  return %2 : !y
}

// -----

// A command of its own adds the bias to rounded products.
#tp = #tandem.mesh<"tp", ["x" = 2]>
!g = tensor<4x8xf32, #fusion.axes<#tp, [stream("x"), -]>>
!w = tensor<8x12xf32, #fusion.axes<#tp, [-, didx("x")]>>
!b = tensor<12xf32, #fusion.axes<#tp, [didx("x")]>>
!y = tensor<4x12xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>

func.func @bias(%0: tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>>, %w: !w, %b: !b) -> !y
    attributes {fusion.deterministic = "bitwise"} {
  // expected-error @below {{schedule gated: expected matmuls without bias, which it adds to rounded products, since the function has 'fusion.deterministic', found one with a bias}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<gated>} : tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> !g
  %2 = fusion.matmul %1, %w bias %b : !g, !w, !b -> !y
  return %2 : !y
}

// -----

// Without a bias there is nothing else to round.
#tp = #tandem.mesh<"tp", ["x" = 2]>
!g = tensor<4x8xf32, #fusion.axes<#tp, [stream("x"), -]>>
!w = tensor<8x12xf32, #fusion.axes<#tp, [-, didx("x")]>>
!y = tensor<4x12xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>

func.func @no_bias(%0: tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>>, %w: !w) -> !y
    attributes {fusion.deterministic = "bitwise"} {
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<gated>} : tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> !g
  %2 = fusion.matmul %1, %w : !g, !w -> !y
  return %2 : !y
}
