// RUN: tandem-opt --convert-shard-to-fusion %s | FileCheck %s

// Ops of linalg, tensor, arith: the axis of the grid is settled by annotations.

shard.grid @tp(shape = 2)

// CHECK-LABEL: func.func @products(
// CHECK: fusion.matmul %{{.+}}, %{{.+}} {transpose_b} : tensor<8x6xbf16, {{.*}}>, tensor<4x6xbf16, {{.*}}> -> tensor<8x4xf32, {{.*}}[didx("axis0"), -]>>
// CHECK: fusion.matmul %{{.+}}, %{{.+}} : tensor<5x8x6xf32, {{.*}}>, tensor<5x6x4xf32, {{.*}}> -> tensor<5x8x4xf32, {{.*}}[-, didx("axis0"), -]>>
// CHECK: fusion.matmul %{{.+}}, %{{.+}} : tensor<8x6xf32, {{.*}}>, tensor<6xf32, {{.*}}> -> tensor<8xf32, {{.*}}[didx("axis0")]>>
func.func @products(%a: tensor<4x6xbf16> {tandem.split_axes = [[0]]}, %b: tensor<4x6xbf16>,
                    %c: tensor<5x4x6xf32> {tandem.split_axes = [[], [0]]}, %d: tensor<5x6x4xf32>,
                    %e: tensor<4x6xf32> {tandem.split_axes = [[0]]}, %f: tensor<6xf32>)
    -> (tensor<4x4xf32>, tensor<5x4x4xf32>, tensor<4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<4x4xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %0 = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %b : tensor<4x6xbf16>, tensor<4x6xbf16>) outs(%f0 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %f1 = arith.constant dense<0.0> : tensor<5x4x4xf32>
  %1 = linalg.batch_matmul ins(%c, %d : tensor<5x4x6xf32>, tensor<5x6x4xf32>) outs(%f1 : tensor<5x4x4xf32>) -> tensor<5x4x4xf32>
  %f2 = arith.constant dense<0.0> : tensor<4xf32>
  %2 = linalg.matvec ins(%e, %f : tensor<4x6xf32>, tensor<6xf32>) outs(%f2 : tensor<4xf32>) -> tensor<4xf32>
  return %0, %1, %2 : tensor<4x4xf32>, tensor<5x4x4xf32>, tensor<4xf32>
}

// Rows of two dimensions, columns of none of the other's; a result in another order; an initial value.
//
// CHECK-LABEL: func.func @contractions(
// CHECK: %[[P:.+]] = fusion.matmul %{{.+}}, %{{.+}} : tensor<8x3x6xf32, {{.*}}>, tensor<6x4xf32, {{.*}}> -> tensor<8x3x4xf32, {{.*}}[didx("axis0"), -, -]>>
// CHECK-NEXT: %[[T:.+]] = fusion.permute %[[P]] [0, 2, 1] : {{.*}} -> tensor<8x4x3xf32, {{.*}}[didx("axis0"), -, -]>>
// CHECK-NEXT: arith.addf %{{.+}}, %[[T]] : tensor<8x4x3xf32
func.func @contractions(%a: tensor<4x3x6xf32> {tandem.split_axes = [[0]]}, %b: tensor<6x4xf32>, %c: tensor<4x4x3xf32>)
    -> tensor<4x4x3xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j, n, k) -> (i, j, k)>, affine_map<(i, j, n, k) -> (k, n)>, affine_map<(i, j, n, k) -> (i, n, j)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<4x3x6xf32>, tensor<6x4xf32>) outs(%c : tensor<4x4x3xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %m = arith.mulf %x, %y : f32
    %s = arith.addf %z, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x4x3xf32>
  return %0 : tensor<4x4x3xf32>
}

