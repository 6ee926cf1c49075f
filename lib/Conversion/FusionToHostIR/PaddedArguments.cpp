//===- PaddedArguments.cpp - arguments of padded extents --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PaddedArguments.h"

#include "OpLowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

namespace {
/// Emits code for each shape that the devices hold of a padded tensor.
class ValidShapes {
public:
  ValidShapes(ProgramBuilder &program, Location loc, RankedTensorType type,
              ArrayRef<int64_t> extents)
      : program(program), builder(program.getBuilder()), loc(loc), type(type), extents(extents),
        mesh(fusion::getAxes(type).getMesh()) {}

  /// `body` gets the extents that the device holds.
  void forEach(function_ref<void(ArrayRef<int64_t>)> body) {
    SmallVector<int64_t> shape;
    program.onMesh(loc, mesh, [&] { fill(shape, body); });
  }

private:
  /// Devices of a dimension in the order of its digits, up to `end`, that hold `count` indices.
  struct Run {
    int64_t end, count;
  };
  SmallVector<StringAttr> getAxes(int64_t dim) const;
  SmallVector<Run> getRuns(int64_t dim) const;
  void fill(SmallVector<int64_t> &shape, function_ref<void(ArrayRef<int64_t>)> body);

  ProgramBuilder &program;
  OpBuilder &builder;
  Location loc;
  RankedTensorType type;
  ArrayRef<int64_t> extents;
  MeshAttr mesh;
};
} // namespace

SmallVector<StringAttr> ValidShapes::getAxes(int64_t dim) const {
  SmallVector<StringAttr> axes;
  for (const fusion::Digit &digit : fusion::getAxes(type).getDims()[dim].getDigits())
    if (digit.isDevice())
      axes.push_back(digit.axis);
  return axes;
}

/// Later devices hold as much or less.
SmallVector<ValidShapes::Run> ValidShapes::getRuns(int64_t dim) const {
  SmallVector<StringAttr> axes = getAxes(dim);
  int64_t devices = 1;
  for (StringAttr axis : axes)
    devices *= mesh.axisSize(axis.getValue());
  SmallVector<Run> runs;
  for (int64_t device = 0; device < devices; ++device) {
    // The first device with these coordinates.
    int64_t rest = device, position = 0;
    SmallVector<int64_t> coordinates(mesh.getAxes().size(), 0);
    for (StringAttr axis : llvm::reverse(axes)) {
      coordinates[mesh.axisIndex(axis.getValue())] = rest % mesh.axisSize(axis.getValue());
      rest /= mesh.axisSize(axis.getValue());
    }
    for (auto [axis, coordinate] : llvm::zip_equal(mesh.getAxes(), coordinates))
      position = position * axis.size + coordinate;
    int64_t count = (*fusion::getValidShape(type, extents, position))[dim];
    if (runs.empty() || runs.back().count != count)
      runs.push_back({device, count});
    runs.back().end = device + 1;
  }
  return runs;
}

/// Emits the conditions of the dimensions after `shape`.
void ValidShapes::fill(SmallVector<int64_t> &shape, function_ref<void(ArrayRef<int64_t>)> body) {
  auto dim = static_cast<int64_t>(shape.size());
  if (dim == type.getRank())
    return body(shape);
  SmallVector<Run> runs = getRuns(dim);
  std::function<LogicalResult(ArrayRef<Run>)> emit = [&](ArrayRef<Run> left) -> LogicalResult {
    auto with = [&](int64_t count) {
      shape.push_back(count);
      fill(shape, body);
      shape.pop_back();
      return success();
    };
    if (left.size() == 1)
      return with(left.front().count);
    Value position = program.getGroupPosition(loc, mesh, getAxes(dim));
    Value isIn = program.math(loc).isLess(position, left.front().end);
    return ifFirst(
        builder, loc, {false, isIn}, [&] { return with(left.front().count); },
        [&] { return emit(left.drop_front()); });
  };
  (void)emit(runs);
}

static Value takeBox(OpBuilder &builder, Location loc, Value buffer, ArrayRef<int64_t> offsets,
                     ArrayRef<int64_t> sizes) {
  SmallVector<int64_t> ones(sizes.size(), 1);
  return memref::SubViewOp::create(builder, loc, buffer, offsets, sizes, ones);
}

/// The embedder's buffer of a device that holds the extents `shape`, and that part of `padded`;
/// null if it holds nothing.
static std::pair<Value, Value> getParts(OpBuilder &builder, Location loc, Value argument,
                                        Value padded, ArrayRef<int64_t> shape) {
  if (llvm::is_contained(shape, 0))
    return {};
  SmallVector<int64_t> zeros(shape.size(), 0);
  return {reinterpret(builder, loc, argument, 0, shape, computeStrides(shape)),
          takeBox(builder, loc, padded, zeros, shape)};
}

Value tandem::emitPadding(ProgramBuilder &program, Location loc, RankedTensorType type,
                          ArrayRef<int64_t> extents, Value argument) {
  OpBuilder &builder = program.getBuilder();
  SmallVector<int64_t> local = *fusion::getLocalShape(type);
  Type element = type.getElementType();
  Value padded = program.alloc(loc, MemRefType::get(local, element));
  ValidShapes(program, loc, type, extents).forEach([&](ArrayRef<int64_t> shape) {
    Value stream = program.getMainStream();
    if (auto [from, to] = getParts(builder, loc, argument, padded, shape); from)
      hostir::CopyOp::create(builder, loc, from, to, stream);
    // The padding, cut into one box per dimension.
    SmallVector<int64_t> offsets(shape.size(), 0), sizes(local);
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      offsets[dim] = shape[dim];
      sizes[dim] = local[dim] - shape[dim];
      if (!llvm::is_contained(sizes, 0)) {
        std::string key;
        llvm::raw_string_ostream(key) << "padding " << element;
        hostir::KernelOp kernel =
            program.getKernel(loc, key, "padding", {}, element, [&](ValueRange) {
              return arith::ConstantOp::create(builder, loc, builder.getZeroAttr(element));
            });
        program.launch(loc, kernel, {}, takeBox(builder, loc, padded, offsets, sizes), stream);
      }
      offsets[dim] = 0;
      sizes[dim] = shape[dim];
    }
  });
  return padded;
}

void tandem::emitWithoutPadding(ProgramBuilder &program, Location loc, RankedTensorType type,
                                ArrayRef<int64_t> extents, Value padded, Value result) {
  OpBuilder &builder = program.getBuilder();
  ValidShapes(program, loc, type, extents).forEach([&](ArrayRef<int64_t> shape) {
    if (auto [to, from] = getParts(builder, loc, result, padded, shape); to)
      hostir::CopyOp::create(builder, loc, from, to, program.getMainStream());
  });
}
