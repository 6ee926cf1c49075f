// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// Matmul, then a sum over the devices' terms, slice by slice (stream-lowering document, `matmul_AR`). The matmul is
// batched over dimension 1, which is spread over the devices and then summed.
//
// FUSION-LABEL: func.func @matmul_allreduce(
// FUSION: fusion.stream_loop schedule <pipeline> from fallback (
// FUSION: %[[M:.+]] = fusion.matmul
// FUSION: %[[P:.+]] = fusion.reduce sum %[[M]] dims [1] : {{.*}} -> {{.*}}partial = ["x"]>>
// FUSION: fusion.reshard %[[P]]
//
// Matmul, sum of the local terms and all-reduce in one loop.
//
// HOSTIR-LABEL: hostir.program @matmul_allreduce(
// HOSTIR: scf.for
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c8 step %c1
// HOSTIR: %[[S:.+]] = hostir.worker_stream %[[I]]
// HOSTIR: hostir.matmul {{.*}} on %[[S]]
// HOSTIR-NOT: hostir.reduce
// HOSTIR: hostir.collective all_reduce {{.*}} on %[[S]]
// HOSTIR: scf.for
//
// PLANNED-LABEL: hostir.program @matmul_allreduce(
// PLANNED-NOT: hostir.collective
// PLANNED: hostir.matmul
// PLANNED: hostir.accumulate sum
//
// RANK1-COUNT-8: {{s[0-9]+ matmul}}
// RANK1-NOT: {{s[0-9]+ matmul}}

#tp = #tandem.mesh<"tp", ["x" = ?]>

func.func @matmul_allreduce(
    %t0: tensor<8x?x4x16xf32, #fusion.axes<#tp, [-, didx("x"), -, -]>>
        {fusion.name = "t0", fusion.shape = [8, "x", 4, 16]},
    %t1: tensor<?x16x12xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "t1", fusion.shape = ["x", 16, 12]})
    -> (tensor<8x4x12xf32, #fusion.axes<#tp, [stream, -, -]>> {fusion.name = "t3"}) {
  %t2 = fusion.matmul %t0, %t1
      : tensor<8x?x4x16xf32, #fusion.axes<#tp, [-, didx("x"), -, -]>>, tensor<?x16x12xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
     -> tensor<8x?x4x12xf32, #fusion.axes<#tp, [stream, didx("x"), -, -]>>
  %t3 = fusion.reduce sum %t2 dims [1]
      : tensor<8x?x4x12xf32, #fusion.axes<#tp, [stream, didx("x"), -, -]>> -> tensor<8x4x12xf32, #fusion.axes<#tp, [stream, -, -]>>
  return %t3 : tensor<8x4x12xf32, #fusion.axes<#tp, [stream, -, -]>>
}
