// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --entry=allgather_matmul_push --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=RANK1
// RUN: tandem-compile %s --entry=allgather_matmul_push_chunks --mesh x=3 --dump --rank=1 | FileCheck %s --check-prefix=CHUNKS
// RUN: tandem-compile %s --entry=allgather_matmul_push_kept --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=KEPT
// RUN: tandem-compile %s --entry=allgather_matmul_push_kept --mesh x=4 -o %t.tsp && tandem-check %t.tsp --queues=1 | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=allgather_matmul_push_kept --mesh x=2 --workers=1 --dump --rank=1 | FileCheck %s --check-prefix=ONE

// All-gather and matmul by one-sided copies (schedule `push`): each device writes its rows into its peers' memory, one
// peer after another, and multiplies what has arrived.
//
// FUSION-LABEL: func.func @allgather_matmul_push(
// FUSION: fusion.stream_loop schedule <push> from annotation (
// FUSION: %[[G:.+]] = fusion.reshard %{{.+}} : {{.*}}[didx("x"), -]>> -> {{.*}}[stream(4), -]>>
// FUSION: fusion.matmul %[[G]]
//
// All puts are issued before the first wait. The own rows are read where they are.
//
// HOSTIR-LABEL: hostir.program @allgather_matmul_push(
// HOSTIR-SAME: %[[X:.+]]: memref<12x16xf32> {{.*}} %[[W:.+]]: memref<16x6xf32> {{.*}} %[[Y:.+]]: memref<48x6xf32>
// HOSTIR-DAG: %[[MAIN:.+]] = hostir.main_stream
// HOSTIR-DAG: %[[ME:.+]] = hostir.device_index #{{.+}}, "x"
// HOSTIR-DAG: %[[CH:.+]] = hostir.channel "tp.x.one_sided" over #{{.+}} ["x"] can [one_sided]
// HOSTIR-DAG: %[[G:.+]] = hostir.alloc on %[[MAIN]] : memref<48x16xf32, #hostir.symmetric>
// HOSTIR: %[[COPIES:.+]] = hostir.worker_stream %c0
// HOSTIR-NEXT: hostir.sync %[[COPIES]] after %[[MAIN]]
// HOSTIR-NEXT: scf.for %[[D:.+]] = %c1 to %c4 step %c1
// HOSTIR: %[[PLACE:.+]] = memref.subview %[[G]]
// HOSTIR-NEXT: hostir.put %[[X]] to %[[PLACE]] at %[[TO:.+]] via %[[CH]] on %[[COPIES]]
// HOSTIR-NEXT: hostir.signal %[[ME]] = %c1 at %[[TO]] via %[[CH]] on %[[COPIES]]
// HOSTIR-NOT: hostir.put
// HOSTIR: hostir.matmul %[[X]], %[[W]] to %{{.+}} on %[[MAIN]]
// HOSTIR: scf.for %[[D:.+]] = %c1 to %c4 step %c1
// HOSTIR: hostir.wait_signal %[[FROM:.+]] >= %c1 via %[[CH]] on %[[MAIN]]
// HOSTIR: %[[SLICE:.+]] = memref.subview %[[G]]
// HOSTIR: hostir.matmul %[[SLICE]], %[[W]] to %{{.+}} on %[[MAIN]]
// HOSTIR: hostir.sync %[[MAIN]] after %[[COPIES]]
//
// PLANNED-LABEL: hostir.program @allgather_matmul_push(
// PLANNED-SAME: arena_bytes = 0 : i64, {{.*}}symmetric_bytes = 3072
//
// Slots are the devices' numbers. Rank 1 turns to 0, 3, 2 and is turned to by 2, 3, 0.
//
// RANK1: symmetric 2x3072, signals [1,1,1,1]
// RANK1: s1 put c0 sym1+768:f32[12,16] <- arg0:f32[12,16] to 0
// RANK1-NEXT: s1 signal c0 slot 1 value 1 to 0
// RANK1-NEXT: s1 put {{.*}} to 3
// RANK1-NEXT: s1 signal c0 slot 1 value 1 to 3
// RANK1-NEXT: s1 put {{.*}} to 2
// RANK1-NEXT: s1 signal c0 slot 1 value 1 to 2
// RANK1-NEXT: s0 matmul arg2+288:f32[12,6] = arg0:f32[12,16]
// RANK1-NEXT: s0 wait_signal c0 slot 2 value 1
// RANK1-NEXT: s0 matmul arg2+576:f32[12,6] = sym1+1536:f32[12,16]
// RANK1-NEXT: s0 wait_signal c0 slot 3 value 1
// RANK1-NEXT: s0 matmul
// RANK1-NEXT: s0 wait_signal c0 slot 0 value 1
// RANK1-NEXT: s0 matmul arg2:f32[12,6] = sym1:f32[12,16]
//
// Two slices a device: the second has the value 2. Two streams compute, in turn. The own slices are computed at once.
//
// CHUNKS: signals [2,2,2]
// CHUNKS: s1 put {{.*}} to 0
// CHUNKS-NEXT: s1 signal c0 slot 1 value 1 to 0
// CHUNKS-NEXT: s1 put {{.*}} to 0
// CHUNKS-NEXT: s1 signal c0 slot 1 value 2 to 0
// CHUNKS: {{s2 matmul .* = arg0:f32\[16,16\]}}
// CHUNKS-NEXT: s2 wait_signal c0 slot 2 value 1
// CHUNKS-NEXT: s2 matmul
// CHUNKS-NEXT: s3 wait_signal c0 slot 2 value 2
// CHUNKS-NEXT: s3 matmul

