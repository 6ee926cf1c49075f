// RUN: %round transports.fused_exchange= transports.fused_exchange.block_signal='[4, "us"]' transports.fused_exchange.ll_signal='[2, "us"]' transports.fused_exchange.ll_reads='[500, "GB/s"]' > %t.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=true' | FileCheck %s

// Two devices, too, run an all-reduce of 4 MiB as one kernel.

// CHECK-LABEL: func @few
// CHECK: fusion.stream_loop schedule <direct{{.*}}> from cost
#tp = #tandem.mesh<"tp", ["x" = 2]>
!x = tensor<512x8192xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<8192x4096xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!t = tensor<512x4096xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<512x4096xbf16, #fusion.axes<#tp, [-, -]>>

func.func @few(%x: !x, %w: !w) -> !y {
  %0 = fusion.matmul %x, %w : !x, !w -> !t
  %1 = fusion.reshard %0 : !t -> !y
  return %1 : !y
}
