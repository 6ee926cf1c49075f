//===- Arguments.cpp - arguments and where their pieces lie -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arguments.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/VaryingAttrs.h"

using namespace mlir;

namespace tandem::target {

/// The axes for display: the dimensions between the attribute's outer brackets, without the mesh.
static std::string axesText(fusion::AxesAttr axes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[';
  llvm::interleaveComma(axes.getDims(), os, [&](fusion::DimAxesAttr dim) {
    if (dim.getDigits().empty())
      os << '-';
    llvm::interleave(
        dim.getDigits(), os,
        [&](const fusion::Digit &digit) {
          if (digit.isDevice())
            os << "didx(\"" << digit.axis.strref() << "\")";
          else if (digit.isRest())
            os << "stream";
          else
            os << (digit.isStream() ? "stream(" : "serial(") << digit.size << ')';
        },
        " * ");
  });
  os << ']';
  return text;
}

static std::string meshText(MeshAttr mesh) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '@' << mesh.getName().strref() << '[';
  llvm::interleaveComma(mesh.getAxes(), os, [&](const MeshAxis &axis) {
    os << '"' << axis.name.strref() << "\" = " << axis.size;
  });
  os << ']';
  return text;
}

/// Sets what follows from the axes of `info.type`.
static void describeAxes(ArgumentInfo &info, uint32_t numRanks) {
  fusion::AxesAttr axes = fusion::getAxes(info.type);
  info.axes = axesText(axes);
  info.mesh = meshText(axes.getMesh());
  info.isPartial = axes.isPartial();
  info.partialOp = static_cast<sp::ReduceOp>(axes.getPartialKind());
  for (StringAttr axis : axes.getPartial())
    info.partialTerms *= axes.getMesh().axisSize(axis);
  // A lookup in a device list is linear, so tabulate the positions.
  info.positions.assign(numRanks, -1);
  for (int64_t p = 0, e = axes.getMesh().numDevices(); p < e; ++p)
    info.positions[axes.getMesh().worldRank(p)] = static_cast<int32_t>(p);
}

/// A part of argument `number`, the program's result number `place`.
static FailureOr<ArgumentInfo> readPart(hostir::ProgramOp program, unsigned number,
                                        DictionaryAttr part, unsigned place, uint32_t numRanks) {
  ArgumentInfo info;
  info.isResult = true;
  auto name = part.getAs<StringAttr>(hostir::kNameAttrName);
  info.name = name ? name.str() : ("res" + Twine(place)).str();
  info.type = cast<RankedTensorType>(part.getAs<TypeAttr>(hostir::kTypeAttrName).getValue());
  info.dtype = *dtypeOf(info.type.getElementType());
  info.shape.assign(info.type.getShape().begin(), info.type.getShape().end());
  info.localShape = info.shape;
  if (!fusion::getAxes(info.type)) {
    info.type = nullptr;
    return info;
  }
  describeAxes(info, numRanks);
  FailureOr<SmallVector<int64_t>> local = fusion::getValidShape(info.type, info.shape, 0);
  if (failed(local))
    return program.emitOpError("argument ")
           << number << ": expected a part with a local shape, found " << info.type;
  info.localShape.assign(local->begin(), local->end());
  return info;
}

FailureOr<std::vector<ArgumentInfo>> readArguments(hostir::ProgramOp program, uint32_t numRanks) {
  std::vector<ArgumentInfo> result;
  unsigned inputs = 0, results = 0;
  for (BlockArgument arg : program.getBody().getArguments()) {
    unsigned number = arg.getArgNumber();
    auto memref = cast<MemRefType>(arg.getType());
    if (auto parts = program.getArgAttrOfType<ArrayAttr>(number, hostir::kPartsAttrName)) {
      for (auto part : parts.getAsRange<DictionaryAttr>()) {
        FailureOr<ArgumentInfo> info = readPart(program, number, part, results++, numRanks);
        if (failed(info))
          return failure();
        result.push_back(std::move(*info));
      }
      continue;
    }
    ArgumentInfo info;
    info.isResult = bool(program.getArgAttr(number, hostir::kResultAttrName));
    if (results > 0 && !info.isResult)
      return program.emitOpError("argument ") << number << ": an input follows a result";
    unsigned place = info.isResult ? results++ : inputs++;
    StringAttr name = program.getArgAttrOfType<StringAttr>(number, hostir::kNameAttrName);
    info.name = name ? name.str() : ((info.isResult ? "res" : "arg") + Twine(place)).str();
    info.dtype = *dtypeOf(memref.getElementType());
    info.localShape.assign(memref.getShape().begin(), memref.getShape().end());
    info.shape = info.localShape;
    if (auto type = program.getArgAttrOfType<TypeAttr>(number, hostir::kTypeAttrName)) {
      info.type = dyn_cast<RankedTensorType>(type.getValue());
      if (!info.type || !info.type.hasStaticShape() ||
          dtypeOf(info.type.getElementType()) != info.dtype)
        return program.emitOpError("argument ")
               << number << ": expected " << hostir::kTypeAttrName
               << " to be a tensor of static shape and of the argument's element type, found "
               << type.getValue();
      info.shape.assign(info.type.getShape().begin(), info.type.getShape().end());
      if (auto extents =
              program.getArgAttrOfType<DenseI64ArrayAttr>(number, hostir::kExtentsAttrName))
        info.shape.assign(extents.asArrayRef().begin(), extents.asArrayRef().end());
    }
    if (auto dims = program.getArgAttrOfType<DenseI64ArrayAttr>(number, hostir::kVaryingAttrName))
      for (int64_t dim : dims.asArrayRef())
        info.varying.push_back(static_cast<uint32_t>(dim));
    info.isMask = bool(program.getArgAttr(number, hostir::kMaskAttrName));
    if (info.type && fusion::getAxes(info.type)) {
      describeAxes(info, numRanks);
      FailureOr<SmallVector<int64_t>> local = fusion::getValidShape(info.type, info.shape, 0);
      if (failed(local) || ArrayRef<int64_t>(*local) != ArrayRef<int64_t>(info.localShape))
        return program.emitOpError("argument ")
               << number << ": " << memref << " is not the local shape of " << info.type;
    } else if (info.shape != info.localShape) {
      return program.emitOpError("argument ")
             << number << ": " << memref << " is not the shape of " << info.type;
    } else {
      info.type = nullptr;
    }
    result.push_back(std::move(info));
  }
  return result;
}

LogicalResult findShards(hostir::ProgramOp program, ArrayRef<ArgumentInfo> arguments, uint32_t rank,
                         std::vector<ShardInfo> &shards) {
  shards.resize(arguments.size());
  for (auto [number, info] : llvm::enumerate(arguments)) {
    ShardInfo &shard = shards[number];
    shard = ShardInfo();
    shard.localShape = info.localShape;
    auto countBytes = [&, dtype = info.dtype] {
      int64_t bytes = sizeOf(dtype);
      for (int64_t extent : shard.localShape)
        bytes *= extent;
      return bytes;
    };
    shard.bytes = countBytes();
    if (!info.type) {
      shard.walk.shape.assign(info.shape.begin(), info.shape.end());
      shard.walk.strides = computeStrides(info.shape);
      continue;
    }
    int64_t position = info.positions[rank];
    if (position < 0) {
      shard.present = false;
      continue;
    }
    FailureOr<fusion::StridedWalk> walk = fusion::getShard(info.type, info.shape, position);
    FailureOr<SmallVector<int64_t>> valid = fusion::getValidShape(info.type, info.shape, position);
    if (failed(walk) || failed(valid))
      return program.emitOpError("argument ")
             << number << " (\"" << info.name << "\"): expected extents that give rank " << rank
             << " rows of one length, found " << info.axes << " of extents that must be padded";
    // The runtime cuts the last indices off, so one loop over neighbours per dimension must do.
    bool isBlock = ArrayRef<int64_t>(walk->shape) == ArrayRef<int64_t>(*valid);
    int64_t stride = 1; // as in getShard, also of an empty tensor
    for (size_t dim = info.shape.size(); isBlock && dim-- > 0;) {
      isBlock = walk->shape[dim] <= 1 || walk->strides[dim] == stride;
      stride *= std::max<int64_t>(info.shape[dim], 1);
    }
    if (!info.varying.empty() && !isBlock)
      return emitError(program.getLoc()) << "argument " << number << " (\"" << info.name
                                         << "\"): expected one block of each dimension per device, "
                                            "since an extent varies, found "
                                         << info.axes;
    shard.walk = std::move(*walk);
    if (llvm::is_contained(*valid, 0)) // nowhere
      shard.walk.offset = 0;
    shard.localShape.assign(valid->begin(), valid->end());
    shard.bytes = countBytes();
    fusion::AxesAttr axes = fusion::getAxes(info.type);
    SmallVector<int64_t> coordinates = axes.getMesh().coordinates(position);
    for (StringAttr axis : axes.getPartial())
      shard.term =
          shard.term * axes.getMesh().axisSize(axis) + coordinates[axes.getMesh().axisIndex(axis)];
  }
  return success();
}

} // namespace tandem::target
