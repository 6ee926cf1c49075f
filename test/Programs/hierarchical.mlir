// RUN: tandem-compile %s --entry=gather_nodes --mesh node=2,gpu=2 --dump --rank=1 | FileCheck %s --check-prefix=GATHER
// RUN: tandem-compile %s --entry=reduce_nodes --mesh node=2,gpu=2 --dump --rank=1 | FileCheck %s --check-prefix=REDUCE
// RUN: tandem-compile %s --entry=gather_nodes --mesh node=3,gpu=2 -o %t.tsp && tandem-check %t.tsp --queues=1
// RUN: tandem-compile %s --entry=reduce_halves --mesh node=2,gpu=3 -o %t.tsp && tandem-check %t.tsp --queues=1
// RUN: tandem-compile %s --entry=gather_halves --mesh node=1,gpu=1 --dump | FileCheck %s --check-prefix=ALONE
// RUN: tandem-compile %s --entry=gather_merged --mesh node=2,gpu=2 --dump --rank=1 | FileCheck %s --check-prefix=MERGED
// RUN: tandem-compile %s --entry=gather_sent --mesh node=2,gpu=3 --dump --rank=1 | FileCheck %s --check-prefix=SENT
// RUN: tandem-compile %s --entry=gather_sent_merged --mesh node=3,gpu=2 -o %t.tsp && tandem-check %t.tsp --queues=1

// Gathers and reductions over nodes of devices: a ring across nodes, puts inside of each. Rank 1 is device 1 of node 0.
//
// The hop comes first, then the own slice is put, and computed on. What the hop has brought is put to the node next.
//
// GATHER: channel c0 "pod.node.two_sided" two_sided link "" group [1,3]
// GATHER-NEXT: channel c1 "pod.gpu.one_sided" one_sided link "" group [0,1]
// GATHER: s2 group c0 of 2
// GATHER-NEXT: recv c0 sym0+2304:f32[12,16] from 3
// GATHER-NEXT: send c0 arg0:f32[12,16] to 3
// GATHER-NEXT: s1 put c1 sym0+768:f32[12,16] <- arg0:f32[12,16] to 0
// GATHER-NEXT: s1 signal c1 slot 1 value 1 to 0
// GATHER-NEXT: s0 matmul {{.*}} = arg0:f32[12,16]
// GATHER-NEXT: s0 wait_signal c1 slot 0 value 1
// GATHER-NEXT: s0 matmul {{.*}} = sym0:f32[12,16]
// GATHER-NEXT: s2 record [[HOP:e[0-9]+]]
// GATHER-NEXT: s1 wait [[HOP]]
// GATHER-NEXT: s0 wait [[HOP]]
// GATHER-NEXT: s1 put c1 sym0+2304:f32[12,16] <- sym0+2304:f32[12,16] to 0
// GATHER-NEXT: s1 signal c1 slot 1 value 2 to 0
// GATHER-NEXT: s0 matmul {{.*}} = sym0+2304:f32[12,16]
// GATHER-NEXT: s0 wait_signal c1 slot 0 value 2
// GATHER-NEXT: s0 matmul {{.*}} = sym0+1536:f32[12,16]
//
// First for node 1, whose sum of this node is sent there; then for node 0, with what node 1 has sent.
//
// REDUCE: s0 matmul {{.*}} = arg0+1152:f32[12,12]
// REDUCE: s1 put {{.*}} to 0
// REDUCE: s0 matmul sym{{.*}} = arg0+1728:f32[12,12]
// REDUCE: s2 wait_signal c1 slot 0 value 1
// REDUCE-NEXT: s2 reduce sum [[SUM:buf[0-9]+]]:f32[12,16] <- sym{{.*}}:f32[2,12,16]
// REDUCE: s2 group c0 of 2
// REDUCE-NEXT: recv c0 sym{{.*}} from 3
// REDUCE-NEXT: send c0 [[SUM]]:f32[12,16] to 3
// REDUCE-NEXT: s2 wait_signal c1 slot 0 value 2
// REDUCE-NEXT: s2 reduce sum arg2:f32[12,16] <- sym{{.*}}:f32[3,12,16]
//
// ALONE-NOT: channel
//
// MERGED: s0 matmul {{.*}} = arg0:f32[12,48]
// MERGED: s0 wait_signal c1 slot 0 value 1
// MERGED-NEXT: s0 matmul {{.*}} = sym0:f32[12,48]
// MERGED: s0 wait_signal c1 slot 0 value 2
// MERGED-NEXT: s0 matmul {{.*}} = sym0+4608:f32[24,48]
//
// Messages inside of the node: the next one is issued before the matmul on what the one before has brought.
//
// SENT: symmetric 2x0
// SENT: channel c1 "pod.gpu.two_sided" two_sided link "" group [0,1,2]
// SENT: s2 group c0 of 2
// SENT: s1 group c1 of 2
// SENT-NEXT: recv c1 buf0+1024:f32[8,16] from 2
// SENT-NEXT: send c1 arg0:f32[8,16] to 0
// SENT-NEXT: s0 matmul {{.*}} = arg0:f32[8,16]
// SENT: s1 group c1 of 2
// SENT-NEXT: recv c1 buf0:f32[8,16] from 0
// SENT-NEXT: send c1 arg0:f32[8,16] to 2
// SENT-NEXT: s0 matmul {{.*}} = buf0+1024:f32[8,16]
// SENT-NOT: put
//

