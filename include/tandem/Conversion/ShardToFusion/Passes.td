//===- Passes.td - from upstream's shard dialect to fusion -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_SHARDTOFUSION_PASSES_TD
#define TANDEM_CONVERSION_SHARDTOFUSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertShardToFusion : Pass<"convert-shard-to-fusion", "::mlir::ModuleOp"> {
  let summary = "Turn functions that upstream's shard-partition made into fusions";
  let description = [{
    A partitioned function computes on shards; a fusion computes on logical tensors. The pass infers how each shard lies
    in its tensor, from the collectives, from the ops between them, and from `tandem.split_axes` on arguments and
    results ([frontends.md](../frontends.md) has the rules). Collectives become `fusion.reshard`, `linalg` ops
    `fusion.matmul`, `fusion.reduce`, `fusion.permute`, `fusion.broadcast` and elementwise `arith` and `math`. The grid
    becomes a mesh with the axes "axis0", "axis1", ...

    Modules without a `shard.grid` stay as they are; so do functions whose tensors have axes already.

    Constraints:
    - shard_c1: the sizes of the grid are known, and a function is partitioned over one grid. Option `mesh` gives sizes
      that are `?`.
    - shard_c2: tensors have a rank, elements are of the types of fusions, constants have one value for all elements.
      Extents may be `?`, but not those of loops that become one; nothing but shapes is computed from them.
    - shard_c3: the function has one block. Its ops are `shard.all_gather`, `all_slice`, `all_to_all`, `all_reduce` and
      `reduce_scatter` (sum, max, min; without conversion of elements), structured `linalg` ops with one result,
      elementwise `arith` and `math`, reshapes, and the choice of the initial value that shard-partition writes.
    - shard_c4: along each grid axis, one placement of all values fits all ops.
    - shard_c5: the placement of each argument follows, in the order of its grid axes too. Arguments and results are not
      partial.
    - shard_c6: partial sums that start from a value other than 0 are reduced before any other use.

    Before:
    ```mlir
    shard.grid @tp(shape = 4)
    func.func @f(%x: tensor<8x4xf32>, %w: tensor<4x16xf32>) -> tensor<2x16xf32> {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<8x16xf32>
      %init = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
      %p = linalg.matmul ins(%x, %w : tensor<8x4xf32>, tensor<4x16xf32>) outs(%init : tensor<8x16xf32>) -> tensor<8x16xf32>
      %y = shard.reduce_scatter %p on @tp grid_axes = [0] scatter_axis = 0 : tensor<8x16xf32> -> tensor<2x16xf32>
      return %y : tensor<2x16xf32>
    }
    ```
    After:
    ```mlir
    #tp = #tandem.mesh<"tp", ["axis0" = 4]>
    func.func @f(%x: tensor<8x16xf32, #fusion.axes<#tp, [-, didx("axis0")]>>,
                 %w: tensor<16x16xf32, #fusion.axes<#tp, [didx("axis0"), -]>>)
        -> tensor<8x16xf32, #fusion.axes<#tp, [didx("axis0"), -]>> {
      %p = fusion.matmul %x, %w : ... -> tensor<8x16xf32, #fusion.axes<#tp, [-, -], partial = ["axis0"]>>
      %y = fusion.reshard %p : ... -> tensor<8x16xf32, #fusion.axes<#tp, [didx("axis0"), -]>>
      return %y : ...
    }
    ```
  }];
  let dependentDialects = ["::tandem::fusion::FusionDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
  let options = [
    ListOption<"mesh", "mesh", "std::string", "sizes of grid axes that are `?`: axis0=8, or tp.axis0=8 for grid @tp only">
  ];
  let statistics = [
    Statistic<"numFunctions", "functions", "number of functions converted">
  ];
}

#endif // TANDEM_CONVERSION_SHARDTOFUSION_PASSES_TD