#tp = #tandem.mesh<"tp", ["x" = ?]>

func.func @allgather_matmul_push(
    %x: tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "x"},
    %w: tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "w"})
    -> (tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w {fusion.gather = "before", fusion.schedule = #fusion.schedule<push>}
      : tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
     -> tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
  return %y : tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
}

// Two slices a device, on two streams.
func.func @allgather_matmul_push_chunks(
    %x: tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "x"},
    %w: tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "w"})
    -> (tensor<48x24xf32, #fusion.axes<#tp, [stream("x") * stream(2), didx("x")]>> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w {fusion.gather = "before", fusion.schedule = #fusion.schedule<push, streams = 2>}
      : tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
     -> tensor<48x24xf32, #fusion.axes<#tp, [stream("x") * stream(2), didx("x")]>>
  return %y : tensor<48x24xf32, #fusion.axes<#tp, [stream("x") * stream(2), didx("x")]>>
}

// The gathered value is a result, too. It is copied by a stream of its own; matmuls read slices where they are. If there is
// only one worker stream, the puts and copies share it.
//
// KEPT: s2 copy arg3+1536:f32[24,16] <- arg0:f32[24,16]
// KEPT-NEXT: s0 matmul {{.*}} = arg0:f32[24,16]
// KEPT: s0 wait_signal c0 slot 0 value 1
// KEPT-NEXT: s0 record [[E:e[0-9]+]]
// KEPT-NEXT: s2 wait [[E]]
// KEPT-NEXT: s2 copy arg3:f32[12,16] <- sym
// KEPT-NEXT: s0 matmul {{.*}} = sym
//
// PROVEN: no error
//
// ONE: s1 put
// ONE: s1 copy arg3
// ONE-NOT: {{[^a-z]}}s2

#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#chunks = #fusion.axes<#tp, [stream("x") * stream(2), -]>
!gathered = tensor<48x16xf32, #chunks>
!products = tensor<48x24xf32, #fusion.axes<#tp, [stream("x") * stream(2), didx("x")]>>

func.func @allgather_matmul_push_kept(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"},
    %w: tensor<16x24xf32, #columns> {fusion.name = "w"})
    -> (!products {fusion.name = "y"}, !gathered {fusion.name = "g"}) {
  %g = fusion.reshard %x {schedule = #fusion.schedule<push>} : tensor<48x16xf32, #rows> -> !gathered
  %y = fusion.matmul %g, %w : !gathered, tensor<16x24xf32, #columns> -> !products
  return %y, %g : !products, !gathered
}
