// RUN: tandem-opt --convert-shard-to-fusion --split-input-file %s | FileCheck %s

// Collectives become reshards; the rest of the function says how its arguments are split.

shard.grid @tp(shape = 4)

// Column parallel, then row parallel: the sum over devices splits the hidden dimension, which forbids any other split.
//
// CHECK: #[[TP:.+]] = #tandem.mesh<"tp", ["axis0" = 4]>
// CHECK-LABEL: func.func @mlp(
// CHECK-SAME: %[[X:[^ :]+]]: tensor<48x16xf32, #fusion.axes<#[[TP]], [-, -]>> {fusion.name = "x"}
// CHECK-SAME: %[[W1:[^ :]+]]: tensor<16x24xf32, #fusion.axes<#[[TP]], [-, didx("axis0")]>>
// CHECK-SAME: %[[W2:[^ :]+]]: tensor<24x16xf32, #fusion.axes<#[[TP]], [didx("axis0"), -]>>
// CHECK-SAME: -> (tensor<48x16xf32, #fusion.axes<#[[TP]], [-, -]>> {fusion.name = "y"})
// CHECK-NEXT: %[[H:.+]] = fusion.matmul %[[X]], %[[W1]] : {{.*}} -> tensor<48x24xf32, {{.*}}[-, didx("axis0")]>>
// CHECK-NEXT: %[[A:.+]] = math.tanh %[[H]]
// CHECK-NEXT: %[[P:.+]] = fusion.matmul %[[A]], %[[W2]] : {{.*}} -> tensor<48x16xf32, {{.*}}[-, -], partial = ["axis0"]>>
// CHECK-NEXT: %[[Y:.+]] = fusion.reshard %[[P]] : {{.*}} -> tensor<48x16xf32, {{.*}}[-, -]>>
// CHECK-NEXT: return %[[Y]]
// CHECK-NOT: shard.grid
func.func @mlp(%x: tensor<48x16xf32> {fusion.name = "x"}, %w1: tensor<16x6xf32>, %w2: tensor<6x16xf32>)
    -> (tensor<48x16xf32> {fusion.name = "y"}) {
  %cst = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<48x6xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<48x6xf32>) -> tensor<48x6xf32>
  %2 = linalg.matmul ins(%x, %w1 : tensor<48x16xf32>, tensor<16x6xf32>) outs(%1 : tensor<48x6xf32>) -> tensor<48x6xf32>
  %3 = linalg.tanh ins(%2 : tensor<48x6xf32>) outs(%0 : tensor<48x6xf32>) -> tensor<48x6xf32>
  %4 = tensor.empty() : tensor<48x16xf32>
  %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<48x16xf32>) -> tensor<48x16xf32>
  %me = shard.process_multi_index on @tp axes = [0] : index
  %c0 = arith.constant 0 : index
  %first = arith.cmpi eq, %me, %c0 : index
  %7 = scf.if %first -> (tensor<48x16xf32>) {
    scf.yield %5 : tensor<48x16xf32>
  } else {
    %9 = tensor.empty() : tensor<48x16xf32>
    %10 = linalg.fill ins(%cst : f32) outs(%9 : tensor<48x16xf32>) -> tensor<48x16xf32>
    scf.yield %10 : tensor<48x16xf32>
  }
  %8 = linalg.matmul ins(%3, %w2 : tensor<48x6xf32>, tensor<6x16xf32>) outs(%7 : tensor<48x16xf32>) -> tensor<48x16xf32>
  %y = shard.all_reduce %8 on @tp grid_axes = [0] : tensor<48x16xf32> -> tensor<48x16xf32>
  return %y : tensor<48x16xf32>
}

// The sum starts from %c on the first device: it is added behind the reduction.
//
// CHECK-LABEL: func.func @accumulate(
// CHECK-SAME: %[[C:arg2]]: tensor<8x16xf32, {{.*}}[-, -]>>)
// CHECK: %[[P:.+]] = fusion.matmul {{.*}} partial = ["axis0"]>>
// CHECK-NEXT: %[[R:.+]] = fusion.reshard %[[P]] : {{.*}} -> tensor<8x16xf32, {{.*}}[didx("axis0"), -]>>
// CHECK-NEXT: %[[S:.+]] = fusion.reshard %[[C]] : {{.*}} -> tensor<8x16xf32, {{.*}}[didx("axis0"), -]>>
// CHECK-NEXT: arith.addf %[[R]], %[[S]]
func.func @accumulate(%x: tensor<8x4xf32>, %w: tensor<4x16xf32>, %c: tensor<8x16xf32>) -> tensor<2x16xf32> {
  %cst = arith.constant dense<0.0> : tensor<8x16xf32>
  %me = shard.process_multi_index on @tp axes = [0] : index
  %c0 = arith.constant 0 : index
  %first = arith.cmpi eq, %me, %c0 : index
  %init = scf.if %first -> (tensor<8x16xf32>) {
    scf.yield %c : tensor<8x16xf32>
  } else {
    scf.yield %cst : tensor<8x16xf32>
  }
  %p = linalg.matmul ins(%x, %w : tensor<8x4xf32>, tensor<4x16xf32>) outs(%init : tensor<8x16xf32>) -> tensor<8x16xf32>
  %y = shard.reduce_scatter %p on @tp grid_axes = [0] scatter_axis = 0 : tensor<8x16xf32> -> tensor<2x16xf32>
  return %y : tensor<2x16xf32>
}

