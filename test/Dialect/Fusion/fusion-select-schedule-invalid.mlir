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

// -----

// Words that are reserved.
#tp = #tandem.mesh<"tp", ["x" = 4]>
!rows = tensor<16x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @ring(%0: !rows) {
  // expected-error @+1 {{schedule ring is reserved and not there yet, expected pipeline, exchange or push}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<ring>} : !rows -> tensor<16x16xf32, #fusion.axes<#tp, [stream(4), -]>>
  return
}

// -----

#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>
!both = tensor<8x16xf32, #fusion.axes<#pod, [-, didx("node")], partial = ["gpu"]>>
func.func @hierarchical(%0: !both) {
  // expected-error @+1 {{schedule hierarchical is reserved and not there yet, expected pipeline, exchange or push}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<hierarchical>} : !both -> tensor<8x16xf32, #fusion.axes<#pod, [didx("gpu"), -]>>
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!rows = tensor<16x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @channel(%0: !rows) {
  // expected-error @+1 {{schedule pipeline has one direction and the target's channel, found #fusion.schedule<pipeline, channel = "peer">}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<pipeline, channel = "peer">} : !rows -> tensor<16x16xf32, #fusion.axes<#tp, [stream(4), -]>>
  return
}
