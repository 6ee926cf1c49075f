// RUN: %round transports.fused_exchange= > %t.steps.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.steps.json one-sided=true' | FileCheck %s --check-prefixes=FEW,MANY
// RUN: %round transports.fused_exchange= transports.fused_exchange.block_signal='[4, "us"]' transports.fused_exchange.ll_signal='[2, "us"]' transports.fused_exchange.ll_reads='[500, "GB/s"]' > %t.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=false' | FileCheck %s --check-prefix=WITHOUT
// RUN: %round > %t.none.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.none.json one-sided=true' | FileCheck %s --check-prefix=WITHOUT
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=true' | FileCheck %s --check-prefixes=SIGNALS,MANY
// RUN: tandem-compile %s --entry=few --target=cuda-peer --machine=%t.json --check=false --explain | FileCheck %s --check-prefix=EXPLAIN
// RUN: tandem-compile %s --entry=few --target=cuda-nccl --machine=%t.json --check=false --explain | FileCheck %s --check-prefix=NCCL

// An all-reduce of 4 MiB among 8 GPUs is one kernel where the machine file has its price and the channels one-sided messages.
// One of 128 MiB is not, nor one whose type has no kernel. Signals of blocks and words are considered where they have a price.

#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<512x8192xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<8192x4096xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!t = tensor<512x4096xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<512x4096xbf16, #fusion.axes<#tp, [-, -]>>

// FEW-LABEL: func @few
// FEW: fusion.stream_loop schedule <direct, shots = two> from cost
// SIGNALS-LABEL: func @few
// SIGNALS: fusion.stream_loop schedule <direct, protocol = block, shots = two> from cost
// WITHOUT-NOT: direct
// EXPLAIN: direct, protocol = block, shots = two, by cost
// EXPLAIN: {{.*}}us direct, protocol = block, shots = two
// EXPLAIN: {{.*}}us pipeline
// NCCL: pipeline
// NCCL-NOT: direct
func.func @few(%x: !x, %w: !w) -> !y {
  %0 = fusion.matmul %x, %w : !x, !w -> !t
  %1 = fusion.reshard %0 : !t -> !y
  return %1 : !y
}

!st = tensor<8x1024xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!sy = tensor<8x1024xbf16, #fusion.axes<#tp, [-, -]>>
!sa = tensor<8x8x1024xbf16, #fusion.axes<#tp, [didx("x"), -, -]>>

// SIGNALS-LABEL: func @fewest
// SIGNALS: fusion.stream_loop schedule <direct, protocol = ll, shots = one> from cost
func.func @fewest(%a: !sa) -> !sy {
  %0 = fusion.reduce sum %a dims [0] : !sa -> !st
  %1 = fusion.reshard %0 : !st -> !sy
  return %1 : !sy
}

!bx = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!bw = tensor<8192x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!bt = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!by = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, -]>>

// MANY-LABEL: func @many
// MANY-NOT: direct
func.func @many(%x: !bx, %w: !bw) -> !by {
  %0 = fusion.matmul %x, %w : !bx, !bw -> !bt
  %1 = fusion.reshard %0 : !bt -> !by
  return %1 : !by
}

!it = tensor<16x4096xi32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!iy = tensor<16x4096xi32, #fusion.axes<#tp, [-, -]>>
!ia = tensor<8x16x4096xi32, #fusion.axes<#tp, [didx("x"), -, -]>>

// MANY-LABEL: func @integers
// MANY-NOT: direct
func.func @integers(%a: !ia) -> !iy {
  %0 = fusion.reduce sum %a dims [0] : !ia -> !it
  %1 = fusion.reshard %0 : !it -> !iy
  return %1 : !iy
}

// Gathers and reduce-scatters of few tokens, too.

!gx = tensor<256x4096xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!gw = tensor<4096x8192xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!gg = tensor<256x4096xbf16, #fusion.axes<#tp, [-, -]>>
!gy = tensor<256x8192xbf16, #fusion.axes<#tp, [-, didx("x")]>>

// FEW-LABEL: func @gather
// FEW: fusion.stream_loop schedule <direct> from cost
// SIGNALS-LABEL: func @gather
// SIGNALS: fusion.stream_loop schedule <direct{{.*}}> from cost
func.func @gather(%x: !gx, %w: !gw) -> !gy {
  %0 = fusion.reshard %x : !gx -> !gg
  %1 = fusion.matmul %0, %w : !gg, !gw -> !gy
  return %1 : !gy
}

!ry = tensor<512x4096xbf16, #fusion.axes<#tp, [didx("x"), -]>>

// FEW-LABEL: func @scatter
// FEW: fusion.stream_loop schedule <direct> from cost
// SIGNALS-LABEL: func @scatter
// SIGNALS: fusion.stream_loop schedule <direct{{.*}}> from cost
func.func @scatter(%x: !x, %w: !w) -> !ry {
  %0 = fusion.matmul %x, %w : !x, !w -> !t
  %1 = fusion.reshard %0 : !t -> !ry
  return %1 : !ry
}

// Rows that the devices do not divide: two shots cut all elements as one row, so the kernel copies a result of the function, too.

!ox = tensor<65x8192xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!ot = tensor<65x4096xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!oy = tensor<65x4096xbf16, #fusion.axes<#tp, [-, -]>>

// SIGNALS-LABEL: func @returned
// SIGNALS: fusion.stream_loop schedule <direct, protocol = block, shots = two> from cost
func.func @returned(%x: !ox, %w: !w) -> !oy {
  %0 = fusion.matmul %x, %w : !ox, !w -> !ot
  %1 = fusion.reshard %0 : !ot -> !oy
  return %1 : !oy
}

// SIGNALS-LABEL: func @read
// SIGNALS: fusion.stream_loop schedule <direct, protocol = block, shots = two> from cost
func.func @read(%x: !ox, %w: !w) -> !oy {
  %0 = fusion.matmul %x, %w : !ox, !w -> !ot
  %1 = fusion.reshard %0 : !ot -> !oy
  %2 = math.tanh %1 : !oy
  return %2 : !oy
}
