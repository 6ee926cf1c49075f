// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir

// Ops of one loop whose results have other stream digits than the loop: more of them, or the same ones merged or split.

#tp = #tandem.mesh<"tp", ["x" = ?]>
#r = #fusion.axes<#tp, [-, -]>
#rows = #fusion.axes<#tp, [didx("x"), -]>

#blocks = #fusion.axes<#tp, [stream("x"), stream(3)]>
// A slice of rows is gathered once, then multiplied by three slices of columns.
//
// HOSTIR-LABEL: hostir.program @rows_then_columns(
// HOSTIR: scf.for %{{.+}} = %c0 to %c3 step %c1
// HOSTIR: hostir.matmul %arg0, {{.*}} to memref<12x4xf32
// HOSTIR: scf.for %{{.+}} = %c1 to %c4 step %c1
// HOSTIR: hostir.recv %{{.+}} : memref<12x16xf32
// HOSTIR: scf.for %{{.+}} = %c0 to %c3 step %c1
// HOSTIR: hostir.matmul {{.*}} memref<12x16xf32{{.*}} to memref<12x4xf32
// HOSTIR: hostir.launch @rows_then_columns.tanh ins(%{{.+}} : memref<12x4xf32
//
// Three slices in flight of what is gathered (768 bytes). The product is computed in the result.
//
// PLANNED-LABEL: hostir.program @rows_then_columns(
// PLANNED-SAME: arena_bytes = 2304
func.func @rows_then_columns(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"},
    %w: tensor<16x12xf32, #r> {fusion.name = "w"})
    -> (tensor<48x12xf32, #blocks> {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w : tensor<48x16xf32, #rows>, tensor<16x12xf32, #r> -> tensor<48x12xf32, #blocks>
  %y = math.tanh %0 : tensor<48x12xf32, #blocks>
  return %y : tensor<48x12xf32, #blocks>
}

#columns = #fusion.axes<#tp, [-, -, didx("x")]>
#two = #fusion.axes<#tp, [stream, stream(2), -]>
#one = #fusion.axes<#tp, [stream(8), -]>
// Eight slices, whether told by two digits or by one.
//
// HOSTIR-LABEL: hostir.program @digits_merged(
// HOSTIR: scf.for %{{.+}} = %c0 to %c8 step %c1
// HOSTIR: hostir.collective all_gather {{.*}}
// HOSTIR: hostir.matmul {{.*}} to memref<6x12xf32
//
// PLANNED-LABEL: hostir.program @digits_merged(
// PLANNED-SAME: arena_bytes = 2304
func.func @digits_merged(
    %x: tensor<4x12x24xf32, #columns> {fusion.name = "x"},
    %w: tensor<24x12xf32, #r> {fusion.name = "w"})
    -> (tensor<48x12xf32, #one> {fusion.name = "y"}) {
  %0 = fusion.reshard %x : tensor<4x12x24xf32, #columns> -> tensor<4x12x24xf32, #two>
  %1 = fusion.reshape %0 : tensor<4x12x24xf32, #two> -> tensor<48x24xf32, #one>
  %y = fusion.matmul %1, %w : tensor<48x24xf32, #one>, tensor<24x12xf32, #r> -> tensor<48x12xf32, #one>
  return %y : tensor<48x12xf32, #one>
}

// The other way round; the transposition in between makes the reshape copy its slice.
//
// HOSTIR-LABEL: hostir.program @digits_split(
// HOSTIR: scf.for %{{.+}} = %c0 to %c8 step %c1
// HOSTIR: hostir.collective all_gather {{.*}}
// HOSTIR: hostir.copy
// HOSTIR: hostir.launch @digits_split.tanh ins(%{{.+}} : memref<1x6x24xf32
func.func @digits_split(
    %x: tensor<24x48xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "x"})
    -> (tensor<4x12x24xf32, #two> {fusion.name = "y"}) {
  %0 = fusion.reshard %x : tensor<24x48xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<24x48xf32, #fusion.axes<#tp, [-, stream(8)]>>
  %1 = fusion.permute %0 [1, 0] : tensor<24x48xf32, #fusion.axes<#tp, [-, stream(8)]>> -> tensor<48x24xf32, #one>
  %2 = fusion.reshape %1 : tensor<48x24xf32, #one> -> tensor<4x12x24xf32, #two>
  %y = math.tanh %2 : tensor<4x12x24xf32, #two>
  return %y : tensor<4x12x24xf32, #two>
}
