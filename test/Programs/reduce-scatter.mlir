// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// The same sum, and each device keeps its part of another dimension (stream-lowering document, `ReduceScatter`).
//
// FUSION-LABEL: func.func @reduce_scatter(
// FUSION: %[[P:.+]] = fusion.reduce sum %{{.+}} dims [1] : {{.*}} -> {{.*}}partial = ["x"]>>
// FUSION: fusion.reshard %[[P]] {{.*}} -> {{.*}}[stream, didx("x"), -]>>
//
// HOSTIR-LABEL: hostir.program @reduce_scatter(
// HOSTIR: scf.for
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c4 step %c1
// HOSTIR: hostir.reduce sum
// HOSTIR: hostir.collective reduce_scatter %{{.+}} to %{{.+}} : memref<4x8xf32{{.*}}> to memref<8xf32
//
// PLANNED-LABEL: hostir.program @reduce_scatter(
// PLANNED-NOT: hostir.collective
// PLANNED: hostir.accumulate sum
//
// RANK1-COUNT-12: group c0 of 2
// RANK1-NOT: {{s[0-9]+ group}}

#tp = #tandem.mesh<"tp", ["x" = ?]>

func.func @reduce_scatter(
    %t0: tensor<4x?x?x8xf32, #fusion.axes<#tp, [-, didx("x"), -, -]>> {fusion.name = "t0", fusion.shape = [4, "x", "x", 8]})
    -> (tensor<4x?x8xf32, #fusion.axes<#tp, [stream, didx("x"), -]>> {fusion.name = "t1"}) {
  %t1 = fusion.reduce sum %t0 dims [1] : tensor<4x?x?x8xf32, #fusion.axes<#tp, [-, didx("x"), -, -]>>
                                      -> tensor<4x?x8xf32, #fusion.axes<#tp, [stream, didx("x"), -]>>
  return %t1 : tensor<4x?x8xf32, #fusion.axes<#tp, [stream, didx("x"), -]>>
}
