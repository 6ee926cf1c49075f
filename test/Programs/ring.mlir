// RUN: tandem-compile %s --entry=allgather_matmul_ring --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=RING
// RUN: tandem-compile %s --entry=allgather_matmul_both --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=BOTH
// RUN: tandem-compile %s --entry=allgather_matmul_both --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=TWO
// RUN: tandem-compile %s --entry=allgather_matmul_split --mesh x=3 --dump --rank=1 | FileCheck %s --check-prefix=SPLIT
// RUN: tandem-compile %s --entry=matmul_reduce_scatter_ring --mesh x=3 --dump --rank=1 | FileCheck %s --check-prefix=REDUCE
// RUN: tandem-compile %s --entry=matmul_reduce_scatter_both --mesh x=4 -o %t.tsp && tandem-check %t.tsp --queues=1
// RUN: tandem-compile %s --entry=allgather_matmul_buffers --mesh x=6 -o %t.tsp && tandem-check %t.tsp --queues=1
// RUN: tandem-compile %s --entry=matmul_reduce_scatter_adds --mesh x=3 --dump --rank=1 | FileCheck %s --check-prefix=ADDS
// RUN: tandem-compile %s --entry=matmul_reduce_scatter_adds --mesh x=8 -o %t.tsp && tandem-check %t.tsp --queues=1

// Gathers and reductions that go from neighbour to neighbour, in one direction or in both.
//
// Rank 1 of 4: a hop is issued before the matmul on what the hop before it has brought. The last slice is not sent on.
//
// RING: s1 group c0 of 2
// RING-NEXT: recv c0 buf0+3072:f32[24,16] from 2
// RING-NEXT: send c0 arg0:f32[24,16] to 0
// RING-NEXT: s0 matmul {{.*}} = arg0:f32[24,16]
// RING: s1 group c0 of 2
// RING-NEXT: recv c0 buf0+4608:f32[24,16] from 2
// RING-NEXT: send c0 buf0+3072:f32[24,16] to 0
// RING-NEXT: s0 matmul {{.*}} = buf0+3072:f32[24,16]
// RING: s1 group c0 of 2
// RING-NEXT: recv c0 buf0:f32[24,16] from 2
// RING-NEXT: send c0 buf0+4608:f32[24,16] to 0
// RING-NEXT: s0 matmul {{.*}} = buf0+4608:f32[24,16]
// RING-NOT: group
// RING: s0 matmul {{.*}} = buf0:f32[24,16]
//
// Both ways: two steps from one side and one from the other, each side with its channel. Both arrivals of step 1 feed
// matmuls.
//
// BOTH: s1 group c0 of 2
// BOTH-NEXT: recv c0 buf0+3072:f32[24,16] from 2
// BOTH-NEXT: send c0 arg0:f32[24,16] to 0
// BOTH-NEXT: s2 group c1 of 2
// BOTH-NEXT: recv c1 buf0:f32[24,16] from 0
// BOTH-NEXT: send c1 arg0:f32[24,16] to 2
// BOTH-NEXT: s0 matmul {{.*}} = arg0:f32[24,16]
// BOTH: s1 group c0 of 2
// BOTH-NEXT: recv c0 buf0+4608:f32[24,16] from 2
// BOTH-NEXT: send c0 buf0+3072:f32[24,16] to 0
// BOTH-NEXT: s0 matmul {{.*}} = buf0+3072:f32[24,16]
// BOTH-NEXT: s0 matmul {{.*}} = buf0:f32[24,16]
// BOTH-NOT: group
// BOTH: s0 matmul {{.*}} = buf0+4608:f32[24,16]
//
// Two devices have one neighbour: one direction.
//
// TWO: s1 group c0 of 2
// TWO-NOT: s{{[0-9]}} group
//
// Halves of each shard, all the way round.
//
// SPLIT: group c0
// SPLIT-NEXT: recv c0 [[A:buf0[+0-9]*]]:f32[16,16] from 2
// SPLIT-NEXT: send c0 arg0:f32[16,16] to 0
// SPLIT-NEXT: s2 group c1
// SPLIT-NEXT: recv c1 [[B:buf0[+0-9]*]]:f32[16,16] from 0
// SPLIT-NEXT: send c1 arg0+1024:f32[16,16] to 2
// SPLIT: group c0
// SPLIT-NEXT: recv
// SPLIT-NEXT: send c0 [[A]]:f32[16,16] to 0
// SPLIT: group c1
// SPLIT-NEXT: recv
// SPLIT-NEXT: send c1 [[B]]:f32[16,16] to 2
//
// Rank 1 of 3 computes for ranks 2 and 0, then for itself. A sum travels while the next slice is computed.
//
// REDUCE: s0 matmul [[FIRST:buf[0-9]+]]:f32[32,16] = arg0+4096:
// REDUCE: s1 group c0 of 2
// REDUCE-NEXT: recv c0 [[HERE:buf[0-9]+]]:f32[32,16] from 2
// REDUCE-NEXT: send c0 [[FIRST]]:f32[32,16] to 0
// REDUCE-NEXT: s0 matmul [[SECOND:buf[0-9]+]]:f32[32,16] = arg0:
// REDUCE: s1 accumulate sum [[SECOND]]:f32[32,16] <- [[HERE]]:f32[32,16]
// REDUCE-NEXT: s1 group c0 of 2
// REDUCE-NEXT: recv c0 [[HERE]]:f32[32,16] from 2
// REDUCE-NEXT: send c0 [[SECOND]]:f32[32,16] to 0
// REDUCE-NEXT: s0 matmul arg2:f32[32,16] = arg0+2048:
// REDUCE: s1 accumulate sum arg2:f32[32,16] <- [[HERE]]:f32[32,16]
//
// Matmuls that add to what has arrived, in both directions in turn; the last sum arrives in the result.
//
// ADDS: s0 matmul [[A:buf[0-9]+]]:f32[16,16] = arg0
// ADDS: s1 group c0 of 2
// ADDS-NEXT: recv c0 [[A]]+{{[0-9]+}}:f32[16,16] from 2
// ADDS-NEXT: send c0 [[A]]:f32[16,16] to 0
// ADDS-NEXT: s0 matmul [[B:buf[0-9]+]]{{.*}}:f32[16,16] = arg0
// ADDS: s2 group c1 of 2
// ADDS: s0 matmul [[A]]+{{[0-9]+}}:f32[16,16] += arg0
// ADDS: s1 group c0 of 2
// ADDS-NEXT: recv c0 arg2:f32[16,16] from 2
// ADDS-NEXT: send c0 [[A]]+{{[0-9]+}}:f32[16,16] to 0
// ADDS: s0 matmul [[B]]{{.*}}:f32[16,16] += arg0
// ADDS: s2 group c1 of 2
// ADDS-NEXT: recv c1 arg2+1024:f32[16,16] from 0
// ADDS: s0 matmul arg2:f32[16,16] += arg0
// ADDS: s0 matmul arg2+1024:f32[16,16] += arg0
// ADDS-NOT: accumulate
//

