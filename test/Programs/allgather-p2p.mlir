// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1
// RUN: tandem-opt %s --tandem-lower=mesh=x=3 | FileCheck %s --check-prefix=P3

// All-gather whose slices have one owner each: point-to-point (stream-lowering document, `AllgatherP2p`).
//
// Each device owns one slice of dimension 0: the own one is copied, the others are received.
//
// FUSION-LABEL: func.func @allgather_p2p(
// FUSION: fusion.stream_loop schedule <exchange> from fallback (
// FUSION: fusion.reshard %{{.+}}
// FUSION-LABEL: func.func private @allgather_p2p__reference(
// FUSION-NOT: fusion.reshard
//
// HOSTIR-LABEL: hostir.program @allgather_p2p(
// HOSTIR-SAME: %[[T0:.+]]: memref<1x24xf32> {hostir.name = "t0", {{.*}} %[[T1:.+]]: memref<4x24xf32> {hostir.name = "t1", hostir.result
// HOSTIR-DAG: %[[MAIN:.+]] = hostir.main_stream
// HOSTIR-DAG: %[[ME:.+]] = hostir.device_index #{{.+}}, "x"
// HOSTIR-DAG: %[[CH:.+]] = hostir.channel "tp.x.two_sided" over #{{.+}} ["x"] can [two_sided]
// HOSTIR: hostir.sync %{{.+}} after %[[MAIN]]
// HOSTIR: %[[OWN:.+]] = memref.subview %[[T1]][%[[ME]], 0] [1, 24]
// HOSTIR: hostir.copy %[[T0]] to %[[OWN]] on
// HOSTIR: scf.for %[[D:.+]] = %c1 to %c4 step %c1
// HOSTIR: %[[S:.+]] = hostir.worker_stream %[[D]]
// HOSTIR: %[[SLOT:.+]] = memref.subview %[[T1]][%[[FROM:.+]], 0] [1, 24]
// HOSTIR: hostir.group via %[[CH]] on %[[S]] {
// HOSTIR-NEXT: hostir.recv %[[SLOT]] from %[[FROM]]
// HOSTIR-NEXT: hostir.send %[[T0]] to %
// HOSTIR: hostir.sync %[[MAIN]] after
//
// Everything is received in place: no buffer of its own.
//
// PLANNED-LABEL: hostir.program @allgather_p2p(
// PLANNED-SAME: arena_bytes = 0
// PLANNED-NOT: hostir.alloc
//
// RANK1: s1 copy arg1+96:f32[1,24] <- arg0:f32[1,24]
// RANK1: s2 group c0 of 2
// RANK1-NEXT: s2 recv c0 arg1+192:f32[1,24] from 2 tag 0 bytes 96
// RANK1-NEXT: s2 send c0 arg0:f32[1,24] to 0 tag 0 bytes 96
//
// P3-LABEL: hostir.program @allgather_p2p(
// P3: scf.for %{{.+}} = %c1 to %c3 step %c1

#tp = #tandem.mesh<"tp", ["x" = ?]>

func.func @allgather_p2p(
    %t0: tensor<?x24xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "t0", fusion.shape = ["x", 24]})
    -> (tensor<?x24xf32, #fusion.axes<#tp, [stream, -]>> {fusion.name = "t1"}) {
  %t1 = fusion.reshard %t0 : tensor<?x24xf32, #fusion.axes<#tp, [didx("x"), -]>>
                          -> tensor<?x24xf32, #fusion.axes<#tp, [stream, -]>>
  return %t1 : tensor<?x24xf32, #fusion.axes<#tp, [stream, -]>>
}
