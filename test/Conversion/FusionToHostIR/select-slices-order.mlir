// RUN: %round > %t.json
// RUN: tandem-opt %s -fusion-select-schedule=machine=%t.json | FileCheck %s

// A loop as a user may write it: a reshard of what the loop computes comes before one that needs nothing of it. Slices
// of dimension 2 are tried for the gather, which has three dimensions, and not for the all-reduce, which has two.
#tp = #tandem.mesh<"tp", ["x" = 8]>
!a = tensor<8192x16384xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<16384x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!r = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, -]>>
!b = tensor<4x64x8192xbf16, #fusion.axes<#tp, [-, -, didx("x")]>>
!g = tensor<4x64x8192xbf16, #fusion.axes<#tp, [-, -, -]>>
// CHECK-LABEL: func.func @numbered
// CHECK: fusion.stream_loop schedule <push> from cost
func.func @numbered(%a: !a, %w: !w, %b: !b) -> (!r, !g) {
  %l:2 = fusion.stream_loop (%a, %w, %b) : (!a, !w, !b) -> (!r, !g) {
  ^bb0(%la: !a, %lw: !w, %lb: !b):
    %m = fusion.matmul %la, %lw : !a, !w -> !p
    %r = fusion.reshard %m : !p -> !r
    %g = fusion.reshard %lb : !b -> !g
    fusion.yield %r, %g : !r, !g
  }
  %t = math.tanh %l#0 : !r
  return %t, %l#1 : !r, !g
}
