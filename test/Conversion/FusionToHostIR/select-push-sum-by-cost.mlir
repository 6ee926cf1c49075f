// RUN: %round > %t.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=true' | FileCheck %s

// Two devices: the matmul adds what has arrived where it takes longer than the transfer, but not where it would wait for it.

#tp = #tandem.mesh<"tp", ["x" = 2]>
!x = tensor<8192x7168xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<7168x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<8192x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>

// CHECK-LABEL: @long_matmul
// CHECK: fusion.stream_loop schedule <push, sum = matmul> from cost
func.func @long_matmul(%x: !x, %w: !w) -> !y {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p : !p -> !y
  return %y : !y
}

!xs = tensor<2048x2048xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!ws = tensor<2048x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!ps = tensor<2048x8192xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!ys = tensor<2048x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>

// CHECK-LABEL: @short_matmul
// CHECK: fusion.stream_loop schedule <push> from cost
func.func @short_matmul(%x: !xs, %w: !ws) -> !ys {
  %p = fusion.matmul %x, %w : !xs, !ws -> !ps
  %y = fusion.reshard %p : !ps -> !ys
  return %y : !ys
}

// In a deterministic function partial sums are added as they are, rounded.

// CHECK-LABEL: @in_order
// CHECK-NOT: sum = matmul
// CHECK: return
func.func @in_order(%x: !x, %w: !w) -> !y attributes {fusion.deterministic = "bitwise"} {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p : !p -> !y
  return %y : !y
}
