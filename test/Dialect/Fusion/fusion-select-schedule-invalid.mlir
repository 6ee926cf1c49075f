// RUN: tandem-opt %s -split-input-file -verify-diagnostics -fusion-form-loops -fusion-select-schedule="log"

#tp = #tandem.mesh<"tp", ["x" = 4]>
!rows = tensor<16x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
// expected-remark @+1 {{1 exchange, 1 annotated}}
func.func @exchange_of_shared_slices(%0: !rows) {
  // expected-remark @+1 {{fusion-select-schedule: all-gather goes through schedule exchange}}
  %1 = fusion.reshard %0 : !rows -> tensor<16x16xf32, #fusion.axes<#tp, [stream(4), -]>>
  // expected-remark @+1 {{fusion-select-schedule: all-gather keeps schedule exchange}}
  %3 = fusion.reshard %0 {schedule = #fusion.schedule<exchange>} : !rows -> tensor<16x16xf32, #fusion.axes<#tp, [stream(2), -]>>
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @undecided(%0: tensor<16xf32>) {
  // expected-error @+1 {{expected decided axes on both sides, found none}}
  %1 = fusion.reshard %0 : tensor<16xf32> -> tensor<16xf32, #fusion.axes<#tp, [-]>>
  return
}