// An all-reduce of which each device keeps a slice is a reduce-scatter. Maxima are partial, too.
//
// CHECK-LABEL: func.func @slice_of_sum(
// CHECK: fusion.reshard {{.*}} partial = max ["axis0"]>> -> tensor<8x4xf32, {{.*}}[-, didx("axis0")]>>
// CHECK-NEXT: return
func.func @slice_of_sum(%x: tensor<8x4x3xf32>) -> tensor<8x1xf32> {
  %low = arith.constant dense<0xFF800000> : tensor<8x4xf32>
  %m = linalg.reduce { arith.maximumf } ins(%x : tensor<8x4x3xf32>) outs(%low : tensor<8x4xf32>) dimensions = [2]
  %r = shard.all_reduce %m on @tp grid_axes = [0] reduction = max : tensor<8x4xf32> -> tensor<8x4xf32>
  %y = shard.all_slice %r on @tp grid_axes = [0] slice_axis = 1 : tensor<8x4xf32> -> tensor<8x1xf32>
  return %y : tensor<8x1xf32>
}

// Ulysses: all tokens of some heads, and back.
//
// CHECK-LABEL: func.func @heads(
// CHECK-SAME: %[[Q:[^ :]+]]: tensor<8x4x6xf32, {{.*}}[didx("axis0"), -, -]>>)
// CHECK-NEXT: %[[H:.+]] = fusion.reshard %[[Q]] : {{.*}} -> tensor<8x4x6xf32, {{.*}}[-, didx("axis0"), -]>>
// CHECK-NEXT: fusion.reshard %[[H]] : {{.*}} -> tensor<8x4x6xf32, {{.*}}[didx("axis0"), -, -]>>
func.func @heads(%q: tensor<2x4x6xf32>) -> tensor<2x4x6xf32> {
  %h = shard.all_to_all %q on @tp grid_axes = [0] split_axis = 1 concat_axis = 0 : tensor<2x4x6xf32> -> tensor<8x1x6xf32>
  %y = shard.all_to_all %h on @tp grid_axes = [0] split_axis = 0 concat_axis = 1 : tensor<8x1x6xf32> -> tensor<2x4x6xf32>
  return %y : tensor<2x4x6xf32>
}

// Without a collective that would tell, annotations do. They name arguments or results.
//
// CHECK-LABEL: func.func @column(
// CHECK-SAME: tensor<8x6xf32, {{.*}}[didx("axis0"), -]>>, %{{.+}}: tensor<6x12xf32, {{.*}}[-, didx("axis0")]>>) -> tensor<8x12xf32, {{.*}}[-, didx("axis0")]>> {
func.func @column(%x: tensor<2x6xf32>, %w: tensor<6x3xf32>) -> (tensor<8x3xf32> {tandem.split_axes = [[], [0]]}) {
  %zero = arith.constant dense<0.0> : tensor<8x3xf32>
  %g = shard.all_gather %x on @tp grid_axes = [0] gather_axis = 0 : tensor<2x6xf32> -> tensor<8x6xf32>
  %y = linalg.matmul ins(%g, %w : tensor<8x6xf32>, tensor<6x3xf32>) outs(%zero : tensor<8x3xf32>) -> tensor<8x3xf32>
  return %y : tensor<8x3xf32>
}

// -----

// Two axes on one dimension. A gather is over the inner one; an axis of one device is no split.
//
// CHECK: #[[POD:.+]] = #tandem.mesh<"pod", ["axis0" = 2, "axis1" = 3, "axis2" = 1]>
// CHECK-LABEL: func.func @inner(
// CHECK-SAME: tensor<12x4xf32, #fusion.axes<#[[POD]], [didx("axis0") * didx("axis1"), -]>>)
// CHECK: fusion.reshard {{.*}} -> tensor<12x4xf32, {{.*}}[didx("axis0"), -]>>
// CHECK: fusion.reshard {{.*}} -> tensor<12x4xf32, {{.*}}[-, -]>>
shard.grid @pod(shape = 2x3x1)
func.func @inner(%x: tensor<2x4xf32>) -> tensor<12x4xf32> {
  %0 = shard.all_gather %x on @pod grid_axes = [1, 2] gather_axis = 0 : tensor<2x4xf32> -> tensor<6x4xf32>
  %1 = shard.all_gather %0 on @pod grid_axes = [0] gather_axis = 0 : tensor<6x4xf32> -> tensor<12x4xf32>
  return %1 : tensor<12x4xf32>
}

// CHECK-LABEL: func.func @annotated(
// CHECK-SAME: tensor<12x4xf32, {{.*}}[didx("axis1") * didx("axis0"), -]>>)
func.func @annotated(%x: tensor<2x4xf32> {tandem.split_axes = [[1, 0]]}) -> tensor<2x4xf32> {
  %0 = math.exp %x : tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// Modules without a grid, and functions with axes, stay.
//
// CHECK-LABEL: func.func @plain(
// CHECK: linalg.copy
func.func @plain(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.copy ins(%x : tensor<4xf32>) outs(%y : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
