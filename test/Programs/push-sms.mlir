// RUN: tandem-compile %s --entry=gather_sms --mesh x=4 --dump --rank=0 | FileCheck %s --check-prefix=EACH
// RUN: tandem-compile %s --entry=gather_sms_gated --mesh x=4 --dump --rank=0 | FileCheck %s --check-prefix=GATED
// RUN: tandem-compile %s --entry=gather_sms --mesh x=8 -o %t.tsp && tandem-check %t.tsp --queues=1 --sms=132 | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=gather_sms_gated --mesh x=8 -o %t.tsp && tandem-check %t.tsp --queues=1 --sms=132 | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=gather_sms_columns --mesh x=4 -o %t.tsp && tandem-check %t.tsp --queues=1 --sms=132 | FileCheck %s --check-prefix=PROVEN

// The schedule `push` by SMs: one kernel stores the own slices to all peers, next to the matmuls.
//
// EACH: s1 fused_exchange 6 parts by 8 blocks
// EACH-NEXT: s1   put c0 sym[[G:[0-9]+]]:f32[12,16] <- arg0:f32[12,16] to 3
// EACH-NEXT: s1   signal c0 slot 0 value 1 to 3
// EACH-NEXT: s1   put c0 sym[[G]]:f32[12,16] <- arg0:f32[12,16] to 2
// EACH-NEXT: s1   signal c0 slot 0 value 1 to 2
// EACH-NEXT: s1   put c0 sym[[G]]:f32[12,16] <- arg0:f32[12,16] to 1
// EACH-NEXT: s1   signal c0 slot 0 value 1 to 1
// EACH: s0 matmul
// EACH: s0 wait_signal c0 slot 1 value 1
// EACH-NEXT: s0 matmul
//
// The gated matmul leaves the SMs, and reads the rows that the kernel stores to the peers.
//
// GATED: s1 fused_exchange 6 parts by 8 blocks
// GATED-NEXT: s1   put c0 {{.*}} <- arg0:f32[12,16] to 3
// GATED: s0 gated_matmul 7 parts leaves 8 SMs
// GATED-NEXT: s0   matmul arg2:f32[12,6] = arg0:f32[12,16] *
//
// PROVEN: no error

#tp = #tandem.mesh<"tp", ["x" = ?]>
!x = tensor<?x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!w = tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
!g = tensor<?x16xf32, #fusion.axes<#tp, [stream("x"), -]>>
!y = tensor<?x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>

func.func @gather_sms(%x: !x {fusion.name = "x", fusion.shape = [48, 16]}, %w: !w {fusion.name = "w"}) -> (!y {fusion.name = "y"}) {
  %g = fusion.reshard %x {schedule = #fusion.schedule<push, by = sms>} : !x -> !g
  %y = fusion.matmul %g, %w : !g, !w -> !y
  return %y : !y
}

func.func @gather_sms_gated(%x: !x {fusion.name = "x", fusion.shape = [48, 16]}, %w: !w {fusion.name = "w"}) -> (!y {fusion.name = "y"}) {
  %g = fusion.reshard %x {schedule = #fusion.schedule<gated, by = sms>} : !x -> !g
  %y = fusion.matmul %g, %w : !g, !w -> !y
  return %y : !y
}

// Slices of columns: the puts of two interleave in the peer's matrix, and have no element in common.

!xc = tensor<?x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
!gc = tensor<?x16xf32, #fusion.axes<#tp, [-, stream("x") * stream(2)]>>
!wc = tensor<16x24xf32, #fusion.axes<#tp, [stream("x") * stream(2), didx("x")]>>
!yc = tensor<?x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
func.func @gather_sms_columns(%x: !xc {fusion.name = "x", fusion.shape = [48, 16]}, %w: !wc {fusion.name = "w"}) -> (!yc {fusion.name = "y"}) {
  %g = fusion.reshard %x {schedule = #fusion.schedule<push, by = sms>} : !xc -> !gc
  %y = fusion.matmul %g, %w : !gc, !wc -> !yc
  return %y : !yc
}
