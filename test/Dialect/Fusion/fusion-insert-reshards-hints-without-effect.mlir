// RUN: tandem-opt %s -split-input-file -verify-diagnostics -fusion-propagate-axes -fusion-insert-reshards -fusion-verify

// A word that no reshard has heard.
#tp = #tandem.mesh<"tp", ["x" = 4]>
#all = #fusion.axes<#tp, [-, -]>
!rows = tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
!w = tensor<4x4xf32, #all>
func.func @local(%0: !rows, %1: !w) -> !rows {
  // expected-warning @+2 {{'fusion.schedule' has no effect: no reshard of this op communicates}}
  // expected-warning @+1 {{'fusion.gather' has no effect: this op has no reshard on that side}}
  %2 = fusion.matmul %0, %1 {fusion.gather = "before", fusion.schedule = #fusion.schedule<exchange>} : !rows, !w -> !rows
  // expected-warning @+2 {{'fusion.schedule' has no effect}}
  // expected-warning @+1 {{'fusion.gather' has no effect}}
  %3 = math.exp %2 {fusion.gather = "after", fusion.schedule = #fusion.schedule<exchange>} : !rows
  return %3 : !rows
}

// A slice does not communicate. What a reshard has heard says nothing.
func.func @heard(%0: !rows, %1: !w, %2: tensor<8x4xf32, #all>) -> (tensor<8x4xf32, #all>, tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<4xf32>) {
  %3 = fusion.matmul %0, %1 {fusion.gather = "after", fusion.schedule = #fusion.schedule<exchange>} : !rows, !w -> tensor<8x4xf32, #all>
  // expected-warning @+1 {{'fusion.schedule' has no effect}}
  %4 = fusion.matmul %2, %1 {fusion.gather = "before", fusion.schedule = #fusion.schedule<exchange>} : tensor<8x4xf32, #all>, !w -> tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %5 = fusion.reduce sum %0 dims [0] : !rows -> tensor<4xf32>
  %6 = math.exp %5 {fusion.gather = "before", fusion.schedule = #fusion.schedule<pipeline>} : tensor<4xf32>
  return %3, %4, %6 : tensor<8x4xf32, #all>, tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<4xf32>
}

// -----

// A file for any number of devices is not wrong with one.
#one = #tandem.mesh<"one", ["x" = 1]>
func.func @alone(%0: tensor<8x4xf32, #fusion.axes<#one, [didx("x"), -]>>, %1: tensor<4x4xf32, #fusion.axes<#one, [-, -]>>) -> tensor<8x4xf32, #fusion.axes<#one, [-, -]>> {
  %2 = fusion.matmul %0, %1 {fusion.gather = "before", fusion.schedule = #fusion.schedule<exchange>} : tensor<8x4xf32, #fusion.axes<#one, [didx("x"), -]>>, tensor<4x4xf32, #fusion.axes<#one, [-, -]>> -> tensor<8x4xf32, #fusion.axes<#one, [-, -]>>
  return %2 : tensor<8x4xf32, #fusion.axes<#one, [-, -]>>
}
