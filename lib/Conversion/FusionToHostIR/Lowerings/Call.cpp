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

/// The same for the parallel dimensions of a call, by their numbers. All results have them, with
/// the same digits.
static FailureOr<SmallVector<SmallVector<Part>>> getParts(ProgramBuilder &program,
                                                          fusion::CallOp call,
                                                          const SliceIndex *index,
                                                          SmallVectorImpl<int64_t> &extents) {
  auto type = cast<RankedTensorType>(call.getOutputs().front().getType());
  SmallVector<SmallVector<int64_t>> numbers = *call.getParallelDims();
  ArrayRef<SmallVector<IndexPart>> streams;
  if (index)
    streams = index->digits;
  SmallVector<SmallVector<Part>> parts;
  for (auto [dim, extent] : llvm::enumerate(type.getShape())) {
    if (numbers.front()[dim] < 0)
      continue;
    auto mine = getParts(program, fusion::getAxes(type), dim, extent, streams);
    if (failed(mine))
      return call.emitError("expected digits that fit dimension ") << dim;
    parts.push_back(std::move(*mine));
    extents.push_back(extent);
  }
  return parts;
}

namespace {

/// The range of indices of each parallel dimension that one call gets.
struct CallRange {
  LocalDims dims;
  SmallVector<Value> offsets; ///< where it begins in the logical tensor
};

} // namespace

/// `looped`: the indices of the digits that are looped over.
static CallRange getRange(ProgramBuilder &program, Location loc, ArrayRef<SmallVector<Part>> parts,
                          const SliceIndex &looped) {
  hostir::IndexBuilder math = program.math(loc);
  size_t next = 0;
  CallRange range;
  for (ArrayRef<Part> mine : parts) {
    Value offset;
    SmallVector<SliceDigit> digits;
    for (const auto &[digit, isLooped] : mine) {
      LocalDigit &local = digits.emplace_back(digit).local;
      Value begin = local.chunk ? math.mul(local.index, local.chunk) : local.index;
      if (isLooped) {
        begin = math.add(begin, looped.digits[next++].front().value);
        local = {local.size, begin};
      }
      if (begin)
        offset = math.add(offset, math.mul(begin, digit.stride));
    }
    range.dims.push_back(getLocalDigits(digits));
    range.offsets.push_back(offset ? offset : program.getIndex(0));
  }
  return range;
}

/// Emits the call for one range of each parallel dimension. `extents`: of these dimensions.
static void emitKernelCall(fusion::CallOp call, ProgramBuilder &program, const CallRange &range,
                           ArrayRef<int64_t> extents, Value stream) {
  OpBuilder &builder = program.getBuilder();
  Location loc = call.getLoc();
  SmallVector<SmallVector<int64_t>> numbers = *call.getParallelDims();
  auto getView = [&](Value tensor, Value buffer, ArrayRef<int64_t> mine) {
    LocalDims dims = getLocalDims(cast<RankedTensorType>(tensor.getType()), nullptr);
    for (auto [digits, number] : llvm::zip_equal(dims, mine))
      if (number >= 0)
        digits = range.dims[number];
    return makeView(builder, loc, buffer, dims, /*keepRank=*/true);
  };
  // Kernels that take dense buffers only get copies.
  auto makeDense = [&](Value view) {
    bool isTaken = call.getStrided() || hostir::isDense(cast<MemRefType>(view.getType()));
    return isTaken ? view : hostir::allocLike(builder, loc, view, stream);
  };
  ArrayRef<SmallVector<int64_t>> ofResults = numbers, ofOperands = numbers;
  ofResults = ofResults.take_front(call.getNumResults());
  ofOperands = ofOperands.drop_front(call.getNumResults());
  SmallVector<Value> outs, outputs, inputs;
  for (auto [result, mine] : llvm::zip_equal(call.getOutputs(), ofResults)) {
    outs.push_back(getView(result, program.getOrAllocBuffer(result), mine));
    outputs.push_back(makeDense(outs.back()));
  }
  for (auto [operand, mine] : llvm::zip_equal(call.getInputs(), ofOperands)) {
    Value view = getView(operand, program.getBuffer(operand), mine);
    inputs.push_back(makeDense(view));
    if (inputs.back() != view)
      hostir::CopyOp::create(builder, loc, view, inputs.back(), stream);
  }
  SmallVector<int64_t> flat;
  for (ArrayRef<int64_t> mine : numbers)
    llvm::append_range(flat, mine);
  auto made = hostir::CallOp::create(builder, loc, builder.getStringAttr(call.getCallee()), inputs,
                                     outputs, builder.getDenseI64ArrayAttr(flat), range.offsets,
                                     builder.getDenseI64ArrayAttr(extents), stream,
                                     call.getConfigAttr(), call.getFlopsAttr(), call.getBytesAttr(),
                                     call.getStridedAttr(), call.getEffectsAttr());
  if (Attribute varying = call->getAttr(fusion::kVaryingAttrName))
    made->setAttr(hostir::kVaryingAttrName, varying);
  for (auto [out, output] : llvm::zip_equal(outs, outputs))
    if (output != out)
      hostir::CopyOp::create(builder, loc, output, out, stream);
}

LogicalResult CallLowering::emit(Operation *op, const SliceIndex *index, Value stream,
                                 LoopEmitter &loop) const {
  auto call = cast<fusion::CallOp>(op);
  ProgramBuilder &program = loop.program;
  Location loc = op->getLoc();
  // All results have the same parallel dimensions; another one may make one of them empty.
  if (llvm::all_of(call.getOutputs(), [](Value output) {
        return llvm::is_contained(cast<RankedTensorType>(output.getType()).getShape(), 0);
      })) {
    if (call.isOrdered())
      return op->emitError("expected a result with elements, whose kernel writes memory of its "
                           "own, found an extent of 0 in each");
    return success();
  }
  SmallVector<int64_t> extents, sizes;
  FailureOr<SmallVector<SmallVector<Part>>> parts = getParts(program, call, index, extents);
  if (failed(parts))
    return failure();
  for (const SmallVector<Part> &mine : *parts)
    for (const Part &part : mine)
      if (part.isLooped)
        sizes.push_back(part.digit.local.numKept());
  int64_t runs = llvm::product_of(sizes);
  if (call.isOrdered() && runs != 1)
    return op->emitError("expected one range of indices on a device, for a kernel that writes "
                         "memory of its own, found ")
           << runs;
  return program.loop(loc, 0, runs, [&](Value run) -> LogicalResult {
    SliceIndex looped = getSliceIndex(program.getBuilder(), loc, sizes, run);
    emitKernelCall(call, program, getRange(program, loc, *parts, looped), extents, stream);
    return success();
  });
}

void tandem::attachCallLowering(MLIRContext &context) {
  attachLowering<fusion::CallOp, CallLowering>(context);
}
