// Attention over all tokens for some heads, as Ulysses does it: q, k and v of [token, head, feature] go from a split by
// tokens to one by heads, and the result goes back. Upstream inserts four all_to_alls. The weights are exp(q k^T),
// divided by their sum.

shard.grid @tp(shape = 4)

func.func @ulysses(%q: tensor<16x8x4xf32> {fusion.name = "q"}, %k: tensor<16x8x4xf32> {fusion.name = "k"},
                   %v: tensor<16x8x6xf32> {fusion.name = "v"}) -> (tensor<16x8x6xf32> {fusion.name = "y"}) {
  %tokens = shard.sharding @tp split_axes = [[0]] : !shard.sharding
  %heads = shard.sharding @tp split_axes = [[], [0]] : !shard.sharding
  %qd = shard.shard %q to %tokens : tensor<16x8x4xf32>
  %qs = shard.shard %qd to %heads annotate_for_users : tensor<16x8x4xf32>
  %kd = shard.shard %k to %tokens : tensor<16x8x4xf32>
  %ks = shard.shard %kd to %heads annotate_for_users : tensor<16x8x4xf32>
  %vd = shard.shard %v to %tokens : tensor<16x8x6xf32>
  %vs = shard.shard %vd to %heads annotate_for_users : tensor<16x8x6xf32>

  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<8x16x16xf32>
  %sz = linalg.fill ins(%zero : f32) outs(%se : tensor<8x16x16xf32>) -> tensor<8x16x16xf32>
  %s = linalg.generic {
    indexing_maps = [affine_map<(h, t, u, d) -> (t, h, d)>, affine_map<(h, t, u, d) -> (u, h, d)>, affine_map<(h, t, u, d) -> (h, t, u)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]
  } ins(%qs, %ks : tensor<16x8x4xf32>, tensor<16x8x4xf32>) outs(%sz : tensor<8x16x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    %n = arith.addf %c, %m : f32
    linalg.yield %n : f32
  } -> tensor<8x16x16xf32>
  %e = linalg.exp ins(%s : tensor<8x16x16xf32>) outs(%se : tensor<8x16x16xf32>) -> tensor<8x16x16xf32>
  %le = tensor.empty() : tensor<8x16xf32>
  %lz = linalg.fill ins(%zero : f32) outs(%le : tensor<8x16xf32>) -> tensor<8x16xf32>
  %l = linalg.reduce { arith.addf } ins(%e : tensor<8x16x16xf32>) outs(%lz : tensor<8x16xf32>) dimensions = [2]
  %oe = tensor.empty() : tensor<16x8x6xf32>
  %oz = linalg.fill ins(%zero : f32) outs(%oe : tensor<16x8x6xf32>) -> tensor<16x8x6xf32>
  %o = linalg.generic {
    indexing_maps = [affine_map<(h, t, d, u) -> (h, t, u)>, affine_map<(h, t, d, u) -> (u, h, d)>, affine_map<(h, t, d, u) -> (t, h, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]
  } ins(%e, %vs : tensor<8x16x16xf32>, tensor<16x8x6xf32>) outs(%oz : tensor<16x8x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    %n = arith.addf %c, %m : f32
    linalg.yield %n : f32
  } -> tensor<16x8x6xf32>
  %y = linalg.generic {
    indexing_maps = [affine_map<(t, h, d) -> (t, h, d)>, affine_map<(t, h, d) -> (h, t)>, affine_map<(t, h, d) -> (t, h, d)>],
    iterator_types = ["parallel", "parallel", "parallel"]
  } ins(%o, %l : tensor<16x8x6xf32>, tensor<8x16xf32>) outs(%oe : tensor<16x8x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %n = arith.divf %a, %b : f32
    linalg.yield %n : f32
  } -> tensor<16x8x6xf32>
  %yd = shard.shard %y to %heads : tensor<16x8x6xf32>
  %ys = shard.shard %yd to %tokens annotate_for_users : tensor<16x8x6xf32>
  return %ys : tensor<16x8x6xf32>
}
