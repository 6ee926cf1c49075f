// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1
// RUN: tandem-opt %s --tandem-lower=mesh=x=3 | FileCheck %s --check-prefix=P3

// All-gather and matmul, slice by slice (stream-lowering document, `AG_matmul`). The user writes only the matmul; the
// gather follows from the axes.
//
// The gather is inserted before the matmul; both run in one loop over dimension 0.
//
// FUSION-LABEL: func.func @allgather_matmul(
// FUSION: fusion.stream_loop schedule <pipeline> from fallback (
// FUSION: %[[G:.+]] = fusion.reshard %{{.+}} : {{.*}}[-, didx("x"), -, -]>> -> {{.*}}[stream, -, -, -]>>
// FUSION: fusion.matmul %[[G]]
// FUSION-LABEL: func.func private @allgather_matmul__reference(
// FUSION-NOT: fusion.reshard
// FUSION: fusion.matmul
//
// HOSTIR-LABEL: hostir.program @allgather_matmul(
// HOSTIR-SAME: %[[T0:.+]]: memref<8x1x4x32xf32> {{.*}} %[[T1:.+]]: memref<32x16xf32> {{.*}} %[[T2:.+]]: memref<8x4x4x16xf32>
// HOSTIR-DAG: %[[MAIN:.+]] = hostir.main_stream
// HOSTIR-DAG: %[[CH:.+]] = hostir.channel
// HOSTIR-DAG: %[[G:.+]] = hostir.alloc on %[[MAIN]] : memref<8x4x4x32xf32>
// HOSTIR: hostir.sync %{{.+}} after %[[MAIN]]
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c8 step %c1
// HOSTIR: %[[S:.+]] = hostir.worker_stream %[[I]]
// HOSTIR: %[[IN:.+]] = memref.subview %[[T0]][%[[I]], 0, 0, 0]
// HOSTIR: %[[SLOT:.+]] = memref.subview %[[G]][%[[I]], 0, 0, 0]
// HOSTIR: hostir.collective all_gather %[[IN]] to %[[SLOT]] via %[[CH]] on %[[S]] : memref<4x32xf32, {{.*}}> to memref<4x4x32xf32
// HOSTIR: %[[A:.+]] = memref.subview %[[G]][%[[I]], 0, 0, 0] [1, 4, 4, 32]
// HOSTIR: %[[OUT:.+]] = memref.subview %[[T2]][%[[I]], 0, 0, 0] [1, 4, 4, 16]
// HOSTIR: hostir.matmul %[[A]], %[[T1]] to %[[OUT]] on %[[S]]
// HOSTIR: hostir.sync %[[MAIN]] after
//
// Only the slices in flight are kept: one of 4x4x32 f32 for each of 4 workers, not 8.
//
// PLANNED-LABEL: hostir.program @allgather_matmul(
// PLANNED-SAME: arena_bytes = 8192
// PLANNED: scf.for
// PLANNED: scf.for
// PLANNED: %[[S:.+]] = hostir.worker_stream
// PLANNED: hostir.alloc on %[[S]] {offset = 0 : i64, pitch = 2048 : i64}
// PLANNED: hostir.group
// PLANNED: hostir.matmul
//
// One ring of three steps for each of 8 slices.
//
// RANK1-COUNT-24: group c0 of 2
// RANK1-NOT: {{s[0-9]+ group}}
//
// P3-LABEL: hostir.program @allgather_matmul(

#tp = #tandem.mesh<"tp", ["x" = ?]>

func.func @allgather_matmul(
    %t0: tensor<8x?x4x32xf32, #fusion.axes<#tp, [-, didx("x"), -, -]>>
        {fusion.name = "t0", fusion.shape = [8, "x", 4, 32]},
    %t1: tensor<32x16xf32, #fusion.axes<#tp, [-, -]>> {fusion.name = "t1"})
    -> (tensor<8x?x4x16xf32, #fusion.axes<#tp, [stream, -, -, -]>> {fusion.name = "t2"}) {
  %t2 = fusion.matmul %t0, %t1
      : tensor<8x?x4x32xf32, #fusion.axes<#tp, [-, didx("x"), -, -]>>, tensor<32x16xf32, #fusion.axes<#tp, [-, -]>>
     -> tensor<8x?x4x16xf32, #fusion.axes<#tp, [stream, -, -, -]>>
  return %t2 : tensor<8x?x4x16xf32, #fusion.axes<#tp, [stream, -, -, -]>>
}
