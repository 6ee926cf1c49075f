// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1
// RUN: tandem-opt %s --tandem-lower=mesh=x=3 | FileCheck %s --check-prefix=P3

// All-gather, a slice of the other dimension per iteration (stream-lowering document, `Allgather`).
//
// Each iteration gathers one slice of dimension 0 from all devices.
//
// FUSION-LABEL: func.func @allgather(
// FUSION: fusion.stream_loop schedule <pipeline> from fallback (
// FUSION: fusion.reshard %{{.+}} : {{.*}}[-, didx("x"), -]>> -> {{.*}}[stream, -, -]>>
// FUSION-LABEL: func.func private @allgather__reference(
// FUSION-NOT: fusion.reshard
//
// HOSTIR-LABEL: hostir.program @allgather(
// HOSTIR-SAME: %[[T0:.+]]: memref<4x1x8xf32> {hostir.name = "t0", {{.*}} %[[T1:.+]]: memref<4x4x8xf32> {hostir.name = "t1", hostir.result
// HOSTIR-DAG: %[[MAIN:.+]] = hostir.main_stream
// HOSTIR-DAG: %[[CH:.+]] = hostir.channel "tp.x.collectives" over #{{.+}} ["x"] can [collectives]
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c4 step %c1
// HOSTIR-NEXT: %[[S:.+]] = hostir.worker_stream %[[I]]
// HOSTIR-NEXT: hostir.sync %[[S]] after %[[MAIN]]
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c4 step %c1
// HOSTIR: %[[S:.+]] = hostir.worker_stream %[[I]]
// HOSTIR: %[[IN:.+]] = memref.subview %[[T0]][%[[I]], 0, 0] [1, 1, 8]
// HOSTIR: %[[OUT:.+]] = memref.subview %[[T1]][%[[I]], 0, 0] [1, 4, 8]
// HOSTIR: hostir.collective all_gather %[[IN]] to %[[OUT]] via %[[CH]] on %[[S]] : memref<8xf32, {{.*}}> to memref<4x8xf32
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c4 step %c1
// HOSTIR-NEXT: %[[S:.+]] = hostir.worker_stream %[[I]]
// HOSTIR-NEXT: hostir.sync %[[MAIN]] after %[[S]]
//
// The target has no collectives: a ring.
//
// PLANNED-LABEL: hostir.program @allgather(
// PLANNED-NOT: hostir.collective
// PLANNED: hostir.channel "tp.x.collectives" over #{{.+}} ["x"] can [two_sided]
// PLANNED: scf.for
// PLANNED: scf.for
// PLANNED: hostir.copy
// PLANNED: scf.for
// PLANNED: hostir.group via
// PLANNED-DAG: hostir.recv
// PLANNED-DAG: hostir.send
//
// One ring of three steps for each of 4 slices.
//
// RANK1-COUNT-12: group c0 of 2
// RANK1-NOT: {{s[0-9]+ group}}
//
// P3-LABEL: hostir.program @allgather(
// P3-SAME: memref<4x1x8xf32> {{.*}} memref<4x3x8xf32>

#tp = #tandem.mesh<"tp", ["x" = ?]>

func.func @allgather(
    %t0: tensor<4x?x8xf32, #fusion.axes<#tp, [-, didx("x"), -]>> {fusion.name = "t0", fusion.shape = [4, "x", 8]})
    -> (tensor<4x?x8xf32, #fusion.axes<#tp, [stream, -, -]>> {fusion.name = "t1"}) {
  %t1 = fusion.reshard %t0 : tensor<4x?x8xf32, #fusion.axes<#tp, [-, didx("x"), -]>>
                          -> tensor<4x?x8xf32, #fusion.axes<#tp, [stream, -, -]>>
  return %t1 : tensor<4x?x8xf32, #fusion.axes<#tp, [stream, -, -]>>
}
