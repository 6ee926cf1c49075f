// RUN: %round > %t.json
// RUN: tandem-opt %s -split-input-file -fusion-form-loops -fusion-select-schedule=machine=%t.json | FileCheck %s

// Few tokens on 4 devices without fused exchanges: each copy of the reduction begins behind a matmul, and its push would be
// slower than the sequence.
#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<640x8192xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<8192x4096xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<640x4096xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<640x4096xbf16, #fusion.axes<#tp, [didx("x"), -]>>

// CHECK-LABEL: func.func @scatter
// CHECK: fusion.stream_loop schedule <pipeline> from cost
// CHECK: fusion.reshard {{.*}}[-, -], partial = ["x"]>>
func.func @scatter(%x: !x, %w: !w) -> !y {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p : !p -> !y
  return %y : !y
}

// -----

// Those of the gather begin beside the own matmul: they gain more than the margin.
#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<1024x16384xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!g = tensor<1024x16384xbf16, #fusion.axes<#tp, [-, -]>>
!w = tensor<16384x53248xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!y = tensor<1024x53248xbf16, #fusion.axes<#tp, [-, didx("x")]>>

// CHECK-LABEL: func.func @gather
// CHECK: fusion.stream_loop schedule <push, merge = [1, 1, 2], order = xor, streams = 2> from cost
// CHECK: fusion.reshard {{.*}}[stream(4), -]>>
func.func @gather(%x: !x, %w: !w) -> !y {
  %g = fusion.reshard %x : !x -> !g
  %y = fusion.matmul %g, %w : !g, !w -> !y
  return %y : !y
}