// Bodies, broadcasts, scalars from outside, comparisons; sums of other values than products of floats.
//
// CHECK-LABEL: func.func @bodies(
// CHECK-SAME: %[[X:[^ :]+]]: tensor<8x6xf32, {{.*}}[didx("axis0"), -]>>, %[[B:[^ :]+]]: tensor<6xf32, {{.*}}[-]>>, %[[S:[^ :]+]]: f32
// CHECK: %[[BB:.+]] = fusion.broadcast %[[B]] dims [1] : {{.*}} -> tensor<8x6xf32, {{.*}}[didx("axis0"), -]>>
// CHECK: %[[A:.+]] = arith.addf %[[X]], %[[BB]]
// CHECK: %[[Z:.+]] = arith.constant dense<0.000000e+00> : tensor<8x6xf32
// CHECK: %[[C:.+]] = arith.cmpf ogt, %[[A]], %[[Z]]
// CHECK: %[[SP:.+]] = tensor.splat %[[S]] : tensor<8x6xf32
// CHECK: arith.select %[[C]], %[[A]], %[[SP]]
// CHECK: fusion.permute %{{.+}} [1, 0] : {{.*}} -> tensor<6x8xf32, {{.*}}[-, didx("axis0")]>>
// CHECK: %[[SQ:.+]] = arith.mulf
// CHECK: fusion.reduce sum %[[SQ]] dims [1] : tensor<8x6xf32, {{.*}}> -> tensor<8xf32, {{.*}}[didx("axis0")]>>
// CHECK: fusion.reshape %{{.+}} : {{.*}} -> tensor<8x2x3xf32, {{.*}}[didx("axis0"), -, -]>>
func.func @bodies(%x: tensor<4x6xf32> {tandem.split_axes = [[0]]}, %b: tensor<6xf32>, %s: f32)
    -> (tensor<6x4xf32>, tensor<4xf32>, tensor<4x2x3xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x6xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : tensor<4x6xf32>, tensor<6xf32>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %a = arith.addf %p, %q : f32
    %c = arith.cmpf ogt, %a, %zero : f32
    %r = arith.select %c, %a, %s : f32
    linalg.yield %r : f32
  } -> tensor<4x6xf32>
  %et = tensor.empty() : tensor<6x4xf32>
  %1 = linalg.transpose ins(%0 : tensor<4x6xf32>) outs(%et : tensor<6x4xf32>) permutation = [1, 0]
  %f = arith.constant dense<0.0> : tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%0 : tensor<4x6xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %q = arith.mulf %p, %p : f32
    %r = arith.addf %q, %o : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %3 = tensor.expand_shape %0 [[0], [1, 2]] output_shape [4, 2, 3] : tensor<4x6xf32> into tensor<4x2x3xf32>
  return %1, %2, %3 : tensor<6x4xf32>, tensor<4xf32>, tensor<4x2x3xf32>
}

// CHECK-LABEL: func.func @maps(
// CHECK: arith.subf
// CHECK: fusion.broadcast %{{.+}} dims [0] : tensor<8xf32, {{.*}}> -> tensor<8x3xf32, {{.*}}[didx("axis0"), -]>>
// CHECK: math.exp
func.func @maps(%x: tensor<4xf32> {tandem.split_axes = [[0]]}, %y: tensor<4xf32>) -> tensor<4x3xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.map { arith.subf } ins(%x, %y : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>)
  %e1 = tensor.empty() : tensor<4x3xf32>
  %1 = linalg.broadcast ins(%0 : tensor<4xf32>) outs(%e1 : tensor<4x3xf32>) dimensions = [1]
  %2 = math.exp %1 : tensor<4x3xf32>
  return %2 : tensor<4x3xf32>
}

