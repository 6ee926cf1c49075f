// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --entry=column_parallel_dx --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// Column-parallel layer with sequence parallelism, backward: dx = RS(dy W^T) and dW = AG(x)^T dy.
//
// FUSION-LABEL: func.func @column_parallel_dx(
// FUSION: %[[P:.+]] = fusion.matmul {{.*}} {transpose_b} {{.*}}, partial = ["x"]>>
// FUSION: fusion.reshard %[[P]] {{.*}} -> {{.*}}[didx("x") * stream(2), -]>>
// FUSION-LABEL: func.func @column_parallel_dx_nn(
// FUSION: fusion.matmul
// FUSION-LABEL: func.func @column_parallel_dw(
// FUSION: %[[G:.+]] = fusion.reshard {{.*}}[didx("x"), -]>> -> {{.*}}[-, stream(4)]>>
// FUSION: fusion.matmul %[[G]], %{{.+}} {transpose_a}
//
// HOSTIR-LABEL: hostir.program @column_parallel_dx(
// HOSTIR: scf.for
// HOSTIR: hostir.sync
// HOSTIR: scf.for
// HOSTIR: %[[S:.+]] = hostir.worker_stream
// HOSTIR: hostir.matmul {{.*}} on %[[S]] {transpose_b}
// HOSTIR: hostir.collective reduce_scatter {{.*}} on %[[S]] {{.*}} to memref<6x16xf32
//
// Columns of x come slice by slice, and with them rows of dW.
//
// HOSTIR-LABEL: hostir.program @column_parallel_dw(
// HOSTIR: scf.for
// HOSTIR: hostir.sync
// HOSTIR: scf.for
// HOSTIR: hostir.collective all_gather {{.*}} to memref<4x12x4xf32
// HOSTIR: hostir.matmul {{.*}} {transpose_a} {{.*}} to memref<4x6xf32
//
// PLANNED-LABEL: hostir.program @column_parallel_dx(
// PLANNED-NOT: hostir.collective
// PLANNED: hostir.accumulate sum
//
// A ring of three steps for each of two slices.
//
// RANK1-COUNT-6: accumulate sum
// RANK1-NOT: accumulate sum

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#sliced_rows = #fusion.axes<#tp, [didx("x") * stream(2), -]>
#sliced_columns = #fusion.axes<#tp, [stream(4), didx("x")]>

func.func @column_parallel_dx(
    %dy: tensor<48x24xf32, #columns> {fusion.name = "dy"},
    %w: tensor<16x24xf32, #columns> {fusion.name = "w"})
    -> (tensor<48x16xf32, #sliced_rows> {fusion.name = "dx"}) {
  %dx = fusion.matmul %dy, %w {transpose_b}
      : tensor<48x24xf32, #columns>, tensor<16x24xf32, #columns> -> tensor<48x16xf32, #sliced_rows>
  return %dx : tensor<48x16xf32, #sliced_rows>
}

// Weights stored as [F, H].
func.func @column_parallel_dx_nn(
    %dy: tensor<48x24xf32, #columns> {fusion.name = "dy"},
    %w: tensor<24x16xf32, #rows> {fusion.name = "w"})
    -> (tensor<48x16xf32, #sliced_rows> {fusion.name = "dx"}) {
  %dx = fusion.matmul %dy, %w
      : tensor<48x24xf32, #columns>, tensor<24x16xf32, #rows> -> tensor<48x16xf32, #sliced_rows>
  return %dx : tensor<48x16xf32, #sliced_rows>
}

func.func @column_parallel_dw(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"},
    %dy: tensor<48x24xf32, #columns> {fusion.name = "dy"})
    -> (tensor<16x24xf32, #sliced_columns> {fusion.name = "dw"}) {
  %dw = fusion.matmul %x, %dy {transpose_a}
      : tensor<48x16xf32, #rows>, tensor<48x24xf32, #columns> -> tensor<16x24xf32, #sliced_columns>
  return %dw : tensor<16x24xf32, #sliced_columns>
}
