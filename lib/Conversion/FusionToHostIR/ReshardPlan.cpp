//===- ReshardPlan.cpp - what one slice of a reshard is -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReshardPlan.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace mlir::tandem;
using fusion::DigitKind;

namespace {

/// A digit of one side while both sides are cut to common sizes. Stream digits of the target carry their number and value.
struct Side {
  int64_t size = 1;
  DigitKind kind = DigitKind::Serial;
  StringAttr axis = {};
  size_t stream = 0;
  int64_t outer = 1, inner = 1; // indices of the same stream digit outside and inside of this piece
  Value value = {};
};

/// A digit that both sides have, and what it is on each.
struct Common {
  int64_t dim;
  Side source, target;
};

class Planner {
public:
  Planner(fusion::ReshardOp op, const SliceIndex &index, OpBuilder *builder,
          function_ref<InFlightDiagnostic()> emitError)
      : op(op), index(index), builder(builder), emitError(emitError),
        sourceType(op.getInput().getType()), targetType(op.getResult().getType()),
        sourceAxes(fusion::getAxes(sourceType)), targetAxes(fusion::getAxes(targetType)) {}

  FailureOr<ReshardPlan> plan();

private:
  LogicalResult align(int64_t dim);
  FailureOr<Side> cut(Side &side, int64_t size, int64_t dim);
  LogicalResult classify();
  void fillDims();

  fusion::ReshardOp op;
  const SliceIndex &index;
  OpBuilder *builder;
  function_ref<InFlightDiagnostic()> emitError;
  RankedTensorType sourceType, targetType;
  fusion::AxesAttr sourceAxes, targetAxes;
  size_t nextStream = 0;
  SmallVector<Common> digits;
  ReshardPlan result;
};

} // namespace

/// Cuts the outermost `size` indices off `side`: returns them, leaves the rest.
FailureOr<Side> Planner::cut(Side &side, int64_t size, int64_t dim) {
  Side outer = side;
  outer.size = size;
  if (side.size == size) {
    side.size = 1;
    return outer;
  }
  if (side.kind == DigitKind::Device) {
    emitError() << "dimension " << dim << ": mesh axis \"" << side.axis.getValue() << "\" of size "
                << side.size << " meets a digit of " << size
                << " on the other side; digits must divide each other without cutting a mesh axis";
    return failure();
  }
  int64_t inner = side.size / size;
  outer.inner *= inner;
  side.outer *= size;
  side.size = inner;
  if (side.value) {
    Value divisor = arith::ConstantIndexOp::create(*builder, op.getLoc(), inner);
    outer.value = arith::DivUIOp::create(*builder, op.getLoc(), outer.value, divisor);
    side.value = arith::RemUIOp::create(*builder, op.getLoc(), side.value, divisor);
  }
  return outer;
}

/// Cuts both sides of one dimension into digits of common sizes, outermost first.
LogicalResult Planner::align(int64_t dim) {
  auto source = fusion::resolveDim(sourceAxes.getDims()[dim], sourceType.getDimSize(dim),
                                   sourceAxes.getMesh());
  auto target = fusion::resolveDim(targetAxes.getDims()[dim], targetType.getDimSize(dim),
                                   targetAxes.getMesh());
  if (failed(source) || failed(target))
    return emitError() << "dimension " << dim << ": extents must be known here; run "
                       << "fusion-specialize first";

  // Stream digits of the source say how it was made, not where it is.
  SmallVector<Side> from, to;
  for (const fusion::ResolvedDigit &digit : *source)
    from.push_back({digit.size, digit.kind == DigitKind::Device ? DigitKind::Device
                                                                : DigitKind::Serial,
                    digit.axis});
  for (const fusion::ResolvedDigit &digit : *target) {
    if (digit.kind != DigitKind::Stream) {
      to.push_back({digit.size, digit.kind, digit.axis});
      continue;
    }
    int64_t outer = 1;
    for (const IndexPart &part : index.digits[nextStream]) {
      int64_t inner = digit.size / outer / part.size;
      to.push_back({part.size, DigitKind::Stream, {}, nextStream, outer, inner, part.value});
      outer *= part.size;
    }
    ++nextStream;
  }

  size_t i = 0, j = 0;
  while (true) {
    while (i < from.size() && from[i].size == 1 && from[i].kind == DigitKind::Serial)
      ++i;
    while (j < to.size() && to[j].size == 1 && to[j].kind == DigitKind::Serial)
      ++j;
    // A mesh axis of size 1 moves nothing, but it is accounted for like any other, and so is a loop of one iteration.
    if (i < from.size() && from[i].size == 1) {
      Side gone = from[i++];
      bool meets = j < to.size() && to[j].size == 1 &&
                   (to[j].kind == DigitKind::Stream || to[j].axis == gone.axis);
      digits.push_back({dim, gone, meets ? to[j++] : Side()});
      continue;
    }
    if (j < to.size() && to[j].size == 1) {
      digits.push_back({dim, Side(), to[j++]});
      continue;
    }
    if (i == from.size() || j == to.size())
      break;
    int64_t size = std::min(from[i].size, to[j].size);
    if (from[i].size % size || to[j].size % size)
      return emitError() << "dimension " << dim << ": digits of " << from[i].size << " and "
                         << to[j].size << " do not divide each other";
    FailureOr<Side> a = cut(from[i], size, dim);
    if (failed(a))
      return failure();
    FailureOr<Side> b = cut(to[j], size, dim);
    if (failed(b))
      return failure();
    digits.push_back({dim, *a, *b});
    // What is used up must not be taken for a digit of size 1.
    if (from[i].size == 1)
      ++i;
    if (to[j].size == 1)
      ++j;
  }
  return success();
}

