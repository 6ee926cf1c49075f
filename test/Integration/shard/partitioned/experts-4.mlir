module {
  shard.grid @ep(shape = 4)
  func.func @experts(%arg0: tensor<8x3x16xf32> {fusion.name = "x"}, %arg1: tensor<2x16x20xf32> {fusion.name = "w"}, %arg2: tensor<2x20x16xf32> {fusion.name = "v"}) -> (tensor<8x3x16xf32> {fusion.name = "y"}) {
    %all_to_all = shard.all_to_all %arg0 on @ep grid_axes = [0] split_axis = 0 concat_axis = 1 : tensor<8x3x16xf32> -> tensor<2x12x16xf32>
    %cast = tensor.cast %all_to_all : tensor<2x12x16xf32> to tensor<2x12x16xf32>
    %cst = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<2x12x20xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x12x20xf32>) -> tensor<2x12x20xf32>
    %2 = linalg.batch_matmul ins(%cast, %arg1 : tensor<2x12x16xf32>, tensor<2x16x20xf32>) outs(%1 : tensor<2x12x20xf32>) -> tensor<2x12x20xf32>
    %3 = linalg.tanh ins(%2 : tensor<2x12x20xf32>) outs(%0 : tensor<2x12x20xf32>) -> tensor<2x12x20xf32>
    %4 = tensor.empty() : tensor<2x12x16xf32>
    %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<2x12x16xf32>) -> tensor<2x12x16xf32>
    %6 = linalg.batch_matmul ins(%3, %arg2 : tensor<2x12x20xf32>, tensor<2x20x16xf32>) outs(%5 : tensor<2x12x16xf32>) -> tensor<2x12x16xf32>
    %all_to_all_0 = shard.all_to_all %6 on @ep grid_axes = [0] split_axis = 1 concat_axis = 0 : tensor<2x12x16xf32> -> tensor<8x3x16xf32>
    %cast_1 = tensor.cast %all_to_all_0 : tensor<8x3x16xf32> to tensor<8x3x16xf32>
    return %cast_1 : tensor<8x3x16xf32>
  }
}
