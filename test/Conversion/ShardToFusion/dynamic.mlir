// RUN: tandem-opt --convert-shard-to-fusion='mesh=axis1=4,other.axis0=8' --split-input-file %s | FileCheck %s

// Logical extents of `?` are `?`, whether they are split or not. Constants are broadcast to them.
// CHECK: #tp = #tandem.mesh<"tp", ["axis0" = 4]>
// CHECK: func.func @rows(%[[X:.*]]: tensor<?x8xf32, #fusion.axes<#tp, [didx("axis0"), -]>>, %[[S:.*]]: f32)
// CHECK-SAME: -> tensor<?x8xf32, #fusion.axes<#tp, [-, -]>>
// CHECK: %[[TWO:.*]] = arith.constant dense<2.000000e+00> : tensor<f32>
// CHECK: %[[FILL:.*]] = fusion.broadcast %[[TWO]] dims [] : tensor<f32> -> tensor<?x8xf32, #fusion.axes<#tp, [didx("axis0"), -]>>
// CHECK: %[[SUM:.*]] = arith.addf %[[X]], %[[FILL]]
// CHECK: %[[SPLAT:.*]] = tensor.splat %[[S]] : tensor<f32>
// CHECK: %[[ALL:.*]] = fusion.broadcast %[[SPLAT]] dims [] : tensor<f32> -> tensor<?x8xf32, #fusion.axes<#tp, [didx("axis0"), -]>>
// CHECK: %[[PRODUCT:.*]] = arith.mulf %[[SUM]], %[[ALL]]
// CHECK: fusion.reshard %[[PRODUCT]]
shard.grid @tp(shape = 4)
func.func @rows(%x: tensor<?x8xf32>, %s: f32) -> tensor<?x8xf32> {
  %zero = arith.constant 0 : index
  %two = arith.constant 2.0 : f32
  %d = tensor.dim %x, %zero : tensor<?x8xf32>
  %e = tensor.empty(%d) : tensor<?x8xf32>
  %fill = linalg.fill ins(%two : f32) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %sum = arith.addf %x, %fill : tensor<?x8xf32>
  %splat = tensor.splat %s[%d] : tensor<?x8xf32>
  %product = arith.mulf %sum, %splat : tensor<?x8xf32>
  %y = shard.all_gather %product on @tp grid_axes = [0] gather_axis = 0 : tensor<?x8xf32> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

// Contracted dimensions of known extents are merged next to one of unknown extent.
// CHECK: func.func @merged(%{{.*}}: tensor<?x8x5xf32, #fusion.axes<#tp, [-, didx("axis0"), -]>>, %{{.*}}: tensor<8x5x3xf32, #fusion.axes<#tp, [didx("axis0"), -, -]>>)
// CHECK: %[[A:.*]] = fusion.reshape %{{.*}} -> tensor<?x40xf32, #fusion.axes<#tp, [-, didx("axis0")]>>
// CHECK: fusion.matmul %[[A]], %{{.*}} -> tensor<?x3xf32, #fusion.axes<#tp, [-, -], partial = ["axis0"]>>
shard.grid @tp(shape = 2)
func.func @merged(%x: tensor<?x4x5xf32> {tandem.split_axes = [[], [0]]}, %w: tensor<4x5x3xf32>) -> tensor<?x3xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %x, %c0 : tensor<?x4x5xf32>
  %e = tensor.empty(%m) : tensor<?x3xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<?x3xf32>) -> tensor<?x3xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, n, k, l) -> (m, k, l)>, affine_map<(m, n, k, l) -> (k, l, n)>,
                                        affine_map<(m, n, k, l) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<?x4x5xf32>, tensor<4x5x3xf32>) outs(%init : tensor<?x3xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %c, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x3xf32>
  %y = shard.all_reduce %p on @tp grid_axes = [0] : tensor<?x3xf32> -> tensor<?x3xf32>
  return %y : tensor<?x3xf32>
}

// -----

