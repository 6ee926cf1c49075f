//===- Call.cpp - lowering of fusion.call -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A call gets one range of indices of each parallel dimension, and where it begins in the logical
// tensor. Where a slice is several ranges, it is a loop of calls.
//
//===----------------------------------------------------------------------===//

#include "../OpLowering.h"

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Dialect/HostIR/IR/HostIRUtils.h"
#include "tandem/Support/VaryingAttrs.h"

using namespace mlir;
using namespace tandem;

namespace {

/// A digit of a parallel dimension in one slice.
struct Part {
  SliceDigit digit;
  bool isLooped = false; ///< kept, but one index per call
};

class CallLowering : public OpLowering {
  LogicalResult emit(Operation *op, const SliceIndex *index, Value stream,
                     LoopEmitter &loop) const override;
};

} // namespace

/// The digits of a dimension, outermost first, device digits with their index. Kept ones outside of
/// a gap are looped over. `streams`: as of getSliceDigits.
static FailureOr<SmallVector<Part>> getParts(ProgramBuilder &program, fusion::AxesAttr axes,
                                             unsigned dim, int64_t extent,
                                             ArrayRef<SmallVector<IndexPart>> &streams) {
  auto digits = getSliceDigits(axes.getDims()[dim], extent, axes.getMesh(), streams);
  if (failed(digits))
    return failure();
  SmallVector<Part> parts;
  for (SliceDigit &digit : *digits) {
    if (digit.axis)
      digit.local.index = program.getDeviceIndex(axes.getMesh(), digit.axis);
    parts.push_back({digit});
  }
  bool hasGap = false;
  for (Part &part : llvm::reverse(parts)) {
    const LocalDigit &local = part.digit.local;
    part.isLooped = local.isKept() && hasGap;
    hasGap |= local.size > 1 && local.index;
  }
  return parts;
}

LogicalResult CallLowering::emit(Operation *op, const SliceIndex *index, Value stream,
                                 LoopEmitter &loop) const {
  auto call = cast<fusion::CallOp>(op);
  ProgramBuilder &program = loop.program;
  OpBuilder &builder = loop.getBuilder();
  Location loc = op->getLoc();
  auto type = cast<RankedTensorType>(call.getOutputs().front().getType());
  SmallVector<SmallVector<int64_t>> numbers = *call.getParallelDims();
  // All results have the same parallel dimensions; another one may make one of them empty.
  if (llvm::all_of(call.getOutputs(), [](Value output) {
        return llvm::is_contained(cast<RankedTensorType>(output.getType()).getShape(), 0);
      })) {
    if (call.isOrdered())
      return op->emitError("expected a result with elements, whose kernel writes memory of its "
                           "own, found an extent of 0 in each");
    return success();
  }

  // By parallel dimension; the results have the same ones, with the same digits.
  ArrayRef<SmallVector<IndexPart>> streams;
  if (index)
    streams = index->digits;
  SmallVector<SmallVector<Part>> parts;
  SmallVector<int64_t> sizes;
  SmallVector<int64_t> whole; // extents
  int64_t runs = 1;
  for (auto [dim, extent] : llvm::enumerate(type.getShape())) {
    if (numbers.front()[dim] < 0)
      continue;
    auto mine = getParts(program, fusion::getAxes(type), dim, extent, streams);
    if (failed(mine))
      return op->emitError("expected digits that fit dimension ") << dim;
    parts.push_back(std::move(*mine));
    whole.push_back(extent);
  }
  for (const SmallVector<Part> &mine : parts)
    for (const Part &part : mine)
      if (part.isLooped) {
        sizes.push_back(part.digit.local.numKept());
        runs *= sizes.back();
      }
  if (call.isOrdered() && runs != 1)
    return op->emitError("expected one range of indices on a device, for a kernel that writes "
                         "memory of its own, found ")
           << runs;

  return program.loop(loc, 0, runs, [&](Value run) -> LogicalResult {
    hostir::IndexBuilder math = program.math(loc);
    SliceIndex of = getSliceIndex(builder, loc, sizes, run);
    size_t next = 0;
    LocalDims parallel;
    SmallVector<Value> offsets;
    for (ArrayRef<Part> mine : parts) {
      Value offset;
      SmallVector<SliceDigit> digits;
      for (const auto &[digit, isLooped] : mine) {
        LocalDigit &local = digits.emplace_back(digit).local;
        Value begin = local.chunk ? math.mul(local.index, local.chunk) : local.index;
        if (isLooped) {
          begin = math.add(begin, of.digits[next++].front().value);
          local = {local.size, begin};
        }
        if (begin)
          offset = math.add(offset, math.mul(begin, digit.stride));
      }
      parallel.push_back(getLocalDigits(digits));
      offsets.push_back(offset ? offset : program.getIndex(0));
    }
    auto getView = [&](Value tensor, Value buffer, ArrayRef<int64_t> mine) {
      LocalDims dims = getLocalDims(cast<RankedTensorType>(tensor.getType()), nullptr);
      for (auto [digits, number] : llvm::zip_equal(dims, mine))
        if (number >= 0)
          digits = parallel[number];
      return makeView(builder, loc, buffer, dims, /*keepRank=*/true);
    };

    // Kernels that take dense buffers only get copies.
    auto needsCopy = [&](Value view) {
      return !call.getStrided() && !hostir::isDense(cast<MemRefType>(view.getType()));
    };
    auto allocLike = [&](Value view) { return hostir::allocLike(builder, loc, view, stream); };
    ArrayRef<SmallVector<int64_t>> ofResults = numbers, ofOperands = numbers;
    ofResults = ofResults.take_front(call.getNumResults());
    ofOperands = ofOperands.drop_front(call.getNumResults());
    SmallVector<Value> outs, outputs;
    for (auto [result, mine] : llvm::zip_equal(call.getOutputs(), ofResults)) {
      outs.push_back(getView(result, program.getOrAllocBuffer(result), mine));
      outputs.push_back(needsCopy(outs.back()) ? allocLike(outs.back()) : outs.back());
    }
    SmallVector<Value> inputs;
    for (auto [operand, mine] : llvm::zip_equal(call.getInputs(), ofOperands)) {
      Value view = getView(operand, program.getBuffer(operand), mine);
      if (needsCopy(view)) {
        Value dense = allocLike(view);
        hostir::CopyOp::create(builder, loc, view, dense, stream);
        view = dense;
      }
      inputs.push_back(view);
    }
    SmallVector<int64_t> flat;
    for (ArrayRef<int64_t> mine : numbers)
      llvm::append_range(flat, mine);
    auto made = hostir::CallOp::create(
        builder, loc, builder.getStringAttr(call.getCallee()), inputs, outputs,
        builder.getDenseI64ArrayAttr(flat), offsets, builder.getDenseI64ArrayAttr(whole), stream,
        call.getConfigAttr(), call.getFlopsAttr(), call.getBytesAttr(), call.getStridedAttr(),
        call.getEffectsAttr());
    if (Attribute varying = call->getAttr(fusion::kVaryingAttrName))
      made->setAttr(hostir::kVaryingAttrName, varying);
    for (auto [out, output] : llvm::zip_equal(outs, outputs))
      if (output != out)
        hostir::CopyOp::create(builder, loc, output, out, stream);
    return success();
  });
}

void tandem::addCallLowering(OpLowerings &lowerings) {
  lowerings.add<fusion::CallOp>(std::make_unique<CallLowering>());
}
