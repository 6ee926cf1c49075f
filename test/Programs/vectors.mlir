// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-form-loops.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --entry=rows_times_vector --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// Matrix times vector and vector times matrix, as in NumPy, and reductions that keep their dimensions.

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#split = #fusion.axes<#tp, [didx("x")]>
#slices = #fusion.axes<#tp, [stream("x")]>
#all = #fusion.axes<#tp, [-]>
#scalar = #fusion.axes<#tp, []>

// The rows of the matrix are gathered, slice by slice: each slice gives a part of the vector.
//
// FUSION-LABEL: func.func @rows_times_vector(
// FUSION: fusion.stream_loop
// FUSION: fusion.reshard
// FUSION: fusion.matmul {{.*}} -> tensor<48xf32, {{.*}}[stream(4)]>>
// HOSTIR-LABEL: hostir.program @rows_times_vector(
// HOSTIR: hostir.matmul {{.*}} : memref<12x16xf32, {{.*}}, memref<16x1xf32{{.*}} to memref<12x1xf32
// RANK1: matmul
func.func @rows_times_vector(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"}, %v: tensor<16xf32, #all> {fusion.name = "v"})
    -> (tensor<48xf32, #slices> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %v : tensor<48x16xf32, #rows>, tensor<16xf32, #all> -> tensor<48xf32, #slices>
  return %y : tensor<48xf32, #slices>
}

// The contracted dimension is split: partial sums of the result, which is scattered.
//
// FUSION-LABEL: func.func @columns_times_vector(
// FUSION: fusion.matmul {{.*}} {transpose_a} {{.*}} -> tensor<48xf32, {{.*}}[-], partial = ["x"]>>
// FUSION: fusion.reshard {{.*}} -> tensor<48xf32, {{.*}}[didx("x")]>>
func.func @columns_times_vector(
    %x: tensor<24x48xf32, #rows> {fusion.name = "x"}, %v: tensor<24xf32, #split> {fusion.name = "v"})
    -> (tensor<48xf32, #split> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %v {transpose_a}
      : tensor<24x48xf32, #rows>, tensor<24xf32, #split> -> tensor<48xf32, #split>
  return %y : tensor<48xf32, #split>
}

// The vector is gathered over the contracted dimension: slices of it accumulate.
//
// FUSION-LABEL: func.func @vector_in_slices(
// FUSION: fusion.stream_loop
// FUSION: fusion.reshard {{.*}} -> tensor<48xf32, {{.*}}[stream(4)]>>
// FUSION: fusion.matmul
// HOSTIR-LABEL: hostir.program @vector_in_slices(
// HOSTIR: hostir.matmul {{.*}} bias {{.*}} : memref<1x12xf32, {{.*}} to memref<1x24xf32
// HOSTIR: hostir.matmul {{.*}} {accumulate} : memref<1x12xf32, {{.*}} to memref<1x24xf32
func.func @vector_in_slices(
    %v: tensor<48xf32, #split> {fusion.name = "v"},
    %w: tensor<48x24xf32, #fusion.axes<#tp, [-, -]>> {fusion.name = "w"}, %b: tensor<24xf32, #all> {fusion.name = "b"})
    -> (tensor<24xf32, #all> {fusion.name = "y"}) {
  %g = fusion.reshard %v : tensor<48xf32, #split> -> tensor<48xf32, #slices>
  %y = fusion.matmul %g, %w bias %b
      : tensor<48xf32, #slices>, tensor<48x24xf32, #fusion.axes<#tp, [-, -]>>, tensor<24xf32, #all> -> tensor<24xf32, #all>
  return %y : tensor<24xf32, #all>
}

// FUSION-LABEL: func.func @vector_times_columns(
// FUSION: fusion.matmul {{.*}} {transpose_b} {{.*}} -> tensor<24xf32, {{.*}}[didx("x")]>>
func.func @vector_times_columns(
    %v: tensor<16xf32> {fusion.name = "v"}, %w: tensor<24x16xf32, #rows> {fusion.name = "w"})
    -> (tensor<24xf32, #split> {fusion.name = "y"}) {
  %y = fusion.matmul %v, %w {transpose_b} : tensor<16xf32>, tensor<24x16xf32, #rows> -> tensor<24xf32, #split>
  return %y : tensor<24xf32, #split>
}

// Batches: each matrix times the one vector, and the dot product of two vectors.
//
// FUSION-LABEL: func.func @vector_batch(
// HOSTIR-LABEL: hostir.program @vector_batch(
// HOSTIR: hostir.matmul {{.*}} to memref<4x12x1xf32
func.func @vector_batch(
    %x: tensor<4x48x8xf32, #fusion.axes<#tp, [-, didx("x"), -]>> {fusion.name = "x"},
    %w: tensor<4x8x6xf32, #fusion.axes<#tp, [-, -, -]>> {fusion.name = "w"}, %v: tensor<8xf32, #all> {fusion.name = "v"})
    -> (tensor<4x48xf32, #columns> {fusion.name = "y"}, tensor<4x6xf32, #fusion.axes<#tp, [-, -]>> {fusion.name = "z"},
        tensor<f32, #scalar> {fusion.name = "dot"}) {
  %y = fusion.matmul %x, %v
      : tensor<4x48x8xf32, #fusion.axes<#tp, [-, didx("x"), -]>>, tensor<8xf32, #all> -> tensor<4x48xf32, #columns>
  %z = fusion.matmul %v, %w
      : tensor<8xf32, #all>, tensor<4x8x6xf32, #fusion.axes<#tp, [-, -, -]>> -> tensor<4x6xf32, #fusion.axes<#tp, [-, -]>>
  %dot = fusion.matmul %v, %v : tensor<8xf32, #all>, tensor<8xf32, #all> -> tensor<f32, #scalar>
  return %y, %z, %dot
      : tensor<4x48xf32, #columns>, tensor<4x6xf32, #fusion.axes<#tp, [-, -]>>, tensor<f32, #scalar>
}

// A softmax over split columns: the maxima and the sums are partial, and keep their dimension.
//
// FUSION-LABEL: func.func @softmax_of_columns(
// FUSION: fusion.reduce max {{.*}} dims [1] {keep_dims} : {{.*}} -> tensor<48x1xf32, {{.*}}partial = max ["x"]>>
// FUSION: fusion.reduce sum {{.*}} dims [1] {keep_dims} : {{.*}} -> tensor<48x1xf32, {{.*}}partial = ["x"]>>
func.func @softmax_of_columns(%x: tensor<48x24xf32, #columns> {fusion.name = "x"})
    -> (tensor<48x24xf32, #columns> {fusion.name = "y"}) {
  %0 = fusion.reduce max %x dims [1] {keep_dims} : tensor<48x24xf32, #columns> -> tensor<48x1xf32>
  %1 = fusion.broadcast %0 dims [0, 1] : tensor<48x1xf32> -> tensor<48x24xf32, #columns>
  %2 = arith.subf %x, %1 : tensor<48x24xf32, #columns>
  %3 = math.exp %2 : tensor<48x24xf32, #columns>
  %4 = fusion.reduce sum %3 dims [1] {keep_dims} : tensor<48x24xf32, #columns> -> tensor<48x1xf32>
  %5 = fusion.broadcast %4 dims [0, 1] : tensor<48x1xf32> -> tensor<48x24xf32, #columns>
  %y = arith.divf %3, %5 : tensor<48x24xf32, #columns>
  return %y : tensor<48x24xf32, #columns>
}

// Gathered in slices of the kept dimension, of the reduced one, and all dimensions at once.
//
// FUSION-LABEL: func.func @kept(
// HOSTIR-LABEL: hostir.program @kept(
// HOSTIR: memref.collapse_shape {{.*}} : memref<1x24xf32{{.*}} into memref<24xf32
func.func @kept(%x: tensor<48x24xf32, #rows> {fusion.name = "x"})
    -> (tensor<48x1xf32, #fusion.axes<#tp, [stream("x"), -]>> {fusion.name = "rows"},
        tensor<1x24xf32, #fusion.axes<#tp, [-, -]>> {fusion.name = "columns"},
        tensor<1x1xf32, #fusion.axes<#tp, [-, -]>> {fusion.name = "sum"}) {
  %g = fusion.reshard %x : tensor<48x24xf32, #rows> -> tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), -]>>
  %rows = fusion.reduce sum %g dims [1] {keep_dims}
      : tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), -]>> -> tensor<48x1xf32, #fusion.axes<#tp, [stream("x"), -]>>
  %columns = fusion.reduce max %g dims [0] {keep_dims}
      : tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), -]>> -> tensor<1x24xf32, #fusion.axes<#tp, [-, -]>>
  %sum = fusion.reduce sum %x dims [0, 1] {keep_dims} : tensor<48x24xf32, #rows> -> tensor<1x1xf32, #fusion.axes<#tp, [-, -]>>
  return %rows, %columns, %sum
      : tensor<48x1xf32, #fusion.axes<#tp, [stream("x"), -]>>, tensor<1x24xf32, #fusion.axes<#tp, [-, -]>>,
        tensor<1x1xf32, #fusion.axes<#tp, [-, -]>>
}
