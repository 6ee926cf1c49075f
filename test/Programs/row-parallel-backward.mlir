// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --entry=row_parallel_backward --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1
// RUN: tandem-compile %s --entry=row_parallel_backward_whole --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=WHOLE
// RUN: tandem-compile %s --entry=row_parallel_backward_whole --mesh x=4 -o %t.tsp && tandem-check %t.tsp --queues=1 | FileCheck %s --check-prefix=PROVEN

// Row-parallel layer with sequence parallelism, backward, as one program: dx = AG(dy) W^T and dW = x^T AG(dy) share one
// gather and one loop. dx is computed slice by slice as dy comes; dW contracts over the slices, so it accumulates on the
// main stream.
//
// FUSION-LABEL: func.func @row_parallel_backward(
// FUSION-COUNT-1: fusion.reshard
// FUSION-NOT: fusion.reshard
// FUSION-LABEL: func.func private @row_parallel_backward__reference(
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

// With `combine = whole` dW is one matmul behind the loop, over all rows of dy where they have arrived. Only the own rows are
// copied there, beside the matmuls.
//
// WHOLE: s2 copy [[G:sym[0-9]+]]+{{[0-9]+}}:f32[24,16] <- arg2:f32[24,16]
// WHOLE: s0 matmul arg3{{.*}} = arg2:f32[24,16]
// WHOLE-NOT: +=
// WHOLE: s0 matmul arg4:f32[12,16] = arg0:f32[48,12]^T * [[G]]:f32[48,16]
//
// PROVEN: no error

#chunks = #fusion.axes<#tp, [stream("x") * stream(2), -]>
#sliced_chunks = #fusion.axes<#tp, [stream("x") * stream(2), didx("x")]>

func.func @row_parallel_backward_whole(
    %x: tensor<48x24xf32, #columns> {fusion.name = "x"},
    %w: tensor<24x16xf32, #rows> {fusion.name = "w"},
    %dy: tensor<48x16xf32, #rows> {fusion.name = "dy"})
    -> (tensor<48x24xf32, #sliced_chunks> {fusion.name = "dx"}, tensor<24x16xf32, #rows> {fusion.name = "dw"}) {
  %g = fusion.reshard %dy {schedule = #fusion.schedule<push, combine = whole>}
      : tensor<48x16xf32, #rows> -> tensor<48x16xf32, #chunks>
  %dx = fusion.matmul %g, %w {transpose_b}
      : tensor<48x16xf32, #chunks>, tensor<24x16xf32, #rows> -> tensor<48x24xf32, #sliced_chunks>
  %dw = fusion.matmul %x, %g {transpose_a}
      : tensor<48x24xf32, #columns>, tensor<48x16xf32, #chunks> -> tensor<24x16xf32, #rows>
  return %dx, %dw : tensor<48x24xf32, #sliced_chunks>, tensor<24x16xf32, #rows>
}
