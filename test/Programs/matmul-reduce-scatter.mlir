// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// Matmul, then each device gets its rows of the sum, slice by slice (stream-lowering document, `matmul_RS_through_bcast`).
// The broadcast of the weights is a view.
//
// FUSION-LABEL: func.func @matmul_reduce_scatter(
// FUSION: fusion.broadcast
// FUSION: fusion.matmul
// FUSION: fusion.reduce
// FUSION: fusion.reshard {{.*}} -> {{.*}}[stream, didx("x"), -, -]>>
//
// HOSTIR-LABEL: hostir.program @matmul_reduce_scatter(
// HOSTIR-SAME: %[[T0:.+]]: memref<8x1x4x4x16xf32> {{.*}} %[[T1:.+]]: memref<1x16x12xf32>
// HOSTIR: %[[VIEW:.+]] = memref.reinterpret_cast %[[T1]]
// HOSTIR: scf.for
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c8 step %c1
// HOSTIR: %[[S:.+]] = hostir.worker_stream %[[I]]
// HOSTIR: hostir.matmul %{{.+}}, %[[VIEW]] to
// HOSTIR-NOT: hostir.reduce
// HOSTIR: hostir.collective reduce_scatter {{.*}} on %[[S]]
//
// PLANNED-LABEL: hostir.program @matmul_reduce_scatter(
// PLANNED-NOT: hostir.collective
// PLANNED: hostir.matmul
//
// RANK1-COUNT-8: {{s[0-9]+ matmul}}
// RANK1-NOT: {{s[0-9]+ matmul}}

#tp = #tandem.mesh<"tp", ["x" = ?]>

func.func @matmul_reduce_scatter(
    %t0: tensor<8x?x?x4x16xf32, #fusion.axes<#tp, [-, didx("x"), -, -, -]>>
        {fusion.name = "t0", fusion.shape = [8, "x", "x", 4, 16]},
    %t1: tensor<?x16x12xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "t1", fusion.shape = ["x", 16, 12]})
    -> (tensor<8x?x4x12xf32, #fusion.axes<#tp, [stream, didx("x"), -, -]>> {fusion.name = "t4"}) {
  %t2 = fusion.broadcast %t1 dims [1, 3, 4]
      : tensor<?x16x12xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
     -> tensor<1x?x1x16x12xf32, #fusion.axes<#tp, [-, didx("x"), -, -, -]>>
  %t3 = fusion.matmul %t0, %t2
      : tensor<8x?x?x4x16xf32, #fusion.axes<#tp, [-, didx("x"), -, -, -]>>,
        tensor<1x?x1x16x12xf32, #fusion.axes<#tp, [-, didx("x"), -, -, -]>>
     -> tensor<8x?x?x4x12xf32, #fusion.axes<#tp, [stream, didx("x"), -, -, -]>>
  %t4 = fusion.reduce sum %t3 dims [1]
      : tensor<8x?x?x4x12xf32, #fusion.axes<#tp, [stream, didx("x"), -, -, -]>>
     -> tensor<8x?x4x12xf32, #fusion.axes<#tp, [stream, didx("x"), -, -]>>
  return %t4 : tensor<8x?x4x12xf32, #fusion.axes<#tp, [stream, didx("x"), -, -]>>
}
