// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1
// RUN: tandem-opt %s --tandem-lower=mesh=x=3 | FileCheck %s --check-prefix=P3

// All-gather and matmul, point-to-point (stream-lowering document, `AG_matmul_P2p`): each device sends its rows while
// it multiplies those that have arrived.
//
// FUSION-LABEL: func.func @allgather_matmul_p2p(
// FUSION: fusion.stream_loop schedule <exchange> from fallback (
// FUSION: %[[G:.+]] = fusion.reshard %{{.+}} : {{.*}}[didx("x"), -, -]>> -> {{.*}}[stream, -, -]>>
// FUSION: fusion.matmul %[[G]]
// FUSION-LABEL: func.func private @allgather_matmul_p2p__reference(
// FUSION-NOT: fusion.reshard
// FUSION: fusion.matmul
//
// HOSTIR-LABEL: hostir.program @allgather_matmul_p2p(
// HOSTIR-SAME: %[[T0:.+]]: memref<1x16x32xf32> {{.*}} %[[T1:.+]]: memref<32x16xf32> {{.*}} %[[T2:.+]]: memref<4x16x16xf32>
// HOSTIR-DAG: %[[MAIN:.+]] = hostir.main_stream
// HOSTIR-DAG: %[[ME:.+]] = hostir.device_index #{{.+}}, "x"
// HOSTIR-DAG: %[[CH:.+]] = hostir.channel "tp.x.two_sided" over #{{.+}} ["x"] can [two_sided]
// HOSTIR-DAG: %[[G:.+]] = hostir.alloc on %[[MAIN]] : memref<4x16x32xf32>
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c4 step %c1
// HOSTIR-NEXT: %[[S:.+]] = hostir.worker_stream %[[I]]
// HOSTIR-NEXT: hostir.sync %[[S]] after %[[MAIN]]
// HOSTIR: %[[S0:.+]] = hostir.worker_stream %c0
// HOSTIR: %[[OWN:.+]] = memref.subview %[[T2]][%[[ME]], 0, 0]
// HOSTIR: hostir.matmul %[[T0]], %[[T1]] to %[[OWN]] on %[[S0]]
// HOSTIR: scf.for %[[D:.+]] = %c1 to %c4 step %c1
// HOSTIR: %[[S:.+]] = hostir.worker_stream %[[D]]
// HOSTIR: %[[SLOT:.+]] = memref.subview %[[G]][%[[FROM:.+]], 0, 0] [1, 16, 32]
// HOSTIR: hostir.group via %[[CH]] on %[[S]] {
// HOSTIR-NEXT: hostir.recv %[[SLOT]] from %[[FROM]]
// HOSTIR-NEXT: hostir.send %[[T0]] to %
// HOSTIR: %[[OUT:.+]] = memref.subview %[[T2]][%[[FROM]], 0, 0]
// HOSTIR: hostir.matmul %[[SLOT]], %[[T1]] to %[[OUT]] on %[[S]]
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c4 step %c1
// HOSTIR-NEXT: %[[S:.+]] = hostir.worker_stream %[[I]]
// HOSTIR-NEXT: hostir.sync %[[MAIN]] after %[[S]]
//
// Only the slices in flight are kept: three of 16 x 32, of workers 1 to 3.
//
// PLANNED-LABEL: hostir.program @allgather_matmul_p2p(
// PLANNED-SAME: arena_bytes = 6144
// PLANNED: scf.for %{{.+}} = %c1 to %c4 step %c1
// PLANNED: %[[SLOT:.+]] = hostir.alloc on %[[S:[a-z0-9_]+]] {{.*}} : memref<1x16x32xf32>
// PLANNED: hostir.recv %[[SLOT]]
// PLANNED: hostir.matmul %[[SLOT]]
// PLANNED: hostir.dealloc %[[SLOT]] on %[[S]]
//
// RANK1: s1 matmul arg2+1024:f32[1,16,16] = arg0:f32[1,16,32] * arg1:
// RANK1: s2 group c0 of 2
// RANK1-NEXT: s2 recv c0 buf{{[0-9]+}}:f32[1,16,32] from 2 tag 0 bytes 2048
// RANK1-NEXT: s2 send c0 arg0:f32[1,16,32] to 0 tag 0 bytes 2048
// RANK1-NEXT: s2 matmul arg2+2048:f32[1,16,16] = buf
// RANK1: s3 group c0 of 2
// RANK1: from 3
// RANK1: to 3
// RANK1: s4 group c0 of 2
// RANK1: from 0
// RANK1: to 2
//
// P3-LABEL: hostir.program @allgather_matmul_p2p(
// P3: scf.for %{{.+}} = %c1 to %c3 step %c1

#tp = #tandem.mesh<"tp", ["x" = ?]>

func.func @allgather_matmul_p2p(
    %t0: tensor<?x16x32xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
        {fusion.name = "t0", fusion.shape = ["x", 16, 32]},
    %t1: tensor<32x16xf32, #fusion.axes<#tp, [-, -]>> {fusion.name = "t1"})
    -> (tensor<?x16x16xf32, #fusion.axes<#tp, [stream, -, -]>> {fusion.name = "t2"}) {
  %t2 = fusion.matmul %t0, %t1
      : tensor<?x16x32xf32, #fusion.axes<#tp, [didx("x"), -, -]>>, tensor<32x16xf32, #fusion.axes<#tp, [-, -]>>
     -> tensor<?x16x16xf32, #fusion.axes<#tp, [stream, -, -]>>
  return %t2 : tensor<?x16x16xf32, #fusion.axes<#tp, [stream, -, -]>>
}
