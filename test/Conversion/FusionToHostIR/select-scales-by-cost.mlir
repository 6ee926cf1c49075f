// RUN: %round transports.fused_exchange= transports.fused_exchange.block_signal='[4, "us"]' transports.fused_exchange.ll_signal='[2, "us"]' transports.fused_exchange.ll_reads='[500, "GB/s"]' > %t.json
// RUN: tandem-opt %s -fusion-propagate-axes -fusion-insert-reshards -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=true' | FileCheck %s

// Rows of 8 bits and their scales, which are gathered alike: one loop gathers both, though the scales are read behind the
// matmul. Slices of the rows are slices of the scales.

#tp = #tandem.mesh<"tp", ["x" = 2]>
!few = tensor<640x4096xf8E4M3FN, #fusion.axes<#tp, [didx("x"), -]>>
!fews = tensor<640xf32, #fusion.axes<#tp, [didx("x")]>>
!w = tensor<5504x4096xf8E4M3FN, #fusion.axes<#tp, [didx("x"), -]>>

// CHECK-LABEL: func.func @few
// CHECK: fusion.stream_loop schedule <direct
// CHECK-COUNT-2: fusion.reshard
// CHECK: fusion.matmul
// CHECK: fusion.broadcast
// CHECK-NOT: fusion.stream_loop
func.func @few(%x: !few, %s: !fews, %w: !w) -> tensor<640x5504xbf16, #fusion.axes<#tp, [-, didx("x")]>> {
  %p = fusion.matmul %x, %w {transpose_b} : !few, !w -> tensor<640x5504xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %b = fusion.broadcast %s dims [0] : !fews -> tensor<640x5504xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %m = arith.mulf %p, %b : tensor<640x5504xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %y = arith.truncf %m : tensor<640x5504xf32, #fusion.axes<#tp, [-, didx("x")]>> to tensor<640x5504xbf16, #fusion.axes<#tp, [-, didx("x")]>>
  return %y : tensor<640x5504xbf16, #fusion.axes<#tp, [-, didx("x")]>>
}

// More slices are no quicker, or not by more than the tolerance. The fewer are taken.
!many = tensor<7168x4096xf8E4M3FN, #fusion.axes<#tp, [didx("x"), -]>>
!manys = tensor<7168xf32, #fusion.axes<#tp, [didx("x")]>>

// CHECK-LABEL: func.func @many
// CHECK: fusion.stream_loop schedule <push
// CHECK: fusion.reshard {{.*}} -> tensor<7168x4096xf8E4M3FN, #fusion.axes<#{{.*}}, [stream(2), -]>>
// CHECK: fusion.reshard {{.*}} -> tensor<7168xf32, #fusion.axes<#{{.*}}, [stream(2)]>>
// CHECK-NOT: fusion.stream_loop
func.func @many(%x: !many, %s: !manys, %w: !w) -> tensor<7168x5504xbf16, #fusion.axes<#tp, [-, didx("x")]>> {
  %p = fusion.matmul %x, %w {transpose_b} : !many, !w -> tensor<7168x5504xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %b = fusion.broadcast %s dims [0] : !manys -> tensor<7168x5504xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %m = arith.mulf %p, %b : tensor<7168x5504xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %y = arith.truncf %m : tensor<7168x5504xf32, #fusion.axes<#tp, [-, didx("x")]>> to tensor<7168x5504xbf16, #fusion.axes<#tp, [-, didx("x")]>>
  return %y : tensor<7168x5504xbf16, #fusion.axes<#tp, [-, didx("x")]>>
}

// What is gathered along another dimension is a loop of its own.

// CHECK-LABEL: func.func @columns
// CHECK: fusion.stream_loop
// CHECK-COUNT-1: fusion.reshard
// CHECK: fusion.stream_loop
// CHECK-COUNT-1: fusion.reshard
func.func @columns(%x: !many, %s: tensor<5504xf32, #fusion.axes<#tp, [didx("x")]>>,
                   %w: tensor<5504x4096xf8E4M3FN, #fusion.axes<#tp, [-, -]>>) -> tensor<7168x5504xf32, #fusion.axes<#tp, [-, -]>> {
  %p = fusion.matmul %x, %w {transpose_b} : !many, tensor<5504x4096xf8E4M3FN, #fusion.axes<#tp, [-, -]>> -> tensor<7168x5504xf32, #fusion.axes<#tp, [-, -]>>
  %b = fusion.broadcast %s dims [1] : tensor<5504xf32, #fusion.axes<#tp, [didx("x")]>> -> tensor<7168x5504xf32, #fusion.axes<#tp, [-, -]>>
  %m = arith.mulf %p, %b : tensor<7168x5504xf32, #fusion.axes<#tp, [-, -]>>
  return %m : tensor<7168x5504xf32, #fusion.axes<#tp, [-, -]>>
}

// Scales that are read along both dimensions cannot be sliced: they are gathered whole, and the rows in slices.

!both = tensor<7168x4096xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!boths = tensor<7168xbf16, #fusion.axes<#tp, [didx("x")]>>
!whole = tensor<7168xbf16, #fusion.axes<#tp, [-]>>
!z = tensor<7168x7168xbf16, #fusion.axes<#tp, [-, -]>>

// CHECK-LABEL: func.func @both
// CHECK: fusion.stream_loop schedule <push
// CHECK: fusion.reshard {{.*}} -> tensor<7168x4096xbf16, #fusion.axes<#{{.*}}, [stream(2){{.*}}, -]>>
// CHECK: fusion.reshard {{.*}} -> tensor<7168xbf16, #fusion.axes<#{{.*}}, [-]>>
func.func @both(%x: !both, %s: !boths, %w: tensor<7168x4096xbf16, #fusion.axes<#tp, [-, -]>>) -> !z {
  %p = fusion.matmul %x, %w {transpose_b} : !both, tensor<7168x4096xbf16, #fusion.axes<#tp, [-, -]>> -> !z
  %g = fusion.reshard %s : !boths -> !whole
  %b = fusion.broadcast %g dims [0] : !whole -> !z
  %m = arith.mulf %p, %b : !z
  %c = fusion.broadcast %g dims [1] : !whole -> !z
  %y = arith.mulf %m, %c : !z
  return %y : !z
}

// Two values at most: `direct` takes no more. The third has a loop of its own.

// CHECK-LABEL: func.func @three
// CHECK: fusion.stream_loop schedule <{{pipeline|direct}}
// CHECK: fusion.stream_loop schedule <direct
// CHECK-NOT: fusion.stream_loop
func.func @three(%x: !few, %s: !fews, %t: !fews, %w: !w) -> tensor<640x5504xf32, #fusion.axes<#tp, [-, didx("x")]>> {
  %p = fusion.matmul %x, %w {transpose_b} : !few, !w -> tensor<640x5504xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %b = fusion.broadcast %s dims [0] : !fews -> tensor<640x5504xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %m = arith.mulf %p, %b : tensor<640x5504xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %c = fusion.broadcast %t dims [0] : !fews -> tensor<640x5504xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %y = arith.addf %m, %c : tensor<640x5504xf32, #fusion.axes<#tp, [-, didx("x")]>>
  return %y : tensor<640x5504xf32, #fusion.axes<#tp, [-, didx("x")]>>
}
