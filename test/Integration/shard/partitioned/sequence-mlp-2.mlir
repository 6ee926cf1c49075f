module {
  shard.grid @tp(shape = 2)
  func.func @sequence_mlp(%arg0: tensor<24x16xf32> {fusion.name = "x"}, %arg1: tensor<16x12xf32> {fusion.name = "w1"}, %arg2: tensor<12x16xf32> {fusion.name = "w2"}) -> (tensor<24x16xf32> {fusion.name = "y"}) {
    %all_gather = shard.all_gather %arg0 on @tp grid_axes = [0] gather_axis = 0 : tensor<24x16xf32> -> tensor<48x16xf32>
    %cast = tensor.cast %all_gather : tensor<48x16xf32> to tensor<48x16xf32>
    %cst = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<48x12xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<48x12xf32>) -> tensor<48x12xf32>
    %2 = linalg.matmul ins(%cast, %arg1 : tensor<48x16xf32>, tensor<16x12xf32>) outs(%1 : tensor<48x12xf32>) -> tensor<48x12xf32>
    %3 = linalg.tanh ins(%2 : tensor<48x12xf32>) outs(%0 : tensor<48x12xf32>) -> tensor<48x12xf32>
    %4 = tensor.empty() : tensor<48x16xf32>
    %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<48x16xf32>) -> tensor<48x16xf32>
    %proc_linear_idx = shard.process_multi_index on @tp axes = [0] : index
    %grid_shape = shard.grid_shape @tp axes = [0] : index
    %c0 = arith.constant 0 : index
    %6 = arith.cmpi eq, %proc_linear_idx, %c0 : index
    %7 = scf.if %6 -> (tensor<48x16xf32>) {
      scf.yield %5 : tensor<48x16xf32>
    } else {
      %10 = tensor.empty() : tensor<48x16xf32>
      %cst_1 = arith.constant 0.000000e+00 : f32
      %11 = linalg.fill ins(%cst_1 : f32) outs(%10 : tensor<48x16xf32>) -> tensor<48x16xf32>
      scf.yield %11 : tensor<48x16xf32>
    }
    %8 = linalg.matmul ins(%3, %arg2 : tensor<48x12xf32>, tensor<12x16xf32>) outs(%7 : tensor<48x16xf32>) -> tensor<48x16xf32>
    %all_reduce = shard.all_reduce %8 on @tp grid_axes = [0] : tensor<48x16xf32> -> tensor<48x16xf32>
    %all_slice = shard.all_slice %all_reduce on @tp grid_axes = [0] slice_axis = 0 : tensor<48x16xf32> -> tensor<24x16xf32>
    %all_slice_0 = shard.all_slice %4 on @tp grid_axes = [0] slice_axis = 0 : tensor<48x16xf32> -> tensor<24x16xf32>
    %9 = linalg.add ins(%all_slice, %arg0 : tensor<24x16xf32>, tensor<24x16xf32>) outs(%all_slice_0 : tensor<24x16xf32>) -> tensor<24x16xf32>
    return %9 : tensor<24x16xf32>
  }
}
