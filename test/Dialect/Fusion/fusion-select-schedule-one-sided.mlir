// RUN: tandem-opt %s -verify-diagnostics -fusion-form-loops -fusion-select-schedule="one-sided=false"
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule -o /dev/null
// RUN: not tandem-compile %s --entry=gathers --target=cuda-nccl -o %t.tsp 2>&1 | FileCheck %s

// Channels without one-sided messages: a word for them is refused at its reshard, unless nothing moves.

#tp = #tandem.mesh<"tp", ["x" = 4]>
#one = #tandem.mesh<"one", ["x" = 1]>

// CHECK: [[@LINE+4]]:{{[0-9]+}}: error: schedule push needs one-sided messages
// CHECK-NOT: error
func.func @gathers(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>> {
  // expected-error @below {{schedule push needs one-sided messages, which the target's channels do not have; name another one}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
}

func.func @moves_nothing(%0: tensor<16x8xf32, #fusion.axes<#one, [didx("x"), -]>>) -> tensor<16x8xf32, #fusion.axes<#one, [stream(4), -]>> {
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push>} : tensor<16x8xf32, #fusion.axes<#one, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#one, [stream(4), -]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#one, [stream(4), -]>>
}