// Two loops summed over become one (a weight's gradient); so do two columns (heads and features).
//
// CHECK-LABEL: func.func @merged(
// CHECK-SAME: %{{[^ :]+}}: tensor<4x3x6xf32, {{.*}}[didx("axis0"), -, -]>>, %{{[^ :]+}}: tensor<4x3x5xf32, {{.*}}[didx("axis0"), -, -]>>, %{{[^ :]+}}: tensor<6x2x7xf32, {{.*}}[-, -, -]>>)
// CHECK: %[[X:.+]] = fusion.reshape %{{.+}} -> tensor<12x6xf32, {{.*}}[didx("axis0"), -]>>
// CHECK: %[[D:.+]] = fusion.reshape %{{.+}} -> tensor<12x5xf32, {{.*}}[didx("axis0"), -]>>
// CHECK: fusion.matmul %[[X]], %[[D]] {transpose_a} : {{.*}} -> tensor<6x5xf32, {{.*}}[-, -], partial = ["axis0"]>>
// CHECK: %[[W:.+]] = fusion.reshape %{{.+}} -> tensor<6x14xf32
// CHECK: %[[P:.+]] = fusion.matmul %{{.+}}, %[[W]] : tensor<4x3x6xf32, {{.*}} -> tensor<4x3x14xf32, {{.*}}[didx("axis0"), -, -]>>
// CHECK: fusion.reshape %[[P]] : {{.*}} -> tensor<4x3x2x7xf32, {{.*}}[didx("axis0"), -, -, -]>>
func.func @merged(%x: tensor<2x3x6xf32> {tandem.split_axes = [[0]]}, %d: tensor<2x3x5xf32>, %w: tensor<6x2x7xf32>) -> (tensor<6x5xf32>, tensor<2x3x2x7xf32>) {
  %f = arith.constant dense<0.0> : tensor<6x5xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(b, s, h, f) -> (b, s, h)>, affine_map<(b, s, h, f) -> (b, s, f)>, affine_map<(b, s, h, f) -> (h, f)>],
                       iterator_types = ["reduction", "reduction", "parallel", "parallel"]}
      ins(%x, %d : tensor<2x3x6xf32>, tensor<2x3x5xf32>) outs(%f : tensor<6x5xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<6x5xf32>
  %1 = shard.all_reduce %0 on @tp grid_axes = [0] : tensor<6x5xf32> -> tensor<6x5xf32>
  %g = arith.constant dense<0.0> : tensor<2x3x2x7xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(b, s, n, f, h) -> (b, s, h)>, affine_map<(b, s, n, f, h) -> (h, n, f)>, affine_map<(b, s, n, f, h) -> (b, s, n, f)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<2x3x6xf32>, tensor<6x2x7xf32>) outs(%g : tensor<2x3x2x7xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x3x2x7xf32>
  return %1, %2 : tensor<6x5xf32>, tensor<2x3x2x7xf32>
}

// Scalars stay scalars. A dimension of extent 1 may lie outside of one that is split.
//
// CHECK-LABEL: func.func @scalars(
// CHECK-SAME: %[[X:[^ :]+]]: tensor<8xf32, {{.*}}>, %[[S:[^ :]+]]: f32) -> (tensor<1x8xf32, {{.*}}[-, didx("axis0")]>>, f32)
// CHECK: %[[Q:.+]] = arith.mulf %[[S]], %[[S]] : f32
// CHECK: %[[T:.+]] = tensor.splat %[[Q]] : tensor<8xf32, {{.*}}[didx("axis0")]>>
// CHECK: %[[Y:.+]] = arith.mulf %[[X]], %[[T]]
// CHECK: %[[R:.+]] = fusion.reshape %[[Y]]
// CHECK: return %[[R]], %[[Q]]
func.func @scalars(%x: tensor<4xf32>, %s: f32) -> (tensor<1x4xf32> {tandem.split_axes = [[], [0]]}, f32) {
  %q = arith.mulf %s, %s : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%q : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %y = arith.mulf %x, %f : tensor<4xf32>
  %r = tensor.expand_shape %y [[0, 1]] output_shape [1, 4] : tensor<4xf32> into tensor<1x4xf32>
  return %r, %q : tensor<1x4xf32>, f32
}
