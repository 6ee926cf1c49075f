// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --entry=row_parallel_backward --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// Row-parallel layer with sequence parallelism, backward, as one program: dx = AG(dy) W^T and dW = x^T AG(dy) share one
// gather and one loop. dx is computed slice by slice as dy comes; dW contracts over the slices, so it accumulates on the
// main stream.
//
// FUSION-LABEL: func.func @row_parallel_backward(
// FUSION-COUNT-1: fusion.reshard
// FUSION-NOT: fusion.reshard
// FUSION-LABEL: func.func private @row_parallel_backward__oracle(
//
// HOSTIR-LABEL: hostir.program @row_parallel_backward(
// HOSTIR-SAME: %[[X:[^:]+]]: memref<48x6xf32> {{.*}} %[[W:[^:]+]]: memref<6x16xf32> {{.*}} %[[DY:[^:]+]]: memref<12x16xf32> {{.*}} %[[DX:[^:]+]]: memref<48x6xf32> {{.*}} %[[DW:[^:]+]]: memref<6x16xf32>
// HOSTIR: hostir.matmul %{{.+}}, %[[DY]] to %[[DW]] on %[[MAIN:.+]] {transpose_a}
// HOSTIR: hostir.group
// HOSTIR: hostir.matmul %[[SLICE:.+]], %[[W]] to %{{.+}} on %[[S:.+]] {transpose_b}
// HOSTIR: hostir.sync %[[MAIN]] after %[[S]]
// HOSTIR: hostir.matmul %{{.+}}, %[[SLICE]] to %[[DW]] on %[[MAIN]] {accumulate, transpose_a}
// HOSTIR: hostir.sync %[[S]] after %[[MAIN]]
//
// PLANNED-LABEL: hostir.program @row_parallel_backward(
// PLANNED-SAME: arena_bytes = 2304
//
// RANK1-COUNT-3: group c0 of 2
// RANK1-NOT: {{s[0-9]+ group}}

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#sliced_columns = #fusion.axes<#tp, [stream("x"), didx("x")]>

func.func @row_parallel_backward(
    %x: tensor<48x24xf32, #columns> {fusion.name = "x"},
    %w: tensor<24x16xf32, #rows> {fusion.name = "w"},
    %dy: tensor<48x16xf32, #rows> {fusion.name = "dy"})
    -> (tensor<48x24xf32, #sliced_columns> {fusion.name = "dx"}, tensor<24x16xf32, #rows> {fusion.name = "dw"}) {
  %dx = fusion.matmul %dy, %w {transpose_b}
      : tensor<48x16xf32, #rows>, tensor<24x16xf32, #rows> -> tensor<48x24xf32, #sliced_columns>
  %dw = fusion.matmul %x, %dy {transpose_a}
      : tensor<48x24xf32, #columns>, tensor<48x16xf32, #rows> -> tensor<24x16xf32, #rows>
  return %dx, %dw : tensor<48x24xf32, #sliced_columns>, tensor<24x16xf32, #rows>
}