#mesh = #tandem.mesh<"m", ["x" = ?]>
!x = tensor<96x16xf32, #fusion.axes<#mesh, [didx("x"), -]>>
!xs = tensor<96x16xf32, #fusion.axes<#mesh, [stream("x"), -]>>
!w = tensor<16x24xf32, #fusion.axes<#mesh, [-, -]>>
!ys = tensor<96x24xf32, #fusion.axes<#mesh, [stream("x"), -]>>

func.func @allgather_matmul_ring(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!ys {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring>} : !x -> !xs
  %1 = fusion.matmul %0, %w : !xs, !w -> !ys
  return %1 : !ys
}

func.func @allgather_matmul_both(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}, %b: tensor<24xf32, #fusion.axes<#mesh, [-]>> {fusion.name = "b"}) -> (!ys {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring, directions = 2>} : !x -> !xs
  %1 = fusion.matmul %0, %w bias %b : !xs, !w, tensor<24xf32, #fusion.axes<#mesh, [-]>> -> !ys
  return %1 : !ys
}

!xs2 = tensor<96x16xf32, #fusion.axes<#mesh, [stream("x") * stream(2), -]>>
!ys2 = tensor<96x24xf32, #fusion.axes<#mesh, [stream("x") * stream(2), -]>>

func.func @allgather_matmul_buffers(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!ys {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring, buffers = 2>} : !x -> !xs
  %1 = fusion.matmul %0, %w : !xs, !w -> !ys
  return %1 : !ys
}

func.func @allgather_matmul_split(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!ys2 {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring, split = "yes">} : !x -> !xs2
  %1 = fusion.matmul %0, %w : !xs2, !w -> !ys2
  return %1 : !ys2
}

func.func @allgather_chunks_both(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!ys2 {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring, directions = 2>} : !x -> !xs2
  %1 = fusion.matmul %0, %w : !xs2, !w -> !ys2
  return %1 : !ys2
}

