//===- Layouts.h - the logical tensors of a partitioned function *- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_SHARDTOFUSION_LAYOUTS_H
#define TANDEM_LIB_CONVERSION_SHARDTOFUSION_LAYOUTS_H

#include "Placement.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"

namespace tandem::shardfusion {

/// On an argument or result of a partitioned function: the grid axes that split each dimension, as
/// in `shard.sharding`. Dimensions left out are not split. Example: `[[0], []]`.
inline constexpr llvm::StringLiteral kSplitAxesAttrName = "tandem.split_axes";

using GridAxes = SmallVector<int16_t, 2>;

/// A logical tensor and its placement. Example: a shard of 4x8, split by rows over axis 0 of 2
/// devices: shape 8x8, axes {{0}, {}}.
struct Layout {
  SmallVector<int64_t> shape;
  /// The grid axes that split each dimension, outermost first.
  SmallVector<GridAxes> axes;
  /// The grid axes along which each device has a partial result.
  GridAxes partial;
  ReduceKind kind = ReduceKind::Sum;
};

/// A collective: what it turns into what, along its grid axes, dimension by dimension.
struct Collective {
  Value input;
  GridAxes axes;
  Placement from = Placement::replicated(), to = Placement::replicated();
};

/// `op` as a collective, if it is one that fusion expresses.
std::optional<Collective> getCollective(Operation *op);

/// The mesh of a grid. Null after an error at the grid.
MeshAttr getMesh(mlir::shard::GridOp grid);

/// Which tensors the values of a function are shards of: inferred from its collectives and from
/// annotations.
class Layouts {
public:
  Layouts(mlir::func::FuncOp function, mlir::shard::GridOp grid);
  /// Fails, with an error at the place, if an op is not supported, if the placements of ops
  /// contradict each other, or if that of an argument does not follow.
  LogicalResult infer();

  /// Of a tensor that is no splat.
  const Layout &get(Value value) const { return layouts.find(value)->second; }
  bool has(Value value) const { return layouts.contains(value); }
  /// The same for a returned value, which may be a splat: as annotated, or replicated.
  Layout getReturned(Value value) const;
  MeshAttr getMesh() const { return mesh; }
  /// The tensor type of a layout.
  RankedTensorType getType(const Layout &layout, Type element) const;
  RankedTensorType getType(Value value) const;

private:
  LogicalResult inferAlong(int16_t axis);
  LogicalResult decideArguments(PlacementSolver &solver, int16_t axis);
  LogicalResult readAnnotation(Attribute attr, Value value, Location loc);
  PlacementTable getTable(Operation *op, int16_t axis) const;
  std::string describe(int16_t axis) const;

  mlir::func::FuncOp function;
  mlir::shard::GridOp grid;
  MeshAttr mesh;
  /// Tensors with a layout, in order.
  SmallVector<Value> values;
  DenseMap<Value, Layout> layouts;
  /// What `tandem.split_axes` says of arguments and returned values.
  DenseMap<Value, SmallVector<GridAxes>> annotations;
};

/// Checks an op of a partitioned function by itself: emits an error if it has no counterpart.
LogicalResult verifyConvertible(Operation *op, mlir::shard::GridOp grid);

} // namespace tandem::shardfusion

#endif // TANDEM_LIB_CONVERSION_SHARDTOFUSION_LAYOUTS_H
