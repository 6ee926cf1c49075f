// RUN: tandem-compile %s --entry=scaled --mesh x=2 --target=cuda-peer --dump --rank=0 | FileCheck %s
// RUN: tandem-compile %s --entry=scaled --mesh x=2 --target=cpu-local --dump --rank=0 | FileCheck %s --check-prefix=WIDE
// RUN: tandem-compile %s --entry=scaled --mesh x=2 --target=hip-peer --dump --rank=0 | FileCheck %s --check-prefix=WIDE
// RUN: tandem-compile %s --entry=contracted --mesh x=2 --target=cuda-peer --dump --rank=0 | FileCheck %s --check-prefix=PARTIAL
// RUN: tandem-compile %s --entry=scaled_direct --mesh x=2 --target=cuda-peer --dump --rank=0 | FileCheck %s --check-prefix=DIRECT
// RUN: tandem-compile %s --entry=scaled_together --mesh x=2 --target=cuda-peer --machine=h100x2 -o %t.tsp
// RUN: tandem-compile --dump %t.tsp --rank=0 | FileCheck %s --check-prefix=TOGETHER
// RUN: tandem-run %t.tsp -n 2 --channel=local --verify

// A product in f32, scaled by rows and columns and rounded to bf16, as Python's `scaled_matmul` writes it. On NVIDIA GPUs the
// product is bf16, and the launch behind it is in place, so that it can be an epilogue (docs/operators.md).
//
// CHECK: matmul arg4:bf16[48,12] = {{.*}}f8E4M3FN
// CHECK-NEXT: launch k0(arg4:bf16[48,12], arg4:bf16[48,12],
// WIDE: matmul [[P:buf[0-9]+]]:f32[48,12] = {{.*}}f8E4M3FN
// WIDE-NEXT: launch k0(arg4:bf16[48,12], [[P]]:f32[48,12],

#tp = #tandem.mesh<"tp", ["x" = ?]>
!x = tensor<48x32xf8E4M3FN, #fusion.axes<#tp, [-, -]>>
!sx = tensor<48xf32, #fusion.axes<#tp, [-]>>
!w = tensor<24x32xf8E4M3FN, #fusion.axes<#tp, [didx("x"), -]>>
!sw = tensor<24xf32, #fusion.axes<#tp, [didx("x")]>>
!p = tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
!y = tensor<48x24xbf16, #fusion.axes<#tp, [-, didx("x")]>>
func.func @scaled(%x: !x {fusion.name = "x"}, %sx: !sx {fusion.name = "sx"}, %w: !w {fusion.name = "w"}, %sw: !sw {fusion.name = "sw"})
    -> (!y {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w {transpose_b} : !x, !w -> !p
  %1 = fusion.broadcast %sx dims [0] : !sx -> !p
  %2 = arith.mulf %0, %1 : !p
  %3 = fusion.broadcast %sw dims [1] : !sw -> !p
  %4 = arith.mulf %2, %3 : !p
  %5 = arith.truncf %4 : !p to !y
  return %5 : !y
}

// Partial sums stay in f32: they are reduced before they are scaled.
//
// PARTIAL: matmul {{.*}}:f32[48,24] = {{.*}}f8E4M3FN
// PARTIAL-NOT: f8E4M3FN
// PARTIAL: launch {{.*}}bf16[48,24]

!xk = tensor<48x32xf8E4M3FN, #fusion.axes<#tp, [-, didx("x")]>>
!wk = tensor<24x32xf8E4M3FN, #fusion.axes<#tp, [-, didx("x")]>>
!z = tensor<48x24xbf16, #fusion.axes<#tp, [-, -]>>
func.func @contracted(%x: !xk {fusion.name = "x"}, %w: !wk {fusion.name = "w"}, %s: tensor<f32> {fusion.name = "s"}) -> (!z {fusion.name = "z"}) {
  %0 = fusion.matmul %x, %w {transpose_b} : !xk, !wk -> tensor<48x24xf32>
  %1 = fusion.broadcast %s dims [] : tensor<f32> -> tensor<48x24xf32>
  %2 = arith.mulf %0, %1 : tensor<48x24xf32>
  %3 = arith.truncf %2 : tensor<48x24xf32> to tensor<48x24xbf16>
  %4 = fusion.reshard %3 : tensor<48x24xbf16> -> !z
  return %4 : !z
}

// The rows of 8 bits are gathered by one kernel, which moves bytes.
//
// DIRECT: s0 fused_exchange 4 parts by 1 blocks protocol block
// DIRECT: put c0 sym[[X:[0-9]+]]:f8E4M3FN[24,32] <- arg0:f8E4M3FN[24,32] to 1
// DIRECT: matmul arg4:bf16[48,12] = sym[[X]]:f8E4M3FN[48,32]

!xd = tensor<48x32xf8E4M3FN, #fusion.axes<#tp, [didx("x"), -]>>
func.func @scaled_direct(%x: !xd {fusion.name = "x"}, %sx: !sx {fusion.name = "sx"}, %w: !w {fusion.name = "w"}, %sw: !sw {fusion.name = "sw"})
    -> (!y {fusion.name = "y"}) {
  %g = fusion.reshard %x {schedule = #fusion.schedule<direct, protocol = "block">} : !xd -> !x
  %0 = fusion.matmul %g, %w {transpose_b} : !x, !w -> !p
  %1 = fusion.broadcast %sx dims [0] : !sx -> !p
  %2 = arith.mulf %0, %1 : !p
  %3 = fusion.broadcast %sw dims [1] : !sw -> !p
  %4 = arith.mulf %2, %3 : !p
  %5 = arith.truncf %4 : !p to !y
  return %5 : !y
}

// The rows and their scales are gathered by one kernel, which signals once, where the machine has a price for it.
//
// TOGETHER: fused_exchange 6 parts by 1 blocks
// TOGETHER-NEXT: copy {{.*}}f8E4M3FN
// TOGETHER-NEXT: put {{.*}}f8E4M3FN
// TOGETHER-NEXT: copy {{.*}}f32
// TOGETHER-NEXT: put {{.*}}f32
// TOGETHER-NEXT: signal c0 slot 0 value 1 to 1
// TOGETHER-NEXT: wait_signal c0 slot 1 value 1

!sxd = tensor<48xf32, #fusion.axes<#tp, [didx("x")]>>
!gx = tensor<48x32xf8E4M3FN, #fusion.axes<#tp, [-, -]>>
!gsx = tensor<48xf32, #fusion.axes<#tp, [-]>>
!gp = tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
!gy = tensor<48x24xbf16, #fusion.axes<#tp, [-, didx("x")]>>
func.func @scaled_together(%x: !xd {fusion.name = "x"}, %sx: !sxd {fusion.name = "sx"}, %w: !w {fusion.name = "w"},
    %sw: !sw {fusion.name = "sw"}) -> (!gy {fusion.name = "y"}) {
  %g = fusion.reshard %x : !xd -> !gx
  %s = fusion.reshard %sx : !sxd -> !gsx
  %0 = fusion.matmul %g, %w {transpose_b} : !gx, !w -> !gp
  %1 = fusion.broadcast %s dims [0] : !gsx -> !gp
  %2 = arith.mulf %0, %1 : !gp
  %3 = fusion.broadcast %sw dims [1] : !sw -> !gp
  %4 = arith.mulf %2, %3 : !gp
  %5 = arith.truncf %4 : !gp to !gy
  return %5 : !gy
}