#pod = #tandem.mesh<"pod", ["node" = ?, "gpu" = ?]>
!x = tensor<48x16xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
!xs = tensor<48x16xf32, #fusion.axes<#pod, [stream("node") * stream("gpu"), -]>>
!w = tensor<16x24xf32, #fusion.axes<#pod, [-, -]>>
!ys = tensor<48x24xf32, #fusion.axes<#pod, [stream("node") * stream("gpu"), -]>>

func.func @gather_nodes(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!ys {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<hierarchical>} : !x -> !xs
  %1 = fusion.matmul %0, %w : !xs, !w -> !ys
  return %1 : !ys
}

func.func @gather_sent(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!ys {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<hierarchical, spread = "send">} : !x -> !xs
  %1 = fusion.matmul %0, %w : !xs, !w -> !ys
  return %1 : !ys
}

// Two slices per owner.
!xs2 = tensor<48x16xf32, #fusion.axes<#pod, [stream("node") * stream("gpu") * stream(2), -]>>
!ys2 = tensor<48x24xf32, #fusion.axes<#pod, [stream("node") * stream("gpu") * stream(2), -]>>

func.func @gather_halves(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!ys2 {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<hierarchical>} : !x -> !xs2
  %1 = fusion.matmul %0, %w : !xs2, !w -> !ys2
  return %1 : !ys2
}

!xk = tensor<48x48xf32, #fusion.axes<#pod, [-, didx("node") * didx("gpu")]>>
!wk = tensor<48x16xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
!terms = tensor<48x16xf32, #fusion.axes<#pod, [stream("node") * stream("gpu"), -], partial = ["node", "gpu"]>>

func.func @reduce_nodes(%x: !xk {fusion.name = "x"}, %w: !wk {fusion.name = "w"}) -> (!x {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w : !xk, !wk -> !terms
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<hierarchical>} : !terms -> !x
  return %1 : !x
}

!terms2 = tensor<48x16xf32, #fusion.axes<#pod, [stream("node") * stream("gpu") * stream(2), -], partial = ["node", "gpu"]>>

func.func @reduce_halves(%x: !xk {fusion.name = "x"}, %w: !wk {fusion.name = "w"}) -> (!x {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w : !xk, !wk -> !terms2
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<hierarchical>} : !terms2 -> !x
  return %1 : !x
}

// All slices of another node at once.
!rows = tensor<48x48xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
!all = tensor<48x48xf32, #fusion.axes<#pod, [stream("node") * stream("gpu"), -]>>
!ws = tensor<48x48xf32, #fusion.axes<#pod, [-, didx("node") * didx("gpu")]>>
!out = tensor<48x48xf32, #fusion.axes<#pod, [stream("node") * stream("gpu"), didx("node") * didx("gpu")]>>

func.func @gather_merged(%x: !rows {fusion.name = "x"}, %w: !ws {fusion.name = "w"}) -> (!out {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<hierarchical, merge = "node">} : !rows -> !all
  %1 = fusion.matmul %0, %w : !all, !ws -> !out
  return %1 : !out
}

func.func @gather_sent_merged(%x: !rows {fusion.name = "x"}, %w: !ws {fusion.name = "w"}) -> (!out {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<hierarchical, merge = "node", spread = "send">} : !rows -> !all
  %1 = fusion.matmul %0, %w : !all, !ws -> !out
  return %1 : !out
}