// Loops of which one is `?` become one that is `?`: contracted ones, as in the gradient of a weight, and columns.
// CHECK: func.func @gradient(%{{.*}}: tensor<?x3x8xf32, #fusion.axes<#tp, [didx("axis0"), -, -]>>, %{{.*}}: tensor<?x3x6xf32, #fusion.axes<#tp, [didx("axis0"), -, -]>>)
// CHECK: %[[A:.*]] = fusion.reshape %{{.*}} -> tensor<?x8xf32, #fusion.axes<#tp, [didx("axis0"), -]>>
// CHECK: %[[B:.*]] = fusion.reshape %{{.*}} -> tensor<?x6xf32, #fusion.axes<#tp, [didx("axis0"), -]>>
// CHECK: fusion.matmul %[[A]], %[[B]] {transpose_a} : {{.*}} -> tensor<8x6xf32, #fusion.axes<#tp, [-, -], partial = ["axis0"]>>
shard.grid @tp(shape = 2)
func.func @gradient(%x: tensor<?x3x8xf32>, %g: tensor<?x3x6xf32> {tandem.split_axes = [[0]]}) -> tensor<8x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x6xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<8x6xf32>) -> tensor<8x6xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, n, t, b) -> (t, b, m)>, affine_map<(m, n, t, b) -> (t, b, n)>,
                                        affine_map<(m, n, t, b) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %g : tensor<?x3x8xf32>, tensor<?x3x6xf32>) outs(%init : tensor<8x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %c, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<8x6xf32>
  %y = shard.all_reduce %p on @tp grid_axes = [0] : tensor<8x6xf32> -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}

// -----

// CHECK: func.func @columns(%{{.*}}: tensor<3x5x8xf32, {{.*}}>, %{{.*}}: tensor<8x?x4xf32, #fusion.axes<#tp, [-, didx("axis0"), -]>>)
// CHECK: %[[B:.*]] = fusion.reshape %{{.*}} -> tensor<8x?xf32, #fusion.axes<#tp, [-, didx("axis0")]>>
// CHECK: %[[P:.*]] = fusion.matmul %{{.*}}, %[[B]] {{.*}} -> tensor<3x5x?xf32, #fusion.axes<#tp, [-, -, didx("axis0")]>>
// CHECK: fusion.reshape %[[P]] : {{.*}} -> tensor<3x5x?x4xf32, #fusion.axes<#tp, [-, -, didx("axis0"), -]>>
shard.grid @tp(shape = 2)
func.func @columns(%x: tensor<3x5x8xf32>, %w: tensor<8x?x4xf32> {tandem.split_axes = [[], [0]]}) -> tensor<3x5x?x4xf32> {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %w, %c1 : tensor<8x?x4xf32>
  %e = tensor.empty(%n) : tensor<3x5x?x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<3x5x?x4xf32>) -> tensor<3x5x?x4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, o, n, c, k) -> (m, o, k)>, affine_map<(m, o, n, c, k) -> (k, n, c)>,
                                        affine_map<(m, o, n, c, k) -> (m, o, n, c)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<3x5x8xf32>, tensor<8x?x4xf32>) outs(%init : tensor<3x5x?x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %c, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<3x5x?x4xf32>
  return %y : tensor<3x5x?x4xf32>
}

// -----

// Sizes of a grid that are `?` are given by an option. Upstream computes the extents of shards from them.
// CHECK: #g = #tandem.mesh<"g", ["axis0" = 2, "axis1" = 4]>
// CHECK: func.func @open_grid(%{{.*}}: tensor<8x6xf32, #fusion.axes<#g, [didx("axis0"), -]>>,
// CHECK-SAME: %{{.*}}: tensor<6x?xf32, #fusion.axes<#g, [-, didx("axis1")]>>) -> tensor<8x?xf32, #fusion.axes<#g, [didx("axis0"), -]>>
shard.grid @g(shape = 2x?)
func.func @open_grid(%x: tensor<4x6xf32> {tandem.split_axes = [[0], []]}, %w: tensor<6x?xf32>) -> tensor<4x?xf32> {
  %zero = arith.constant 0.0 : f32
  %sharding = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %device:2 = shard.process_multi_index on @g : index, index
  %shape:2 = shard.shard_shape dims = [8, 24] sharding = %sharding device = [%device#0, %device#1] : index, index
  %e = tensor.empty(%shape#1) : tensor<4x?xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<4x?xf32>) -> tensor<4x?xf32>
  %p = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x?xf32>) outs(%init : tensor<4x?xf32>) -> tensor<4x?xf32>
  %y = shard.all_gather %p on @g grid_axes = [1] gather_axis = 1 : tensor<4x?xf32> -> tensor<4x?xf32>
  return %y : tensor<4x?xf32>
}

// -----

// The size for this grid alone.
// CHECK: #other = #tandem.mesh<"other", ["axis0" = 8]>
shard.grid @other(shape = ?)
func.func @of_one_grid(%x: tensor<?x6xf32>) -> tensor<?x6xf32> {
  %y = shard.all_gather %x on @other grid_axes = [0] gather_axis = 0 : tensor<?x6xf32> -> tensor<?x6xf32>
  return %y : tensor<?x6xf32>
}
