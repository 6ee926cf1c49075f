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

/// Emits `body` for each shape that devices hold of a tensor of shape `extents`, padded to `type`.
static void forEachShape(ProgramBuilder &program, Location loc, RankedTensorType type,
                         ArrayRef<int64_t> extents, function_ref<void(ArrayRef<int64_t>)> body) {
  fusion::AxesAttr dims = fusion::getAxes(type);
  MeshAttr mesh = dims.getMesh();
  // Those that split padded dimensions, which later devices hold less of.
  SmallVector<StringAttr> axes;
  int64_t devices = 1;
  for (auto [dim, padded, extent] : llvm::zip_equal(dims.getDims(), type.getShape(), extents))
    for (const fusion::Digit &digit : dim.getDigits())
      if (digit.isDevice() && padded != extent) {
        axes.push_back(digit.axis);
        devices *= mesh.axisSize(digit.axis.getValue());
      }
  SmallVector<SmallVector<int64_t>> shapes(devices);
  for (int64_t position = 0; position < mesh.numDevices(); ++position) {
    SmallVector<int64_t> coordinates = mesh.coordinates(position);
    int64_t device = 0;
    for (StringAttr axis : axes)
      device =
          device * mesh.axisSize(axis.getValue()) + coordinates[mesh.axisIndex(axis.getValue())];
    shapes[device] = *fusion::getValidShape(type, extents, position);
  }
  program.onMesh(loc, mesh, [&] {
    Value position = program.getGroupPosition(loc, mesh, axes);
    std::function<LogicalResult(int64_t)> emit = [&](int64_t first) -> LogicalResult {
      int64_t end = first + 1;
      while (end < devices && shapes[end] == shapes[first])
        ++end;
      auto emitFirst = [&] {
        body(shapes[first]);
        return success();
      };
      if (end == devices)
        return emitFirst();
      return ifFirst(program.getBuilder(), loc, {false, program.math(loc).isLess(position, end)},
                     emitFirst, [&] { return emit(end); });
    };
    (void)emit(0);
  });
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
  forEachShape(program, loc, type, extents, [&](ArrayRef<int64_t> shape) {
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
  forEachShape(program, loc, type, extents, [&](ArrayRef<int64_t> shape) {
    if (auto [to, from] = getParts(builder, loc, result, padded, shape); to)
      hostir::CopyOp::create(builder, loc, from, to, program.getMainStream());
  });
}
