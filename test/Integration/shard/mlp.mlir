// An MLP as Megatron splits it: columns of the first weight, rows of the second. Upstream inserts the all_reduce.

shard.grid @tp(shape = 4)

func.func @mlp(%x: tensor<48x16xf32> {fusion.name = "x"}, %w1: tensor<16x24xf32> {fusion.name = "w1"},
               %b1: tensor<24xf32> {fusion.name = "b1"}, %w2: tensor<24x16xf32> {fusion.name = "w2"})
    -> (tensor<48x16xf32> {fusion.name = "y"}) {
  %all = shard.sharding @tp split_axes = [[]] : !shard.sharding
  %first = shard.sharding @tp split_axes = [[0]] : !shard.sharding
  %second = shard.sharding @tp split_axes = [[], [0]] : !shard.sharding
  %xd = shard.shard %x to %all : tensor<48x16xf32>
  %xs = shard.shard %xd to %all annotate_for_users : tensor<48x16xf32>
  %w1d = shard.shard %w1 to %second : tensor<16x24xf32>
  %w1s = shard.shard %w1d to %second annotate_for_users : tensor<16x24xf32>
  %b1d = shard.shard %b1 to %first : tensor<24xf32>
  %b1s = shard.shard %b1d to %first annotate_for_users : tensor<24xf32>
  %w2d = shard.shard %w2 to %first : tensor<24x16xf32>
  %w2s = shard.shard %w2d to %first annotate_for_users : tensor<24x16xf32>

  %zero = arith.constant 0.0 : f32
  %he = tensor.empty() : tensor<48x24xf32>
  %hz = linalg.fill ins(%zero : f32) outs(%he : tensor<48x24xf32>) -> tensor<48x24xf32>
  %h = linalg.matmul ins(%xs, %w1s : tensor<48x16xf32>, tensor<16x24xf32>) outs(%hz : tensor<48x24xf32>) -> tensor<48x24xf32>
  %a = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%h, %b1s : tensor<48x24xf32>, tensor<24xf32>) outs(%he : tensor<48x24xf32>) {
  ^bb0(%p: f32, %b: f32, %o: f32):
    %s = arith.addf %p, %b : f32
    %r = arith.maximumf %s, %zero : f32
    linalg.yield %r : f32
  } -> tensor<48x24xf32>
  %ye = tensor.empty() : tensor<48x16xf32>
  %yz = linalg.fill ins(%zero : f32) outs(%ye : tensor<48x16xf32>) -> tensor<48x16xf32>
  %y = linalg.matmul ins(%a, %w2s : tensor<48x24xf32>, tensor<24x16xf32>) outs(%yz : tensor<48x16xf32>) -> tensor<48x16xf32>
  %yd = shard.shard %y to %all : tensor<48x16xf32>
  %ys = shard.shard %yd to %all annotate_for_users : tensor<48x16xf32>
  return %ys : tensor<48x16xf32>
}
