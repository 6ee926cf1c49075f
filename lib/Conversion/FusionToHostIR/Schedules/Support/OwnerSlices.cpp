//===- OwnerSlices.cpp - slices that one device each owns -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OwnerSlices.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"

using namespace mlir;
using namespace tandem;

OwnerDigits::OwnerDigits(const StreamLoop &loop, size_t digit, int64_t devices, int64_t outer,
                         int64_t inner)
    : streamSizes(loop.streamSizes), digit(digit), devices(devices), outer(outer), inner(inner) {
  for (auto [i, size] : llvm::enumerate(streamSizes)) {
    if (i != digit) {
      otherSizes.push_back(size);
      continue;
    }
    if (outer > 1)
      otherSizes.push_back(outer);
    if (inner > 1)
      otherSizes.push_back(inner);
  }
}

int64_t OwnerDigits::numSlices() const {
  int64_t slices = 1;
  for (int64_t size : otherSizes)
    slices *= size;
  return slices;
}

SliceIndex OwnerDigits::getIndex(OpBuilder &builder, Location loc, Value owner, Value number,
                                 bool isFirst, int64_t count) const {
  SliceIndex others = tandem::getSliceIndex(builder, loc, otherSizes, number);
  SliceIndex index;
  size_t next = 0;
  for (size_t i = 0; i < streamSizes.size(); ++i) {
    SmallVector<IndexPart> &parts = index.digits.emplace_back();
    if (i != digit) {
      parts = others.digits[next++];
      continue;
    }
    if (outer > 1)
      parts.append(others.digits[next++]);
    parts.push_back({devices, owner, isFirst});
    parts.back().count = count;
    if (inner > 1)
      parts.append(others.digits[next++]);
  }
  return index;
}

SliceIndex OwnerDigits::getWhole(OpBuilder &builder, Location loc, Value owner,
                                 bool isFirst) const {
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  SliceIndex index = getIndex(builder, loc, owner, zero, isFirst);
  for (auto [i, parts] : llvm::enumerate(index.digits))
    if (i != digit)
      parts.front() = {parts.front().size, zero, isFirst, /*isShort=*/false, parts.front().size};
  return index;
}

StringAttr tandem::findCopiedSum(Operation *op, ArrayRef<StringAttr> axes) {
  std::optional<fusion::AxesRule> rule = fusion::getAxesRule(op);
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (!rule || !rule->addsUp() || type.getElementType().isInteger())
    return {};
  fusion::AxesAttr result = fusion::getAxes(type);
  const auto *copied = llvm::find_if(axes, [&](StringAttr axis) {
    return result.getMesh().axisSize(axis) > 1 && result.dimOfDeviceAxis(axis) < 0 &&
           !llvm::is_contained(result.getPartial(), axis);
  });
  return copied == axes.end() ? StringAttr() : *copied;
}

Obstacle tandem::verifyMerge(const StreamLoop &loop, const OwnerDigits &digits,
                             ArrayRef<StringAttr> axes) {
  StringRef name = loop.schedule.getName();
  if (digits.numSlices() != 1)
    return loop.explain() << "schedule " << name
                          << ": expected one slice per device with 'merge', found "
                          << digits.numSlices();
  if (!loop.digitMaps.empty())
    return loop.explain()
           << "schedule " << name
           << ": 'merge' takes slices of one stream digit, found an op of the loop whose "
              "result has others";
  for (Operation *op : loop.ops)
    if (StringAttr axis = findCopiedSum(op, axes))
      return loop.explain()
             << "schedule " << name
             << ": 'merge' takes matmuls whose results differ between the devices along " << axis
             << ", found a result that is replicated there, whose copies could "
             << "differ in rounding";
  return std::nullopt;
}

Value OwnerDigits::getIteration(ProgramBuilder &program, Location loc, Value step,
                                Value number) const {
  if (numSlices() == 1)
    return step;
  return program.math(loc).linear(step, numSlices(), number);
}

LogicalResult OwnerDigits::forEachSlice(LoopEmitter &body, Location loc, Value owner, bool isFirst,
                                        SliceNumbers numbers, StreamFn getStream,
                                        TransferFn emit) const {
  auto [first, end] = numbers.of(*this);
  return body.program.loop(loc, first, end, [&](Value number) {
    Value stream = getStream ? getStream(number) : body.program.getMainStream();
    SliceIndex index = getIndex(body.getBuilder(), loc, owner, number, isFirst);
    return body.forEachShape(loc, index,
                             [&](const SliceIndex &slice) { return emit(number, slice, stream); });
  });
}
