// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-insert-reshards.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | FileCheck %s --check-prefix=HOSTIR

// A layer on batch x sequence x features whose tokens are split over the devices (sequence parallelism): the forward pass
// and the weight gradient. The gradient contracts tokens, so it sees x as a matrix (reshaped, or permuted first). Both
// matmuls need all tokens: x is gathered once.
//
// FUSION-LABEL: func.func @layer_3d(
// FUSION-COUNT-1: fusion.reshard %arg0
// FUSION-NOT: fusion.reshard
// FUSION-LABEL: func.func @layer_3d_permuted(
// FUSION-COUNT-1: fusion.reshard %arg0
// FUSION-NOT: fusion.reshard
//
// HOSTIR-LABEL: hostir.program @layer_3d(
// HOSTIR-COUNT-1: hostir.collective all_gather
// HOSTIR-NOT: hostir.collective
// HOSTIR-LABEL: hostir.program @layer_3d_permuted(
// HOSTIR-COUNT-1: hostir.collective all_gather
// HOSTIR-NOT: hostir.collective
// HOSTIR-LABEL: hostir.program private

#tp = #tandem.mesh<"tp", ["x" = ?]>
#tokens = #fusion.axes<#tp, [-, didx("x"), -]>
#features = #fusion.axes<#tp, [-, -, didx("x")]>
#columns = #fusion.axes<#tp, [-, didx("x")]>

func.func @layer_3d(
    %x: tensor<2x24x16xf32, #tokens> {fusion.name = "x"}, %w: tensor<16x24xf32, #columns> {fusion.name = "w"},
    %dy: tensor<2x24x24xf32, #features> {fusion.name = "dy"})
    -> (tensor<2x24x24xf32, #features> {fusion.name = "y"}, tensor<16x24xf32, #columns> {fusion.name = "dw"}) {
  %y = fusion.matmul %x, %w : tensor<2x24x16xf32, #tokens>, tensor<16x24xf32, #columns> -> tensor<2x24x24xf32, #features>
  %rows = fusion.reshape %x : tensor<2x24x16xf32, #tokens> -> tensor<48x16xf32>
  %drows = fusion.reshape %dy : tensor<2x24x24xf32, #features> -> tensor<48x24xf32>
  %dw = fusion.matmul %rows, %drows {transpose_a} : tensor<48x16xf32>, tensor<48x24xf32> -> tensor<16x24xf32, #columns>
  return %y, %dw : tensor<2x24x24xf32, #features>, tensor<16x24xf32, #columns>
}

func.func @layer_3d_permuted(
    %x: tensor<2x24x16xf32, #tokens> {fusion.name = "x"}, %w: tensor<16x24xf32, #columns> {fusion.name = "w"},
    %dy: tensor<24x2x24xf32, #features> {fusion.name = "dy"})
    -> (tensor<2x24x24xf32, #features> {fusion.name = "y"}, tensor<16x24xf32, #columns> {fusion.name = "dw"}) {
  %y = fusion.matmul %x, %w : tensor<2x24x16xf32, #tokens>, tensor<16x24xf32, #columns> -> tensor<2x24x24xf32, #features>
  %p = fusion.permute %x [1, 0, 2] : tensor<2x24x16xf32, #tokens> -> tensor<24x2x16xf32>
  %rows = fusion.reshape %p : tensor<24x2x16xf32> -> tensor<48x16xf32>
  %drows = fusion.reshape %dy : tensor<24x2x24xf32, #features> -> tensor<48x24xf32>
  %dw = fusion.matmul %rows, %drows {transpose_a} : tensor<48x16xf32>, tensor<48x24xf32> -> tensor<16x24xf32, #columns>
  return %y, %dw : tensor<2x24x24xf32, #features>, tensor<16x24xf32, #columns>
}
