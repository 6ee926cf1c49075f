// RUN: %round > %t.none.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.none.json one-sided=true' | FileCheck %s --check-prefix=WITHOUT
// RUN: %round device.matmul.0.points='[[1024, 3584, 4096, 400000], [8192, 3584, 4096, 500000]]' device.gated_matmul='{"source": "round", "points": [[1024, 1024, 1024, 1]]}' > %t.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=true' | FileCheck %s --check-prefix=WITH
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=false' | FileCheck %s --check-prefix=WITHOUT
// RUN: %round device.matmul.0.points='[[1024, 3584, 4096, 400000], [8192, 3584, 4096, 500000]]' device.gated_matmul='{"source": "round", "points": [[1024, 1024, 1024, 0.5]]}' > %t.slow.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.slow.json one-sided=true' | FileCheck %s --check-prefix=WITHOUT

// The schedule gated is a candidate only where the machine has kernels for it, and the channels one-sided messages.

#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<8192x4096xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!g = tensor<8192x4096xbf16, #fusion.axes<#tp, [stream(8), -]>>
!w = tensor<4096x28672xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!y = tensor<8192x28672xbf16, #fusion.axes<#tp, [stream(8), didx("x")]>>

// WITHOUT-NOT: <gated
// WITH: fusion.stream_loop schedule <gated{{.*}}> from cost
func.func @layer(%x: !x, %w: !w) -> !y {
  %g = fusion.reshard %x : !x -> !g
  %y = fusion.matmul %g, %w : !g, !w -> !y
  return %y : !y
}

// There are no kernels for f32, nor for a number of columns that is no multiple of 8.

!x4 = tensor<8192x4096xf32, #fusion.axes<#tp, [didx("x"), -]>>
!g4 = tensor<8192x4096xf32, #fusion.axes<#tp, [stream(8), -]>>
!w4 = tensor<4096x11008xf32, #fusion.axes<#tp, [-, didx("x")]>>
!y4 = tensor<8192x11008xf32, #fusion.axes<#tp, [stream(8), didx("x")]>>

// WITH-LABEL: @of_f32
// WITH-NOT: <gated
func.func @of_f32(%x: !x4, %w: !w4) -> !y4 {
  %g = fusion.reshard %x : !x4 -> !g4
  %y = fusion.matmul %g, %w : !g4, !w4 -> !y4
  return %y : !y4
}

!w9 = tensor<4096x11016xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!y9 = tensor<8192x11016xbf16, #fusion.axes<#tp, [stream(8), didx("x")]>>

// WITH-LABEL: @of_odd_columns
// WITH-NOT: <gated
func.func @of_odd_columns(%x: !x, %w: !w9) -> !y9 {
  %g = fusion.reshard %x : !x -> !g
  %y = fusion.matmul %g, %w : !g, !w9 -> !y9
  return %y : !y9
}