/// What is done along which mesh axis.
LogicalResult Planner::classify() {
  SmallVector<Common *> gathered, scattered, owned;
  for (Common &digit : digits) {
    bool fromDevice = digit.source.kind == DigitKind::Device;
    bool toDevice = digit.target.kind == DigitKind::Device;
    if (fromDevice && toDevice && digit.source.axis != digit.target.axis)
      return emitError() << "dimension " << digit.dim << ": moving from mesh axis \""
                         << digit.source.axis.getValue() << "\" to mesh axis \""
                         << digit.target.axis.getValue() << "\" is not lowered yet";
    if (fromDevice && digit.target.kind == DigitKind::Serial)
      gathered.push_back(&digit);
    else if (fromDevice && digit.target.kind == DigitKind::Stream)
      owned.push_back(&digit);
    else if (toDevice && !fromDevice)
      scattered.push_back(&digit);
  }
  SmallVector<StringAttr> reduced;
  for (StringAttr axis : sourceAxes.getPartial())
    if (!llvm::is_contained(targetAxes.getPartial(), axis))
      reduced.push_back(axis);

  llvm::SmallSetVector<StringAttr, 4> axes(reduced.begin(), reduced.end());
  for (Common *digit : gathered)
    axes.insert(digit->source.axis);
  for (Common *digit : owned)
    axes.insert(digit->source.axis);
  for (Common *digit : scattered)
    axes.insert(digit->target.axis);
  if (axes.empty())
    return success();
  if (axes.size() > 1) {
    InFlightDiagnostic diag = emitError();
    diag << "a reshard over several mesh axes at once is not lowered yet, found ";
    llvm::interleaveComma(axes, diag, [&](StringAttr a) { diag << '"' << a.getValue() << '"'; });
    return diag << "; write one reshard for each";
  }

  result.axis = axes.front();
  result.reduction = sourceAxes.getPartialKind();
  if (!reduced.empty())
    result.kind = scattered.empty() ? ReshardKind::AllReduce : ReshardKind::ReduceScatter;
  else if (!owned.empty())
    result.kind = ReshardKind::OwnerMoves;
  else if (gathered.empty())
    result.kind = ReshardKind::LocalSlice;
  else
    result.kind = scattered.empty() ? ReshardKind::AllGather : ReshardKind::AllToAll;
  if (!owned.empty() && !scattered.empty())
    return emitError() << "mesh axis \"" << result.axis.getValue()
                       << "\": a slice that one device owns is split again over the same axis, "
                          "which is not lowered yet";
  if (!owned.empty()) {
    const Side &stream = owned.front()->target;
    result.owner = stream.value;
    result.ownerDigit = stream.stream;
    result.ownerOuter = stream.outer;
    result.ownerInner = stream.inner;
  }
  return success();
}

/// Each side's local digits. Labels number the common digits, so that both sides cut into the same pieces.
void Planner::fillDims() {
  result.source.resize(sourceType.getRank());
  result.target.resize(targetType.getRank());
  for (auto [number, digit] : llvm::enumerate(digits)) {
    int64_t label = static_cast<int64_t>(number);
    const Side &source = digit.source, &target = digit.target;
    bool fromDevice = source.kind == DigitKind::Device;
    bool toDevice = target.kind == DigitKind::Device;
    if (!fromDevice) {
      int64_t sourceLabel = label;
      if (toDevice)
        sourceLabel = result.kind == ReshardKind::LocalSlice ? kDeviceLabel : kFrontLabel;
      result.source[digit.dim].push_back({source.size, target.value, sourceLabel});
    }
    if (!toDevice)
      result.target[digit.dim].push_back(
          {target.size, target.value,
           fromDevice && target.kind == DigitKind::Serial ? kFrontLabel : label});
  }
}

FailureOr<ReshardPlan> Planner::plan() {
  if (sourceAxes.getMesh() != targetAxes.getMesh()) {
    emitError() << "a reshard from mesh @" << sourceAxes.getMesh().getName().getValue()
                << " to mesh @" << targetAxes.getMesh().getName().getValue()
                << " is not lowered yet";
    return failure();
  }
  result.mesh = targetAxes.getMesh();
  for (int64_t dim = 0; dim < targetType.getRank(); ++dim)
    if (failed(align(dim)))
      return failure();
  if (failed(classify()))
    return failure();
  fillDims();
  return result;
}

FailureOr<ReshardPlan> tandem::planReshard(fusion::ReshardOp op, const SliceIndex &index,
                                           OpBuilder *builder,
                                           function_ref<InFlightDiagnostic()> emitError) {
  return Planner(op, index, builder, emitError).plan();
}

SliceIndex tandem::getSymbolicIndex(ArrayRef<int64_t> sizes) {
  SliceIndex index;
  for (int64_t size : sizes)
    index.digits.push_back({{size, {}}});
  return index;
}
