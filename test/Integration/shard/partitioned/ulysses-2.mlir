#map = affine_map<(d0, d1, d2, d3) -> (d1, d0, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d2, d0, d3)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d3, d0, d2)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d1, d0, d2)>
#map6 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map7 = affine_map<(d0, d1, d2) -> (d1, d0)>
module {
  shard.grid @tp(shape = 2)
  func.func @ulysses(%arg0: tensor<8x8x4xf32> {fusion.name = "q"}, %arg1: tensor<8x8x4xf32> {fusion.name = "k"}, %arg2: tensor<8x8x6xf32> {fusion.name = "v"}) -> (tensor<8x8x6xf32> {fusion.name = "y"}) {
    %all_to_all = shard.all_to_all %arg2 on @tp grid_axes = [0] split_axis = 1 concat_axis = 0 : tensor<8x8x6xf32> -> tensor<16x4x6xf32>
    %cast = tensor.cast %all_to_all : tensor<16x4x6xf32> to tensor<16x4x6xf32>
    %all_to_all_0 = shard.all_to_all %arg1 on @tp grid_axes = [0] split_axis = 1 concat_axis = 0 : tensor<8x8x4xf32> -> tensor<16x4x4xf32>
    %cast_1 = tensor.cast %all_to_all_0 : tensor<16x4x4xf32> to tensor<16x4x4xf32>
    %all_to_all_2 = shard.all_to_all %arg0 on @tp grid_axes = [0] split_axis = 1 concat_axis = 0 : tensor<8x8x4xf32> -> tensor<16x4x4xf32>
    %cast_3 = tensor.cast %all_to_all_2 : tensor<16x4x4xf32> to tensor<16x4x4xf32>
    %cst = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<4x16x16xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%cast_3, %cast_1 : tensor<16x4x4xf32>, tensor<16x4x4xf32>) outs(%1 : tensor<4x16x16xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %10 = arith.mulf %in, %in_6 : f32
      %11 = arith.addf %out, %10 : f32
      linalg.yield %11 : f32
    } -> tensor<4x16x16xf32>
    %3 = linalg.exp ins(%2 : tensor<4x16x16xf32>) outs(%0 : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
    %4 = tensor.empty() : tensor<4x16xf32>
    %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<4x16xf32>) -> tensor<4x16xf32>
    %reduced = linalg.reduce { arith.addf } ins(%3 : tensor<4x16x16xf32>) outs(%5 : tensor<4x16xf32>) dimensions = [2]
    %6 = tensor.empty() : tensor<16x4x6xf32>
    %7 = linalg.fill ins(%cst : f32) outs(%6 : tensor<16x4x6xf32>) -> tensor<16x4x6xf32>
    %8 = linalg.generic {indexing_maps = [#map3, #map4, #map5], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%3, %cast : tensor<4x16x16xf32>, tensor<16x4x6xf32>) outs(%7 : tensor<16x4x6xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %10 = arith.mulf %in, %in_6 : f32
      %11 = arith.addf %out, %10 : f32
      linalg.yield %11 : f32
    } -> tensor<16x4x6xf32>
    %9 = linalg.generic {indexing_maps = [#map6, #map7, #map6], iterator_types = ["parallel", "parallel", "parallel"]} ins(%8, %reduced : tensor<16x4x6xf32>, tensor<4x16xf32>) outs(%6 : tensor<16x4x6xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %10 = arith.divf %in, %in_6 : f32
      linalg.yield %10 : f32
    } -> tensor<16x4x6xf32>
    %all_to_all_4 = shard.all_to_all %9 on @tp grid_axes = [0] split_axis = 0 concat_axis = 1 : tensor<16x4x6xf32> -> tensor<8x8x6xf32>
    %cast_5 = tensor.cast %all_to_all_4 : tensor<8x8x6xf32> to tensor<8x8x6xf32>
    return %cast_5 : tensor<8x8x6xf32>
  }
}
