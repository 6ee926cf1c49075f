// An MLP with sequence parallelism and a residual: rows of x are gathered before the first product, and each device
// keeps its rows of the sum. Upstream inserts an all_gather, and an all_reduce of which all_slice takes a part.

shard.grid @tp(shape = 4)

func.func @sequence_mlp(%x: tensor<48x16xf32> {fusion.name = "x"}, %w1: tensor<16x24xf32> {fusion.name = "w1"},
                        %w2: tensor<24x16xf32> {fusion.name = "w2"}) -> (tensor<48x16xf32> {fusion.name = "y"}) {
  %all = shard.sharding @tp split_axes = [[]] : !shard.sharding
  %rows = shard.sharding @tp split_axes = [[0]] : !shard.sharding
  %columns = shard.sharding @tp split_axes = [[], [0]] : !shard.sharding
  %xd = shard.shard %x to %rows : tensor<48x16xf32>
  %xs = shard.shard %xd to %all annotate_for_users : tensor<48x16xf32>
  %xr = shard.shard %xd to %rows annotate_for_users : tensor<48x16xf32>
  %w1d = shard.shard %w1 to %columns : tensor<16x24xf32>
  %w1s = shard.shard %w1d to %columns annotate_for_users : tensor<16x24xf32>
  %w2d = shard.shard %w2 to %rows : tensor<24x16xf32>
  %w2s = shard.shard %w2d to %rows annotate_for_users : tensor<24x16xf32>

  %zero = arith.constant 0.0 : f32
  %he = tensor.empty() : tensor<48x24xf32>
  %hz = linalg.fill ins(%zero : f32) outs(%he : tensor<48x24xf32>) -> tensor<48x24xf32>
  %h = linalg.matmul ins(%xs, %w1s : tensor<48x16xf32>, tensor<16x24xf32>) outs(%hz : tensor<48x24xf32>) -> tensor<48x24xf32>
  %a = linalg.tanh ins(%h : tensor<48x24xf32>) outs(%he : tensor<48x24xf32>) -> tensor<48x24xf32>
  %ye = tensor.empty() : tensor<48x16xf32>
  %yz = linalg.fill ins(%zero : f32) outs(%ye : tensor<48x16xf32>) -> tensor<48x16xf32>
  %p = linalg.matmul ins(%a, %w2s : tensor<48x24xf32>, tensor<24x16xf32>) outs(%yz : tensor<48x16xf32>) -> tensor<48x16xf32>
  %pd = shard.shard %p to %all : tensor<48x16xf32>
  %ps = shard.shard %pd to %rows annotate_for_users : tensor<48x16xf32>
  %y = linalg.add ins(%ps, %xr : tensor<48x16xf32>, tensor<48x16xf32>) outs(%ye : tensor<48x16xf32>) -> tensor<48x16xf32>
  %yd = shard.shard %y to %rows : tensor<48x16xf32>
  %ys = shard.shard %yd to %rows annotate_for_users : tensor<48x16xf32>
  return %ys : tensor<48x16xf32>
}