// The gathered dimension is contracted: the slices accumulate into one result.
!xk = tensor<16x96xf32, #fusion.axes<#mesh, [-, didx("x")]>>
!xks = tensor<16x96xf32, #fusion.axes<#mesh, [-, stream("x")]>>
!wk = tensor<96x48xf32, #fusion.axes<#mesh, [-, didx("x")]>>
!yk = tensor<16x48xf32, #fusion.axes<#mesh, [-, didx("x")]>>

func.func @gather_k_both(%x: !xk {fusion.name = "x"}, %w: !wk {fusion.name = "w"}) -> (!yk {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring, directions = 2>} : !xk -> !xks
  %1 = fusion.matmul %0, %w : !xks, !wk -> !yk
  return %1 : !yk
}

!xr = tensor<96x48xf32, #fusion.axes<#mesh, [-, didx("x")]>>
!wr = tensor<48x16xf32, #fusion.axes<#mesh, [didx("x"), -]>>
!terms = tensor<96x16xf32, #fusion.axes<#mesh, [stream("x"), -], partial = ["x"]>>
!terms2 = tensor<96x16xf32, #fusion.axes<#mesh, [stream("x") * stream(2), -], partial = ["x"]>>

func.func @matmul_reduce_scatter_ring(%x: !xr {fusion.name = "x"}, %w: !wr {fusion.name = "w"}) -> (!x {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w : !xr, !wr -> !terms
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<ring>} : !terms -> !x
  return %1 : !x
}

func.func @matmul_reduce_scatter_both(%x: !xr {fusion.name = "x"}, %w: !wr {fusion.name = "w"}) -> (!x {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w : !xr, !wr -> !terms2
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<ring, directions = 2>} : !terms2 -> !x
  return %1 : !x
}

func.func @matmul_reduce_scatter_adds(%x: !xr {fusion.name = "x"}, %w: !wr {fusion.name = "w"}) -> (!x {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w : !xr, !wr -> !terms2
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<ring, directions = 2, sum = "matmul">} : !terms2 -> !x
  return %1 : !x
}

// The program of the ring document, with fewer rows and columns: LHS by rows, RHS by columns.
!lhs = tensor<192x256xf32, #fusion.axes<#mesh, [didx("x"), -]>>
!slices = tensor<192x256xf32, #fusion.axes<#mesh, [stream("x"), -]>>
!rhs = tensor<256x96xf32, #fusion.axes<#mesh, [-, didx("x")]>>
!product = tensor<192x96xf32, #fusion.axes<#mesh, [stream("x"), didx("x")]>>

func.func @ring_document(%x: !lhs {fusion.name = "x"}, %w: !rhs {fusion.name = "w"}) -> (!product {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring>} : !lhs -> !slices
  %1 = fusion.matmul %0, %w : !slices, !rhs -> !product
  return %1 : !product
}

// The 4-D gathers of the bidirectional document, along rows and along the contracted dimension, with a bias.
!x4 = tensor<1x1x96x16xf32, #fusion.axes<#mesh, [-, -, didx("x"), -]>>
!xs4 = tensor<1x1x96x16xf32, #fusion.axes<#mesh, [-, -, stream("x"), -]>>
!y4 = tensor<1x1x96x24xf32, #fusion.axes<#mesh, [-, -, stream("x"), -]>>
!b4 = tensor<24xf32, #fusion.axes<#mesh, [-]>>

func.func @rows_4d_both(%x: !x4 {fusion.name = "x"}, %w: !w {fusion.name = "w"}, %b: !b4 {fusion.name = "b"}) -> (!y4 {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring, directions = 2>} : !x4 -> !xs4
  %1 = fusion.matmul %0, %w bias %b : !xs4, !w, !b4 -> !y4
  return %1 : !y4
}

!k4 = tensor<1x1x16x96xf32, #fusion.axes<#mesh, [-, -, -, didx("x")]>>
!ks4 = tensor<1x1x16x96xf32, #fusion.axes<#mesh, [-, -, -, stream("x")]>>
!z4 = tensor<1x1x16x48xf32, #fusion.axes<#mesh, [-, -, -, didx("x")]>>

func.func @columns_4d_both(%x: !k4 {fusion.name = "x"}, %w: !wk {fusion.name = "w"}) -> (!z4 {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring, directions = 2>} : !k4 -> !ks4
  %1 = fusion.matmul %0, %w : !ks4, !wk -> !z4
  return %1 : !z4
}
