#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
module {
  shard.grid @tp(shape = 2)
  func.func @mlp(%arg0: tensor<48x16xf32> {fusion.name = "x"}, %arg1: tensor<16x12xf32> {fusion.name = "w1"}, %arg2: tensor<12xf32> {fusion.name = "b1"}, %arg3: tensor<12x16xf32> {fusion.name = "w2"}) -> (tensor<48x16xf32> {fusion.name = "y"}) {
    %cst = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<48x12xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<48x12xf32>) -> tensor<48x12xf32>
    %2 = linalg.matmul ins(%arg0, %arg1 : tensor<48x16xf32>, tensor<16x12xf32>) outs(%1 : tensor<48x12xf32>) -> tensor<48x12xf32>
    %3 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%2, %arg2 : tensor<48x12xf32>, tensor<12xf32>) outs(%0 : tensor<48x12xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %9 = arith.addf %in, %in_0 : f32
      %10 = arith.maximumf %9, %cst : f32
      linalg.yield %10 : f32
    } -> tensor<48x12xf32>
    %4 = tensor.empty() : tensor<48x16xf32>
    %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<48x16xf32>) -> tensor<48x16xf32>
    %proc_linear_idx = shard.process_multi_index on @tp axes = [0] : index
    %grid_shape = shard.grid_shape @tp axes = [0] : index
    %c0 = arith.constant 0 : index
    %6 = arith.cmpi eq, %proc_linear_idx, %c0 : index
    %7 = scf.if %6 -> (tensor<48x16xf32>) {
      scf.yield %5 : tensor<48x16xf32>
    } else {
      %9 = tensor.empty() : tensor<48x16xf32>
      %cst_0 = arith.constant 0.000000e+00 : f32
      %10 = linalg.fill ins(%cst_0 : f32) outs(%9 : tensor<48x16xf32>) -> tensor<48x16xf32>
      scf.yield %10 : tensor<48x16xf32>
    }
    %8 = linalg.matmul ins(%3, %arg3 : tensor<48x12xf32>, tensor<12x16xf32>) outs(%7 : tensor<48x16xf32>) -> tensor<48x16xf32>
    %all_reduce = shard.all_reduce %8 on @tp grid_axes = [0] : tensor<48x16xf32> -> tensor<48x16xf32>
    return %all_reduce : tensor<48x16xf32>
  }
}
