// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// Sum over a dimension that is spread over the devices, slice by slice (stream-lowering document, `Allreduce`).
//
// FUSION-LABEL: func.func @allreduce(
// FUSION: fusion.stream_loop schedule <pipeline> from fallback (
// FUSION: %[[P:.+]] = fusion.reduce sum %{{.+}} dims [1] : {{.*}} -> {{.*}}partial = ["x"]>>
// FUSION: fusion.reshard %[[P]]
// FUSION-LABEL: func.func private @allreduce__reference(
// FUSION: fusion.reduce
// FUSION-NOT: fusion.reshard
//
// HOSTIR-LABEL: hostir.program @allreduce(
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c4 step %c1
// HOSTIR: hostir.sync
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c4 step %c1
// HOSTIR: %[[S:.+]] = hostir.worker_stream %[[I]]
// HOSTIR: hostir.reduce sum %{{.+}} to %[[TERM:.+]] dims [1] on %[[S]]
// HOSTIR: hostir.collective all_reduce %[[TERM]] to %{{.+}} via %{{.+}} on %[[S]] {reduction = #tandem<reduce_kind sum>}
// HOSTIR: scf.for
// HOSTIR: hostir.sync
//
// PLANNED-LABEL: hostir.program @allreduce(
// PLANNED-NOT: hostir.collective
// PLANNED: hostir.accumulate sum
//
// A reduce-scatter and an all-gather of three steps each, for each of 4 slices.
//
// RANK1-COUNT-24: group c0 of 2
// RANK1-NOT: {{s[0-9]+ group}}

#tp = #tandem.mesh<"tp", ["x" = ?]>

func.func @allreduce(
    %t0: tensor<4x?x8xf32, #fusion.axes<#tp, [-, didx("x"), -]>> {fusion.name = "t0", fusion.shape = [4, "x", 8]})
    -> (tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>> {fusion.name = "t1"}) {
  %t1 = fusion.reduce sum %t0 dims [1] : tensor<4x?x8xf32, #fusion.axes<#tp, [-, didx("x"), -]>>
                                      -> tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>>
  return %t1 : tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>>
}
