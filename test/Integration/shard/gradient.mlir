// The gradient of a weight with data parallelism on axis 0 and tensor parallelism on axis 1 of a grid, added to a
// running sum that all devices of axis 0 have. Upstream inserts an all_reduce over axis 0. Only the columns need an
// annotation: no collective is over axis 1.

shard.grid @pod(shape = 2x2)

func.func @gradient(%x: tensor<48x16xf32> {fusion.name = "x"},
                    %dy: tensor<48x24xf32> {fusion.name = "dy", tandem.split_axes = [[0], [1]]},
                    %sum: tensor<16x24xf32> {fusion.name = "sum"}) -> (tensor<16x24xf32> {fusion.name = "dw"}) {
  %rows = shard.sharding @pod split_axes = [[0]] : !shard.sharding
  %blocks = shard.sharding @pod split_axes = [[0], [1]] : !shard.sharding
  %columns = shard.sharding @pod split_axes = [[], [1]] : !shard.sharding
  %xd = shard.shard %x to %rows : tensor<48x16xf32>
  %xs = shard.shard %xd to %rows annotate_for_users : tensor<48x16xf32>
  %dyd = shard.shard %dy to %blocks : tensor<48x24xf32>
  %dys = shard.shard %dyd to %blocks annotate_for_users : tensor<48x24xf32>
  %sumd = shard.shard %sum to %columns : tensor<16x24xf32>
  %sums = shard.shard %sumd to %columns annotate_for_users : tensor<16x24xf32>
  %dw = linalg.matmul
    indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%xs, %dys : tensor<48x16xf32>, tensor<48x24xf32>) outs(%sums : tensor<16x24xf32>) -> tensor<16x24xf32>
  %dwd = shard.shard %dw to %columns : tensor<16x24xf32>
  %dws = shard.shard %dwd to %columns annotate_for_users : tensor<16x24xf32>
  return %dws : tensor<16x24xf32>
}
