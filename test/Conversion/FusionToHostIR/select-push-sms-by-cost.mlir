// RUN: %round transports.fused_exchange= transports.fused_exchange.beside_compute='[1, "1"]' transports.fused_exchange.signal='[2, "us"]' transports.fused_exchange.block_stores='[60, "GB/s"]' device.least_gain_beside_sms='[0, "1"]' > %t.measured.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.measured.json one-sided=true' | FileCheck %s --check-prefix=WITH
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.measured.json one-sided=false' | FileCheck %s --check-prefix=WITHOUT
// RUN: %round transports.fused_exchange= > %t.unmeasured.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.unmeasured.json one-sided=true' | FileCheck %s --check-prefix=UNMEASURED
// RUN: %round > %t.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=true' | FileCheck %s --check-prefix=WITHOUT
// RUN: tandem-compile %s --entry=few --target=cuda-peer --machine=%t.measured.json --check=false --explain | FileCheck %s --check-prefix=EXPLAIN

// Slices of few tokens are pushed by SMs, as copy engines begin late; those of many tokens by copy engines. (Fewer tokens are
// gathered by one kernel.) Not where the machine
// file does not say that its numbers hold next to a matmul.

#tp = #tandem.mesh<"tp", ["x" = 8]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#cols = #fusion.axes<#tp, [-, didx("x")]>

// WITHOUT-NOT: sms
// UNMEASURED-NOT: schedule <push, by = sms
// UNMEASURED-LABEL: func @few
// UNMEASURED: fusion.stream_loop schedule <{{.*}}> from cost
// UNMEASURED-NOT: schedule <push, by = sms
// WITH-LABEL: func @few
// WITH: fusion.stream_loop schedule <push, by = sms{{.*}}> from cost
// EXPLAIN: push, by = sms
func.func @few(%x: tensor<2304x4096xbf16, #rows>, %w: tensor<4096x11008xbf16, #cols>) -> tensor<2304x11008xbf16, #cols> {
  %g = fusion.reshard %x : tensor<2304x4096xbf16, #rows> -> tensor<2304x4096xbf16, #fusion.axes<#tp, [-, -]>>
  %y = fusion.matmul %g, %w : tensor<2304x4096xbf16, #fusion.axes<#tp, [-, -]>>, tensor<4096x11008xbf16, #cols> -> tensor<2304x11008xbf16, #cols>
  return %y : tensor<2304x11008xbf16, #cols>
}

// WITH-LABEL: func @many
// WITH: fusion.stream_loop schedule <push
// WITH-NOT: by = sms
// WITH-SAME: from cost
func.func @many(%x: tensor<8192x16384xbf16, #rows>, %w: tensor<16384x53248xbf16, #cols>) -> tensor<8192x53248xbf16, #cols> {
  %g = fusion.reshard %x : tensor<8192x16384xbf16, #rows> -> tensor<8192x16384xbf16, #fusion.axes<#tp, [-, -]>>
  %y = fusion.matmul %g, %w : tensor<8192x16384xbf16, #fusion.axes<#tp, [-, -]>>, tensor<16384x53248xbf16, #cols> -> tensor<8192x53248xbf16, #cols>
  return %y : tensor<8192x53248xbf16, #cols>
}
