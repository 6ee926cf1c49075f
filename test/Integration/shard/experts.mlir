// Experts of a mixture, each on one device: tokens of [expert, token, feature] go from a split by tokens to one by
// experts and back. Upstream inserts two all_to_alls.

shard.grid @ep(shape = 4)

func.func @experts(%x: tensor<8x12x16xf32> {fusion.name = "x"}, %w: tensor<8x16x20xf32> {fusion.name = "w"},
                   %v: tensor<8x20x16xf32> {fusion.name = "v"}) -> (tensor<8x12x16xf32> {fusion.name = "y"}) {
  %tokens = shard.sharding @ep split_axes = [[], [0]] : !shard.sharding
  %experts = shard.sharding @ep split_axes = [[0]] : !shard.sharding
  %xd = shard.shard %x to %tokens : tensor<8x12x16xf32>
  %xs = shard.shard %xd to %experts annotate_for_users : tensor<8x12x16xf32>
  %wd = shard.shard %w to %experts : tensor<8x16x20xf32>
  %ws = shard.shard %wd to %experts annotate_for_users : tensor<8x16x20xf32>
  %vd = shard.shard %v to %experts : tensor<8x20x16xf32>
  %vs = shard.shard %vd to %experts annotate_for_users : tensor<8x20x16xf32>

  %zero = arith.constant 0.0 : f32
  %he = tensor.empty() : tensor<8x12x20xf32>
  %hz = linalg.fill ins(%zero : f32) outs(%he : tensor<8x12x20xf32>) -> tensor<8x12x20xf32>
  %h = linalg.batch_matmul ins(%xs, %ws : tensor<8x12x16xf32>, tensor<8x16x20xf32>) outs(%hz : tensor<8x12x20xf32>) -> tensor<8x12x20xf32>
  %a = linalg.tanh ins(%h : tensor<8x12x20xf32>) outs(%he : tensor<8x12x20xf32>) -> tensor<8x12x20xf32>
  %ye = tensor.empty() : tensor<8x12x16xf32>
  %yz = linalg.fill ins(%zero : f32) outs(%ye : tensor<8x12x16xf32>) -> tensor<8x12x16xf32>
  %y = linalg.batch_matmul ins(%a, %vs : tensor<8x12x20xf32>, tensor<8x20x16xf32>) outs(%yz : tensor<8x12x16xf32>) -> tensor<8x12x16xf32>
  %yd = shard.shard %y to %experts : tensor<8x12x16xf32>
  %ys = shard.shard %yd to %tokens annotate_for_users : tensor<8x12x16xf32>
  return %ys : tensor<8x12x16xf32>
}
