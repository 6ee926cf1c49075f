// RUN: tandem-opt --convert-shard-to-fusion --split-input-file -verify-diagnostics %s

// shard_c1
// expected-error @+1 {{expected a known size of axis 0, found '?' (name it with option 'mesh': axis0=4)}}
shard.grid @open(shape = ?x2)

// -----

shard.grid @a(shape = 2)
shard.grid @b(shape = 2)
func.func @two_grids(%x: tensor<2xf32>) -> tensor<8xf32> {
  %0 = shard.all_gather %x on @a grid_axes = [0] gather_axis = 0 : tensor<2xf32> -> tensor<4xf32>
  // shard_c1
  // expected-error @+1 {{expected one grid per function, found @b after @a}}
  %1 = shard.all_gather %0 on @b grid_axes = [0] gather_axis = 0 : tensor<4xf32> -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

shard.grid @a(shape = 2)
shard.grid @b(shape = 2)
// shard_c1
// expected-error @+1 {{expected an op that names one of the module's grids}}
func.func @which_grid(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// -----

shard.grid @tp(shape = 2)
// shard_c2
// expected-error @+1 {{argument 0: expected a tensor with a rank or a scalar, of f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i32, i64, i16, i8 or i1, found 'tensor<*xf32>'}}
func.func @open(%x: tensor<*xf32>) -> tensor<*xf32> {
  return %x : tensor<*xf32>
}

// -----

shard.grid @tp(shape = 2)
func.func @computes_with_extents(%x: tensor<?xi64> {tandem.split_axes = [[0]]}) -> tensor<?xi64> {
  %zero = arith.constant 0 : index
  %d = tensor.dim %x, %zero : tensor<?xi64>
  %i = arith.index_cast %d : index to i64
  // shard_c2
  // expected-error @+1 {{expected scalars that are constants, arguments of the function, or computed from these}}
  %s = tensor.splat %i[%d] : tensor<?xi64>
  %y = arith.addi %x, %s : tensor<?xi64>
  return %y : tensor<?xi64>
}

// -----

shard.grid @tp(shape = 2)
// shard_c2
// expected-error @+1 {{argument 0: expected a tensor with a rank or a scalar, of f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i32, i64, i16, i8 or i1, found 'tensor<4xi4>'}}
func.func @elements(%x: tensor<4xi4>) -> tensor<4xi4> {
  return %x : tensor<4xi4>
}

// -----

shard.grid @tp(shape = 2)
func.func @constant(%x: tensor<2xf32> {tandem.split_axes = [[0]]}) -> tensor<2xf32> {
  // shard_c2
  // expected-error @+1 {{expected a constant with one value for all elements}}
  %0 = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = arith.addf %x, %0 : tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

shard.grid @tp(shape = 2)
func.func @not_partitioned(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shard.sharding @tp split_axes = [[0]] : !shard.sharding
  // shard_c3
  // expected-error @+1 {{expected a partitioned function: run --sharding-propagation and --shard-partition first}}
  %0 = shard.shard %x to %s : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

shard.grid @tp(shape = 2)
func.func @shift(%x: tensor<4xf32>) -> tensor<4xf32> {
  // shard_c3
  // expected-error @+1 {{has no counterpart in a fusion; expected shard.all_gather, reduce_scatter, all_reduce, all_to_all or all_slice}}
  %0 = shard.shift %x on @tp grid_axes = [0] shift_axis = 0 offset = 1 rotate : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

shard.grid @tp(shape = 2)
func.func @product(%x: tensor<4xf32>) -> tensor<4xf32> {
  // shard_c3
  // expected-error @+1 {{expected the reduction sum, max or min, found #shard<partial product>}}
  %0 = shard.all_reduce %x on @tp grid_axes = [0] reduction = product : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

shard.grid @tp(shape = 2)
func.func @wider(%x: tensor<4xbf16>) -> tensor<4xf32> {
  // shard_c3
  // expected-error @+1 {{expected a result of the operand's element type 'bf16', found 'f32'}}
  %0 = shard.all_reduce %x on @tp grid_axes = [0] : tensor<4xbf16> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

shard.grid @tp(shape = 2)
func.func @transposed_blocks(%x: tensor<4xf32>) -> tensor<4xf32> {
  // shard_c3
  // expected-error @+1 {{expected different split and concat axes, found 0 for both (that permutes the blocks of the logical tensor)}}
  %0 = shard.all_to_all %x on @tp grid_axes = [0] split_axis = 0 concat_axis = 0 : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

shard.grid @tp(shape = 2)
func.func @control_flow(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  // shard_c3
  // expected-error @+1 {{expected the initial value of partial results: one value on the first device of a grid axis, a constant on the others}}
  %0 = scf.if %c -> (tensor<4xf32>) {
    scf.yield %x : tensor<4xf32>
  } else {
    %1 = math.exp %x : tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

shard.grid @tp(shape = 2)
// shard_c3
// expected-error @+1 {{expected one block, found 2}}
func.func @blocks(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^bb1
^bb1:
  return %x : tensor<4xf32>
}

// -----

shard.grid @tp(shape = 2)
func.func @index(%x: tensor<4xi64>) -> tensor<4xi64> {
  // shard_c3
  // expected-error @+1 {{expected indexing maps that select and permute loops, without linalg.index}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%x : tensor<4xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i64
    linalg.yield %j : i64
  } -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// -----

shard.grid @tp(shape = 2)
func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    // shard_c3
    // expected-error @+1 {{expected an elementwise op that kernels compute, in the body of linalg.generic}}
    %b = math.atan %a : f32
    linalg.yield %b : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

shard.grid @tp(shape = 2)
func.func @reduction(%x: tensor<4x2xf32>) -> tensor<4xf32> {
  %one = arith.constant dense<1.0> : tensor<4xf32>
  // shard_c3
  // expected-error @+1 {{expected a reduction by one sum, maximum or minimum of the accumulator and a value}}
  %0 = linalg.reduce { arith.mulf } ins(%x : tensor<4x2xf32>) outs(%one : tensor<4xf32>) dimensions = [1]
  return %0 : tensor<4xf32>
}

// -----

shard.grid @tp(shape = 2)
func.func @no_values(%x: tensor<4x2xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  // shard_c3
  // expected-error @+1 {{reads tensor.empty, which has no values, as operand 1; expected linalg.fill before}}
  %0 = linalg.reduce { arith.addf } ins(%x : tensor<4x2xf32>) outs(%e : tensor<4xf32>) dimensions = [1]
  return %0 : tensor<4xf32>
}

// -----

shard.grid @tp(shape = 2)
func.func @index_of_device(%x: tensor<4xi64> {tandem.split_axes = [[0]]}) -> tensor<4xi64> {
  %me = shard.process_multi_index on @tp axes = [0] : index
  %i = arith.index_cast %me : index to i64
  // shard_c3
  // expected-error @+1 {{expected scalars that are constants, arguments of the function, or computed from these}}
  %s = tensor.splat %i : tensor<4xi64>
  %0 = arith.addi %x, %s : tensor<4xi64>
  return %0 : tensor<4xi64>
}

// -----

shard.grid @tp(shape = 2)
func.func @sum_of_copies(%x: tensor<2xf32>) -> tensor<4xf32> {
  %0 = shard.all_gather %x on @tp grid_axes = [0] gather_axis = 0 : tensor<2xf32> -> tensor<4xf32>
  // shard_c4
  // expected-error @+1 {{does not fit its neighbours along grid axis 0 of @tp: operand 0 is replicated; the result is replicated}}
  %1 = shard.all_reduce %0 on @tp grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

shard.grid @tp(shape = 2)
func.func @returned_partial(%x: tensor<4x2xf32> {tandem.split_axes = [[], [0]]}, %w: tensor<2x4xf32>) -> tensor<4x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x4xf32>
  // shard_c4
  // expected-error @+1 {{does not fit its neighbours along grid axis 0 of @tp: operand 0 is split in dimension 1}}
  %0 = linalg.matmul ins(%x, %w : tensor<4x2xf32>, tensor<2x4xf32>) outs(%zero : tensor<4x4xf32>) -> tensor<4x4xf32>
  // expected-note @+1 {{a returned value is not partial: reduce it first}}
  return %0 : tensor<4x4xf32>
}

// -----

// A residual added to partial sums would be added once per device.
shard.grid @tp(shape = 2)
func.func @residual_before_sum(%x: tensor<4x2xf32> {tandem.split_axes = [[], [0]]}, %w: tensor<2x4xf32>,
                               %r: tensor<4x4xf32> {tandem.split_axes = []}) -> tensor<4x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x4xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x2xf32>, tensor<2x4xf32>) outs(%zero : tensor<4x4xf32>) -> tensor<4x4xf32>
  // shard_c4
  // expected-error @+1 {{does not fit its neighbours along grid axis 0 of @tp: operand 0 is partial by sum; operand 1 is replicated}}
  %1 = arith.addf %0, %r : tensor<4x4xf32>
  %2 = shard.all_reduce %1 on @tp grid_axes = [0] : tensor<4x4xf32> -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// -----

// A column of weights, or all of them: nothing tells.
shard.grid @tp(shape = 2)
// shard_c5
// expected-error @+2 {{argument 1 of @column: its placement along grid axis 0 of @tp does not follow from the collectives (replicated, or split in dimension 1); add 'tandem.split_axes'}}
func.func @column(%x: tensor<2x6xf32>,
                  %w: tensor<6x3xf32>) -> tensor<4x3xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x3xf32>
  %g = shard.all_gather %x on @tp grid_axes = [0] gather_axis = 0 : tensor<2x6xf32> -> tensor<4x6xf32>
  %y = linalg.matmul ins(%g, %w : tensor<4x6xf32>, tensor<6x3xf32>) outs(%zero : tensor<4x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

// The sum is the same in any order of the axes, so it does not tell which axis is outermost.
shard.grid @pod(shape = 2x2)
// shard_c5
// expected-error @+1 {{argument 0 of @order: dimension 1 is split by several grid axes (0, 1), whose order does not follow from the collectives; add 'tandem.split_axes'}}
func.func @order(%x: tensor<4x2xf32>, %w: tensor<2x4xf32>) -> tensor<4x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x4xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x2xf32>, tensor<2x4xf32>) outs(%zero : tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = shard.all_reduce %0 on @pod grid_axes = [0, 1] : tensor<4x4xf32> -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

shard.grid @pod(shape = 2x2)
func.func @outer_gather(%x: tensor<2xf32> {tandem.split_axes = [[0, 1]]}) -> tensor<4xf32> {
  // shard_c5
  // expected-error @+1 {{expected dimension 0 to be split by grid axes [1, 0], outermost first, found [0, 1]}}
  %0 = shard.all_gather %x on @pod grid_axes = [0] gather_axis = 0 : tensor<2xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

shard.grid @tp(shape = 2)
// shard_c5
// expected-error @+1 {{expected lists of grid axes for up to 1 dimensions in 'tandem.split_axes', each axis of @tp at most once, found}}
func.func @annotation(%x: tensor<2xf32> {tandem.split_axes = [[1]]}) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// -----

shard.grid @tp(shape = 2)
func.func @initial_value(%x: tensor<4x2xf32>, %w: tensor<2x4xf32>, %c: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x4xf32>
  %me = shard.process_multi_index on @tp axes = [0] : index
  %c0 = arith.constant 0 : index
  %first = arith.cmpi eq, %me, %c0 : index
  %init = scf.if %first -> (tensor<4x4xf32>) {
    scf.yield %c : tensor<4x4xf32>
  } else {
    scf.yield %zero : tensor<4x4xf32>
  }
  %0 = linalg.matmul ins(%x, %w : tensor<4x2xf32>, tensor<2x4xf32>) outs(%init : tensor<4x4xf32>) -> tensor<4x4xf32>
  // shard_c6
  // expected-error @+1 {{expected partial results with an initial value to be reduced by all_reduce or reduce_scatter first}}
  %1 = arith.negf %0 : tensor<4x4xf32>
  %2 = shard.all_reduce %1 on @tp grid_axes = [0] : tensor<4x4xf32> -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// -----

// expected-error @+1 {{expected a positive size or '?' for mesh axis "axis0", found 0}}
shard.grid @none(shape = 0)

// -----

// expected-error @+1 {{expected at most 2147483647 devices in mesh "huge", found more at axis "axis1"}}
shard.grid @huge(shape = 4294967x4294967)

// -----

shard.grid @g(shape = 4)
// expected-error @+1 {{the logical extent of dimension 0 overflows}}
func.func @overflow(%x: tensor<4611686018427387904xi8> {tandem.split_axes = [[0]]}) {
  return
}

// -----

// The sum of the squares of partial sums is no partial result of the sum of squares.
#elements = affine_map<(k) -> (k)>
#scalar = affine_map<(k) -> ()>
shard.grid @g(shape = 4)
func.func @square_of_partial(%x: tensor<3x2xf32>, %w: tensor<2xf32> {tandem.split_axes = [[0]]}) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %e3 = tensor.empty() : tensor<3xf32>
  %i3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<3xf32>) -> tensor<3xf32>
  %p = linalg.matvec ins(%x, %w : tensor<3x2xf32>, tensor<2xf32>) outs(%i3 : tensor<3xf32>) -> tensor<3xf32>
  %e = tensor.empty() : tensor<f32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  // expected-error @+1 {{does not fit its neighbours along grid axis 0 of @g: operand 0 is partial by sum}}
  %q = linalg.generic {indexing_maps = [#elements, #scalar], iterator_types = ["reduction"]} ins(%p : tensor<3xf32>) outs(%i : tensor<f32>) {
  ^bb0(%a: f32, %sum: f32):
    %square = arith.mulf %a, %a : f32
    %r = arith.addf %square, %sum : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  %y = shard.all_reduce %q on @g grid_axes = [0] : tensor<f32> -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// Nothing says how many ones there are in all.
#elements = affine_map<(k) -> (k)>
#scalar = affine_map<(k) -> ()>
shard.grid @g(shape = 4)
func.func @count(%x: tensor<f32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %ones = arith.constant dense<1.0> : tensor<3xf32>
  %e = tensor.empty() : tensor<f32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %q = linalg.generic {indexing_maps = [#elements, #scalar], iterator_types = ["reduction"]} ins(%ones : tensor<3xf32>) outs(%i : tensor<f32>) {
  ^bb0(%a: f32, %sum: f32):
    %r = arith.addf %a, %sum : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  // expected-error @+1 {{does not fit its neighbours along grid axis 0 of @g: operand 0 is replicated}}
  %y = shard.all_reduce %q on @g grid_axes = [0] : tensor<f32> -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// A function is partitioned or a fusion, not both.
#tp = #tandem.mesh<"tp", ["x" = 2]>
shard.grid @g(shape = 2)
func.func @both(%x: tensor<4xf32, #fusion.axes<#tp, [didx("x")]>>, %y: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expected a function whose arguments and results have no axes, found some that have}}
  %z = shard.all_reduce %y on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  return %z : tensor<4xf32>
}

// -----

// The number that is compared is 0 on other devices, too: 2 * index of axis 0, of two grid axes.
#twice = affine_map<()[s0, s1] -> (s0 * 2 + s1 - s1)>
shard.grid @g(shape = 2x2)
func.func @other(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>, %b: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %index:2 = shard.process_multi_index on @g axes = [0, 1] : index, index
  %number = affine.apply #twice()[%index#0, %index#1]
  %c0 = arith.constant 0 : index
  %first = arith.cmpi eq, %number, %c0 : index
  // expected-error @+1 {{expected the initial value of partial results}}
  %init = scf.if %first -> (tensor<8x4xf32>) {
    scf.yield %b : tensor<8x4xf32>
  } else {
    %zeros = arith.constant dense<0.0> : tensor<8x4xf32>
    scf.yield %zeros : tensor<8x4xf32>
  }
  %p = linalg.matmul ins(%x, %w : tensor<8x4xf32>, tensor<4x4xf32>) outs(%init : tensor<8x4xf32>) -> tensor<8x4xf32>
  %y = shard.all_reduce %p on @g grid_axes = [0, 1] : tensor<8x4xf32> -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

#tp = #tandem.mesh<"tp", ["axis0" = 2]>
shard.grid @tp(shape = 2)
func.func @one_argument_with_axes(%x: tensor<8x4xf32, #fusion.axes<#tp, [didx("axis0"), -]>>, %w: tensor<4x6xf32>,
                                  %init: tensor<8x6xf32>) -> tensor<8x6xf32> {
  // shard_c3
  // expected-error @+1 {{expected a function whose arguments and results have no axes, found some that have}}
  %y = linalg.matmul ins(%x, %w : tensor<8x4xf32, #fusion.axes<#tp, [didx("axis0"), -]>>, tensor<4x6xf32>)
                     outs(%init : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}

// -----

shard.grid @tp(shape = 2)
func.func @merged_extents(%x: tensor<?x4x?xf32> {tandem.split_axes = [[], [0]]}, %w: tensor<4x?x3xf32>) -> tensor<?x3xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %x, %c0 : tensor<?x4x?xf32>
  %e = tensor.empty(%m) : tensor<?x3xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<?x3xf32>) -> tensor<?x3xf32>
  // shard_c2
  // expected-error @+1 {{expected at most one `?` in a value of which loops become one: several that only one factor has, or that are contracted; expected dimensions that split and merge in groups of equal size, found [?x8x?] and [?x?]}}
  %p = linalg.generic {indexing_maps = [affine_map<(m, n, k, l) -> (m, k, l)>, affine_map<(m, n, k, l) -> (k, l, n)>,
                                        affine_map<(m, n, k, l) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<?x4x?xf32>, tensor<4x?x3xf32>) outs(%init : tensor<?x3xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %c, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x3xf32>
  %y = shard.all_reduce %p on @tp grid_axes = [0] : tensor<?x3xf32> -> tensor<?x3xf32>
  return %y : tensor<?x3xf32>
}

// -----

// Legal linalg: `?` may be 16.
shard.grid @tp(shape = 2)
func.func @extents_of_a_loop(%x: tensor<?x8xf32>, %y: tensor<16x8xf32>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%d) : tensor<?x8xf32>
  // expected-error @+1 {{expected one logical extent for all dimensions of a loop, known or `?`; found ? in operand 0 and 32 in operand 1}}
  %0 = linalg.add ins(%x, %y : tensor<?x8xf32>, tensor<16x8xf32>) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %1 = shard.all_gather %0 on @tp grid_axes = [0] gather_axis = 0 : tensor<?x8xf32> -> tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}

// -----

shard.grid @tp(shape = 2)
func.func @extent_of_a_result(%x: tensor<16x8xf32>, %y: tensor<?x8xf32> {tandem.split_axes = [[0]]}) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %y, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%d) : tensor<?x8xf32>
  // expected-error @+1 {{found 32 in operand 0 and ? in the result}}
  %0 = linalg.exp ins(%x : tensor<16x8xf32>) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %1 = shard.all_gather %0 on @tp grid_axes = [0] gather_axis = 0 : tensor<?x8xf32> -> tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}
