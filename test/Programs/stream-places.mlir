// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir

// Where a stream digit may stand: inside of others, split, on M, N or a batch dimension; and slices that are not all alike.

#tp = #tandem.mesh<"tp", ["x" = ?]>
#r = #fusion.axes<#tp, [-, -]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>

#inside = #fusion.axes<#tp, [serial("x") * stream(8), -]>
// Of each device's 30 rows slices of 4, the last one of 2: another shape, under a condition.
//
// HOSTIR-LABEL: hostir.program @rows_inside(
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c8 step %c1
// HOSTIR: %[[LAST:.+]] = arith.cmpi eq, %[[I]], %c7
// HOSTIR: scf.if %[[LAST]]
// HOSTIR: hostir.collective all_gather {{.*}} to memref<4x2x16xf32
// HOSTIR: hostir.matmul {{.*}} to memref<4x2x12xf32
// HOSTIR: else
// HOSTIR: hostir.collective all_gather {{.*}} to memref<4x4x16xf32
// HOSTIR: hostir.matmul {{.*}} to memref<4x4x12xf32
//
// The short slice takes the place of a long one: four of 4 x 4 x 16.
//
// PLANNED-LABEL: hostir.program @rows_inside(
// PLANNED-SAME: arena_bytes = 4096
func.func @rows_inside(
    %x: tensor<120x16xf32, #rows> {fusion.name = "x"},
    %w: tensor<16x12xf32, #r> {fusion.name = "w"})
    -> (tensor<120x12xf32, #inside> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w : tensor<120x16xf32, #rows>, tensor<16x12xf32, #r> -> tensor<120x12xf32, #inside>
  return %y : tensor<120x12xf32, #inside>
}

#owned = #fusion.axes<#tp, [stream("x") * stream(8), -]>
// The same slices, one owner at a time: point to point.
//
// HOSTIR-LABEL: hostir.program @rows_of_owners(
// HOSTIR: scf.for %{{.+}} = %c1 to %c4 step %c1
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c8 step %c1
// HOSTIR: %[[LAST:.+]] = arith.cmpi eq, %[[I]], %c7
// HOSTIR: scf.if %[[LAST]]
// HOSTIR: hostir.recv %{{.+}} : memref<2x16xf32
// HOSTIR-NEXT: hostir.send %{{.+}} : memref<2x16xf32
// HOSTIR: else
// HOSTIR: hostir.recv %{{.+}} : memref<4x16xf32
// HOSTIR-NEXT: hostir.send %{{.+}} : memref<4x16xf32
//
// PLANNED-LABEL: hostir.program @rows_of_owners(
// PLANNED-SAME: arena_bytes = 1024
func.func @rows_of_owners(
    %x: tensor<120x16xf32, #rows> {fusion.name = "x"},
    %w: tensor<16x12xf32, #r> {fusion.name = "w"})
    -> (tensor<120x12xf32, #owned> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w : tensor<120x16xf32, #rows>, tensor<16x12xf32, #r> -> tensor<120x12xf32, #owned>
  return %y : tensor<120x12xf32, #owned>
}

#split = #fusion.axes<#tp, [serial(4) * stream(3), -]>
#partial = #fusion.axes<#tp, [serial(4) * stream(3), -], partial = ["x"]>
// Four blocks, a third of each an iteration: the blocks are a batch of the matmul.
//
// HOSTIR-LABEL: hostir.program @rows_split(
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c3 step %c1
// HOSTIR: hostir.matmul {{.*}} to memref<4x2x12xf32
// HOSTIR: hostir.collective all_reduce {{.*}} : memref<4x2x12xf32{{.*}}> to memref<4x2x12xf32
func.func @rows_split(
    %x: tensor<24x48xf32, #columns> {fusion.name = "x"},
    %w: tensor<48x12xf32, #rows> {fusion.name = "w"})
    -> (tensor<24x12xf32, #split> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w : tensor<24x48xf32, #columns>, tensor<48x12xf32, #rows> -> tensor<24x12xf32, #split>
  return %y : tensor<24x12xf32, #split>
}

#n = #fusion.axes<#tp, [-, stream(5)]>
// Columns: 5, 5, 5, 5 and 2.
//
// HOSTIR-LABEL: hostir.program @columns_ragged(
// HOSTIR: scf.if
// HOSTIR: hostir.matmul {{.*}} : memref<12x12xf32>, memref<12x2xf32, {{.*}} to memref<12x2xf32
// HOSTIR: hostir.collective all_reduce
// HOSTIR: else
// HOSTIR: hostir.matmul {{.*}} : memref<12x12xf32>, memref<12x5xf32, {{.*}} to memref<12x5xf32
func.func @columns_ragged(
    %x: tensor<12x48xf32, #columns> {fusion.name = "x"},
    %w: tensor<48x22xf32, #rows> {fusion.name = "w"})
    -> (tensor<12x22xf32, #n> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w : tensor<12x48xf32, #columns>, tensor<48x22xf32, #rows> -> tensor<12x22xf32, #n>
  return %y : tensor<12x22xf32, #n>
}

#nsplit = #fusion.axes<#tp, [didx("x"), serial(2) * stream(3)]>
// Columns of both halves of N, while M is scattered.
//
// HOSTIR-LABEL: hostir.program @columns_split(
// HOSTIR: scf.for
// HOSTIR: scf.for
// HOSTIR: hostir.matmul
// HOSTIR: hostir.collective reduce_scatter
// HOSTIR: hostir.launch @columns_split.addf
func.func @columns_split(
    %x: tensor<48x24xf32, #columns> {fusion.name = "x"},
    %w: tensor<24x20xf32, #rows> {fusion.name = "w"},
    %b: tensor<20xf32, #fusion.axes<#tp, [-]>> {fusion.name = "b"})
    -> (tensor<48x20xf32, #nsplit> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w bias %b
      : tensor<48x24xf32, #columns>, tensor<24x20xf32, #rows>, tensor<20xf32, #fusion.axes<#tp, [-]>> -> tensor<48x20xf32, #nsplit>
  return %y : tensor<48x20xf32, #nsplit>
}

#batch = #fusion.axes<#tp, [serial(2) * stream(2), stream(4), -]>
#b3 = #fusion.axes<#tp, [-, didx("x"), -]>
#r3 = #fusion.axes<#tp, [-, -, -]>
// A batch dimension that is split, beside rows.
//
// HOSTIR-LABEL: hostir.program @batch_and_rows(
// HOSTIR: scf.for %{{.+}} = %c1 to %c4 step %c1
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c2 step %c1
// HOSTIR: hostir.recv %[[SLICE:.+]] from
// HOSTIR: hostir.matmul %[[SLICE]], %{{.+}} : memref<2x12x8xf32{{.*}}>, memref<2x8x6xf32{{.*}}> to memref<2x12x6xf32
func.func @batch_and_rows(
    %x: tensor<4x48x8xf32, #b3> {fusion.name = "x"},
    %w: tensor<4x8x6xf32, #r3> {fusion.name = "w"})
    -> (tensor<4x48x6xf32, #batch> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w : tensor<4x48x8xf32, #b3>, tensor<4x8x6xf32, #r3> -> tensor<4x48x6xf32, #batch>
  return %y : tensor<4x48x6xf32, #batch>
}

#owners = #fusion.axes<#tp, [stream(4) * stream("x"), -]>
// Two dimensions become one, and the stream stands on both: a slice is a piece of one device, point to point, and the first
// loop is over the own ones.
//
// HOSTIR-LABEL: hostir.program @rows_merged(
// HOSTIR: scf.for %{{.+}} = %c0 to %c4 step %c1
// HOSTIR: hostir.matmul {{.*}} to memref<6x12xf32
// HOSTIR: scf.for %{{.+}} = %c1 to %c4 step %c1
// HOSTIR: hostir.recv %{{.+}} : memref<6x16xf32
// HOSTIR-NEXT: hostir.send %{{.+}} : memref<6x16xf32
// HOSTIR: hostir.matmul {{.*}} to memref<6x12xf32
//
// PLANNED-LABEL: hostir.program @rows_merged(
// PLANNED-SAME: arena_bytes = 1536
func.func @rows_merged(
    %x: tensor<4x24x16xf32, #fusion.axes<#tp, [-, didx("x"), -]>> {fusion.name = "x"},
    %w: tensor<16x12xf32, #r> {fusion.name = "w"})
    -> (tensor<96x12xf32, #owners> {fusion.name = "y"}) {
  %rows = fusion.reshape %x
      : tensor<4x24x16xf32, #fusion.axes<#tp, [-, didx("x"), -]>> -> tensor<96x16xf32, #fusion.axes<#tp, [serial(4) * didx("x"), -]>>
  %y = fusion.matmul %rows, %w
      : tensor<96x16xf32, #fusion.axes<#tp, [serial(4) * didx("x"), -]>>, tensor<16x12xf32, #r> -> tensor<96x12xf32, #owners>
  return %y : tensor<96x12xf32, #owners>
}
