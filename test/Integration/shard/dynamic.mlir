// The MLP of a rank of four, for any number of tokens: shard-partition takes static shapes only, so it is written by hand.
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
shard.grid @tp(shape = 4)
func.func @mlp(%x: tensor<?x16xf32> {fusion.name = "x", tandem.split_axes = [[0], []]}, %w1: tensor<16x6xf32> {fusion.name = "w1"}, %b1: tensor<6xf32> {fusion.name = "b1"}, %w2: tensor<6x16xf32> {fusion.name = "w2"}) -> (tensor<?x16xf32> {fusion.name = "y"}) {
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2.0 : f32
  %c0 = arith.constant 0 : index
  %all = shard.all_gather %x on @tp grid_axes = [0] gather_axis = 0 : tensor<?x16xf32> -> tensor<?x16xf32>
  %d = tensor.dim %all, %c0 : tensor<?x16xf32>
  %e = tensor.empty(%d) : tensor<?x6xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<?x6xf32>) -> tensor<?x6xf32>
  %p = linalg.matmul ins(%all, %w1 : tensor<?x16xf32>, tensor<16x6xf32>) outs(%init : tensor<?x6xf32>) -> tensor<?x6xf32>
  %h = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%p, %b1 : tensor<?x6xf32>, tensor<6xf32>) outs(%e : tensor<?x6xf32>) {
  ^bb0(%in: f32, %b: f32, %out: f32):
    %s = arith.addf %in, %b : f32
    %r = arith.maximumf %s, %zero : f32
    linalg.yield %r : f32
  } -> tensor<?x6xf32>
  %fill = linalg.fill ins(%two : f32) outs(%e : tensor<?x6xf32>) -> tensor<?x6xf32>
  %h2 = arith.mulf %h, %fill : tensor<?x6xf32>
  %e2 = tensor.empty(%d) : tensor<?x16xf32>
  %init2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<?x16xf32>) -> tensor<?x16xf32>
  %q = linalg.matmul ins(%h2, %w2 : tensor<?x6xf32>, tensor<6x16xf32>) outs(%init2 : tensor<?x16xf32>) -> tensor<?x16xf32>
  %y = shard.reduce_scatter %q on @tp grid_axes = [0] scatter_axis = 0 : tensor<?x16xf32> -> tensor<?x16xf32>
  return %y : tensor<?x16xf32>
}
