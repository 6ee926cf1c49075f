// RUN: %round transports.fused_exchange= transports.fused_exchange.block_signal='[4, "us"]' transports.fused_exchange.ll_signal='[2, "us"]' transports.fused_exchange.ll_reads='[500, "GB/s"]' > %t.json
// RUN: tandem-opt %s -split-input-file -fusion-form-loops -fusion-select-schedule=machine=%t.json | FileCheck %s --check-prefixes=CHECK,PUSH
// RUN: tandem-opt %s -split-input-file -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=false' | FileCheck %s --check-prefixes=CHECK,WHOLE
// RUN: tandem-opt %s -split-input-file -fusion-form-loops -fusion-select-schedule='machine=%t.json log' -o /dev/null 2>&1 | FileCheck %s --check-prefix=LOG
// RUN: tandem-opt %s -split-input-file -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=false log' -o /dev/null 2>&1 | FileCheck %s --check-prefix=MESSAGES

// Slices go into the types of the gather and of what is computed on it, not of the function; one-sided copies make them
// worth it, collectives do not.
#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<8192x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!g = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, -]>>
!w = tensor<8192x28672xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!y = tensor<8192x28672xbf16, #fusion.axes<#tp, [-, didx("x")]>>

// LOG: remark: fusion-select-schedule: all-gather gets 8 slices of dimension 0: {{[0-9.]+}} us, {{[0-9.]+}} us whole (round)
// LOG: remark: fusion-select-schedule: all-gather goes through schedule push, merge = [1, 1, 2, 4], order = xor, streams = 2: pipeline
// CHECK-LABEL: func.func @gather
// CHECK-SAME: -> tensor<8192x28672xbf16, #fusion.axes<#tp, [-, didx("x")]>>
// PUSH: fusion.stream_loop schedule <push, merge = [1, 1, 2, 4], order = xor, streams = 2> from cost
// PUSH: fusion.reshard {{.*}}[stream(8), -]>>
// PUSH: math.exp {{.*}}[stream(8), didx("x")]>>
// WHOLE: fusion.stream_loop schedule <pipeline> from cost
// WHOLE: fusion.reshard {{.*}}[-, -]>>
func.func @gather(%x: !x, %w: !w) -> !y {
  %g = fusion.reshard %x : !x -> !g
  %y = fusion.matmul %g, %w : !g, !w -> !y
  %e = math.exp %y : !y
  return %e : !y
}

// -----

// The slices of a reduction go to their owners, whose result has none.
#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<8192x28672xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<28672x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<8192x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>

// LOG: remark: fusion-select-schedule: reduce-scatter gets 8 slices of dimension 0 for one device each: {{[0-9.]+}} us, {{[0-9.]+}} us whole (round)
// CHECK-LABEL: func.func @scatter
// PUSH: fusion.stream_loop schedule <push, merge = [4, 2, 1, 1], order = xor> from cost
// PUSH: fusion.matmul {{.*}} -> {{.*}}[stream(8), -], partial = ["x"]>>
// PUSH: fusion.reshard {{.*}} -> {{.*}}[didx("x"), -]>>
// WHOLE: fusion.stream_loop schedule <pipeline> from cost
// WHOLE: fusion.reshard {{.*}} -> {{.*}}[didx("x"), -]>>
func.func @scatter(%x: !x, %w: !w) -> !y {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p : !p -> !y
  return %y : !y
}

// -----

// Tiny work gets no slices. The collective becomes one kernel, or stays: messages would gain less than the model's error.
#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<64x64xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!g = tensor<64x64xbf16, #fusion.axes<#tp, [-, -]>>

// LOG: remark: fusion-select-schedule: all-gather stays whole, not {{.*}} slices of dimension
// CHECK-LABEL: func.func @tiny
// PUSH: fusion.stream_loop schedule <direct, protocol = ll> from cost {{.*}}[-, -]>>
// WHOLE: fusion.stream_loop schedule <pipeline> from cost {{.*}}[-, -]>>
func.func @tiny(%x: !x) -> !g {
  %g = fusion.reshard %x : !x -> !g
  return %g : !g
}

// -----

// Among two devices, one slice an owner hides little.
#tp = #tandem.mesh<"tp", ["x" = 2]>
!x = tensor<8192x4096xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!g = tensor<8192x4096xbf16, #fusion.axes<#tp, [-, -]>>
!w = tensor<4096x2752xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!y = tensor<8192x2752xbf16, #fusion.axes<#tp, [-, didx("x")]>>

// CHECK-LABEL: func.func @several_an_owner
// PUSH: fusion.stream_loop schedule <push{{.*}}> from cost
// PUSH: fusion.reshard {{.*}}[stream(2) * stream(2), -]>>
// WHOLE: fusion.stream_loop schedule <pipeline> from cost
// WHOLE: fusion.reshard {{.*}}[-, -]>>
func.func @several_an_owner(%x: !x, %w: !w) -> !y {
  %g = fusion.reshard %x : !x -> !g
  %y = fusion.matmul %g, %w : !g, !w -> !y
  return %y : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
!x = tensor<8192x2752xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<2752x4096xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<8192x4096xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<8192x4096xbf16, #fusion.axes<#tp, [didx("x"), -]>>

// CHECK-LABEL: func.func @several_a_receiver
// PUSH: fusion.stream_loop schedule <push{{.*}}> from cost
// PUSH: fusion.matmul {{.*}}[stream(2) * stream(4), -], partial
func.func @several_a_receiver(%x: !x, %w: !w) -> !y {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p : !p -> !y
  return %y : !y
}

// -----

// Slices of what NCCL moves must gain more than a fifth (least_gain_beside_sms), not be predicted a little quicker.
#tp = #tandem.mesh<"tp", ["x" = 2]>
!x = tensor<2048x11008xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<11008x4096xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<2048x4096xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<2048x4096xbf16, #fusion.axes<#tp, [-, -]>>

// MESSAGES: remark: fusion-select-schedule: all-reduce stays whole, not 2 slices of dimension 0: 236.0 us, 236.8 us whole
// CHECK-LABEL: func.func @all_reduce
// PUSH: fusion.stream_loop schedule <push> from cost
// WHOLE: fusion.stream_loop schedule <pipeline> from cost
// WHOLE: fusion.reshard {{.*}}[-, -], partial = ["x"]>>
func.func @all_reduce(%x: !x, %w: !w) -> !y {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p : !p -> !y
  return %y : !y
}
