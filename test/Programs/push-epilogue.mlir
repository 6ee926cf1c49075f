// RUN: tandem-compile %s --entry=reduce_scatter_epilogue --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=RANK1
// RUN: tandem-compile %s --entry=reduce_scatter_epilogue --mesh x=8 -o %t.tsp && tandem-check %t.tsp --queues=1 --sms=132 | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=reduce_scatter_epilogue_transposed --mesh x=4 -o %t.tsp && tandem-check %t.tsp --queues=1 --sms=132 | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=all_reduce_epilogue --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=ALL
// RUN: tandem-compile %s --entry=all_reduce_epilogue_layer --mesh x=4 -o %t.tsp && tandem-check %t.tsp --queues=1 --sms=132 | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=all_reduce_epilogue_layer --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=LAYER

// The schedule `push` from the epilogue: one matmul stores the rows of each peer into its memory, the own rows last. Then
// each device adds what has arrived.
//
// RANK1: symmetric 2x3072, signals [1,1,1,1]
// RANK1: s0 gated_matmul 10 parts leaves 0 SMs
// RANK1-NEXT: s0   matmul buf[[P:[0-9]+]]:f32[12,16] =
// RANK1-NEXT: s0   put c0 sym[[G:[0-9]+]]+768:f32[12,16] <- buf[[P]]:f32[12,16] to 2
// RANK1-NEXT: s0   signal c0 slot 1 value 1 to 2 exclusive
// RANK1-NEXT: s0   matmul
// RANK1-NEXT: s0   put {{.*}} to 3
// RANK1-NEXT: s0   signal {{.*}} to 3
// RANK1-NEXT: s0   matmul
// RANK1-NEXT: s0   put {{.*}} to 0
// RANK1-NEXT: s0   signal {{.*}} to 0
// RANK1-NEXT: s0   matmul sym[[G]]+768:f32[12,16] =
// RANK1-NEXT: s0 wait_signal c0 slot 2 value 1
// RANK1-NEXT: s0 wait_signal c0 slot 3 value 1
// RANK1-NEXT: s0 wait_signal c0 slot 0 value 1
// RANK1-NEXT: s0 reduce {{.*}}arg2:f32[12,16]
//
// PROVEN: no error
//
// An all-reduce is this and a gather of the sums, all on one stream.
//
// ALL: s0 gated_matmul 10 parts leaves 0 SMs
// ALL-NEXT: s0   matmul
// ALL-NEXT: s0   put c0 sym[[G:[0-9]+]]+768:f32[12,16] <- {{.*}} to 0
// ALL: s0   matmul sym[[G]]+768:f32[12,16] =
// ALL-NEXT: s0 wait_signal c0 slot 2 value 1
// ALL-NEXT: s0 wait_signal c0 slot 3 value 1
// ALL-NEXT: s0 wait_signal c0 slot 0 value 1
// ALL-NEXT: s0 reduce sum arg2+768:f32[12,16] <- sym[[G]]:f32[4,12,16]
// ALL-NEXT: s0 put c0 sym[[S:[0-9]+]]+768:f32[12,16] <- arg2+768:f32[12,16] to 0
// ALL-NEXT: s0 signal c0 slot 5 value 1 to 0
// ALL: s0 wait_signal c0 slot 6 value 1
// ALL-NEXT: s0 copy arg2+1536:f32[12,16] <- sym[[S]]+1536:f32[12,16]
// What follows an all-reduce in one stream comes behind the puts of the sums.
//
// LAYER: reduce sum sym[[SUMS:[0-9]+]]+768
// LAYER-NOT: launch
// LAYER: put c0 sym[[SUMS]]+768:f32[12,16] <- sym[[SUMS]]+768:f32[12,16] to 0
// LAYER-NOT: launch
// LAYER: put c0 sym[[SUMS]]+768:f32[12,16] <- sym[[SUMS]]+768:f32[12,16] to 3
// LAYER-NOT: launch
// LAYER: put c0 sym[[SUMS]]+768:f32[12,16] <- sym[[SUMS]]+768:f32[12,16] to 2
// LAYER: launch


#tp = #tandem.mesh<"tp", ["x" = ?]>
!x = tensor<?x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!wt = tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
!p = tensor<?x16xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
!y = tensor<?x16xf32, #fusion.axes<#tp, [didx("x"), -]>>

func.func @reduce_scatter_epilogue(%x: !x {fusion.name = "x", fusion.shape = [48, 24]}, %w: !w {fusion.name = "w"}) -> (!y {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p {schedule = #fusion.schedule<push, by = epilogue>} : !p -> !y
  return %y : !y
}

func.func @reduce_scatter_epilogue_transposed(%x: !x {fusion.name = "x", fusion.shape = [48, 24]}, %w: !wt {fusion.name = "w"}) -> (!y {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w {transpose_b} : !x, !wt -> !p
  %y = fusion.reshard %p {schedule = #fusion.schedule<push, by = epilogue>} : !p -> !y
  return %y : !y
}

// Rows that the devices do not divide are padded, so blocks are equal.

func.func @reduce_scatter_epilogue_ragged(%x: !x {fusion.name = "x", fusion.shape = [46, 24]}, %w: !w {fusion.name = "w"}) -> (!y {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p {schedule = #fusion.schedule<push, by = epilogue>} : !p -> !y
  return %y : !y
}

// All-reduces.

!s = tensor<?x16xf32, #fusion.axes<#tp, [stream("x"), -]>>
!v = tensor<16x12xf32, #fusion.axes<#tp, [-, -]>>
!z = tensor<?x12xf32, #fusion.axes<#tp, [stream("x"), -]>>

func.func @all_reduce_epilogue(%x: !x {fusion.name = "x", fusion.shape = [48, 24]}, %w: !w {fusion.name = "w"}) -> (!s {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p {schedule = #fusion.schedule<push, by = epilogue>} : !p -> !s
  return %y : !s
}

// What follows works on the sums as they arrive.

func.func @all_reduce_epilogue_layer(%x: !x {fusion.name = "x", fusion.shape = [48, 24]}, %w: !w {fusion.name = "w"},
    %r: !s {fusion.name = "r", fusion.shape = [48, 16]}, %v: !v {fusion.name = "v"}) -> (!z {fusion.name = "z"}) {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p {schedule = #fusion.schedule<push, by = epilogue>} : !p -> !s
  %0 = arith.addf %y, %r : !s
  %1 = math.tanh %0 : !s
  %z = fusion.matmul %1, %v : !s, !v -> !z
  return %z : !z
}
