#map = affine_map<(d0, d1, d2) -> (d2, d0)>
#map1 = affine_map<(d0, d1, d2) -> (d2, d1)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
module {
  shard.grid @pod(shape = 2x1)
  func.func @gradient(%arg0: tensor<24x16xf32> {fusion.name = "x"}, %arg1: tensor<24x24xf32> {fusion.name = "dy", tandem.split_axes = [[0], [1]]}, %arg2: tensor<16x24xf32> {fusion.name = "sum"}) -> (tensor<16x24xf32> {fusion.name = "dw"}) {
    %proc_linear_idx = shard.process_multi_index on @pod axes = [0] : index
    %grid_shape = shard.grid_shape @pod axes = [0] : index
    %c0 = arith.constant 0 : index
    %0 = arith.cmpi eq, %proc_linear_idx, %c0 : index
    %1 = scf.if %0 -> (tensor<16x24xf32>) {
      scf.yield %arg2 : tensor<16x24xf32>
    } else {
      %3 = tensor.empty() : tensor<16x24xf32>
      %cst = arith.constant 0.000000e+00 : f32
      %4 = linalg.fill ins(%cst : f32) outs(%3 : tensor<16x24xf32>) -> tensor<16x24xf32>
      scf.yield %4 : tensor<16x24xf32>
    }
    %2 = linalg.matmul indexing_maps = [#map, #map1, #map2] ins(%arg0, %arg1 : tensor<24x16xf32>, tensor<24x24xf32>) outs(%1 : tensor<16x24xf32>) -> tensor<16x24xf32>
    %all_reduce = shard.all_reduce %2 on @pod grid_axes = [0] : tensor<16x24xf32> -> tensor<16x24xf32>
    return %all_reduce : tensor<16x24xf32>
  }
}
