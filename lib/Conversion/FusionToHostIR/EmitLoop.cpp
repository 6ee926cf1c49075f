//===- EmitLoop.cpp - one iteration of a stream loop -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include <functional>

using namespace mlir;
using namespace tandem;

LogicalResult Emitter::forEachShape(Location loc, const StreamGroup &group, const SliceIndex &index,
                                    function_ref<LogicalResult(const SliceIndex &)> body) {
  SliceIndex shaped = index;
  std::function<LogicalResult(ArrayRef<unsigned>)> emit =
      [&](ArrayRef<unsigned> digits) -> LogicalResult {
    if (digits.empty())
      return body(shaped);
    IndexPart &part = shaped.digits[digits.front()].front();
    Value isLast = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, part.value,
                                         getIndex(part.size - 1));
    auto branch = scf::IfOp::create(builder, loc, isLast, /*withElseRegion=*/true);
    LogicalResult done = success();
    for (bool isShort : {true, false}) {
      OpBuilder::InsertionGuard guard(builder);
      Block *block = isShort ? branch.thenBlock() : branch.elseBlock();
      builder.setInsertionPoint(block->getTerminator());
      part.isShort = isShort;
      if (failed(emit(digits.drop_front())))
        done = failure();
    }
    part.isShort = false;
    return done;
  };
  return emit(group.raggedDigits);
}

LogicalResult Emitter::prepare(const StreamGroup &group) {
  for (Operation *op : group.ops) {
    if (isa<fusion::ReshapeOp>(op) &&
        llvm::is_contained(group.ops, op->getOperand(0).getDefiningOp()))
      reshapedInLoop.insert(op);
    if (failed(group.accumulators.contains(op) ? prepareAccumulator(op) : prepare(op)))
      return failure();
  }
  return success();
}

/// The digits that an op's slices are told by: of a reshape those of its operand, which is looked
/// at in another way.
static DigitMap getDigitsOf(const StreamGroup &group, Operation *op) {
  Operation *producer = isa<fusion::ReshapeOp>(op) ? op->getOperand(0).getDefiningOp() : nullptr;
  return group.getDigitMap(llvm::is_contained(group.ops, producer) ? producer : op);
}

SliceIndex Emitter::mapIndex(Location loc, const DigitMap &map, const SliceIndex &index,
                             const SliceIndex &inner) {
  SliceIndex mapped;
  size_t nextInner = 0;
  for (ArrayRef<DigitPart> parts : map) {
    SmallVector<IndexPart> &mine = mapped.digits.emplace_back();
    for (const DigitPart &part : parts) {
      if (part.digit < 0) {
        mine.append(inner.digits[nextInner++]);
        continue;
      }
      ArrayRef<IndexPart> whole = index.digits[part.digit];
      int64_t size = 1;
      for (const IndexPart &one : whole)
        size *= one.size;
      if (part.size == size) {
        mine.append(whole.begin(), whole.end());
        continue;
      }
      Value value = whole.front().value;
      for (const IndexPart &one : whole.drop_front()) {
        value = arith::MulIOp::create(builder, loc, value, getIndex(one.size));
        value = arith::AddIOp::create(builder, loc, value, one.value);
      }
      if (part.inner > 1)
        value = arith::DivUIOp::create(builder, loc, value, getIndex(part.inner));
      if (part.inner * part.size < size)
        value = arith::RemUIOp::create(builder, loc, value, getIndex(part.size));
      mine.push_back({part.size, value});
    }
  }
  return mapped;
}

/// Ops one after another whose slices have the same digits: what the loop does not go through is
/// gone through here.
LogicalResult Emitter::emitAlike(ArrayRef<Operation *> ops, const DigitMap &map,
                                 const SliceIndex &index, Value stream) {
  SmallVector<int64_t> innerSizes;
  int64_t count = 1;
  for (ArrayRef<DigitPart> parts : map)
    for (const DigitPart &part : parts)
      if (part.digit < 0) {
        innerSizes.push_back(part.size);
        count *= part.size;
      }
  Location loc = ops.front()->getLoc();
  auto emit = [&](const SliceIndex &inner) -> LogicalResult {
    SliceIndex mapped = mapIndex(loc, map, index, inner);
    for (Operation *op : ops)
      if (failed(emitSlice(op, &mapped, stream)))
        return failure();
    return success();
  };
  if (innerSizes.empty())
    return emit({});
  return loop(loc, 0, count, [&](Value iteration) {
    return emit(getSliceIndex(builder, loc, innerSizes, iteration));
  });
}

LogicalResult Emitter::emitSlices(const StreamGroup &group, ArrayRef<Operation *> ops,
                                  const SliceIndex &index, Value stream, bool isStreamUsed) {
  auto accumulates = [&](Operation *op) { return group.accumulators.contains(op); };
  SmallVector<Operation *> plain = llvm::to_vector(
      llvm::make_filter_range(ops, [&](Operation *op) { return !accumulates(op); }));
  isStreamUsed |= !plain.empty();
  for (ArrayRef<Operation *> rest = plain; !rest.empty();) {
    DigitMap map = getDigitsOf(group, rest.front());
    ArrayRef<Operation *> alike =
        rest.take_while([&](Operation *op) { return getDigitsOf(group, op) == map; });
    if (failed(emitAlike(alike, map, index, stream)))
      return failure();
    rest = rest.drop_front(alike.size());
  }
  const auto *first = llvm::find_if(ops, accumulates);
  if (first == ops.end())
    return success();
  // One result for all slices: they are combined on one stream, in the order of the loop, while the
  // workers are on to the next ones.
  Location loc = (*first)->getLoc();
  if (isStreamUsed)
    hostir::SyncOp::create(builder, loc, mainStream, stream);
  for (Operation *op : ops)
    if (accumulates(op) && failed(emitAccumulation(group, op, index)))
      return failure();
  if (isStreamUsed)
    hostir::SyncOp::create(builder, loc, stream, mainStream);
  return success();
}

//===----------------------------------------------------------------------===//
// Accumulation
//===----------------------------------------------------------------------===//

/// Sums of f16 and bf16 are kept in f32 until the last slice is in them: a rounding per slice would
/// make the error grow with the number of slices.
static bool needsWideSum(Operation *op) {
  auto reduce = dyn_cast<fusion::ReduceOp>(op);
  Type element = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  return isa<Float16Type, BFloat16Type>(element) &&
         (!reduce || reduce.getKind() == fusion::ReduceKind::Sum);
}

LogicalResult Emitter::prepareAccumulator(Operation *op) {
  Value result = getOrAllocBuffer(op->getResult(0));
  Value &buffer = accumulators[op];
  buffer = result;
  if (!needsWideSum(op))
    return success();
  auto type = MemRefType::get(cast<MemRefType>(result.getType()).getShape(), builder.getF32Type());
  buffer = hostir::AllocOp::create(builder, op->getLoc(), type, mainStream, IntegerAttr(),
                                   IntegerAttr());
  return success();
}

FirstSlice Emitter::isFirstSlice(Operation *op, unsigned operand, const SliceIndex &index) {
  FirstSlice first;
  fusion::AxesRule rule = *fusion::getAxesRule(op);
  auto type = cast<RankedTensorType>(op->getOperand(operand).getType());
  fusion::AxesAttr axes = fusion::getAxes(type);
  Location loc = op->getLoc();
  size_t stream = 0;
  for (auto [dim, factor] : llvm::zip_equal(axes.getDims(), rule.operands[operand])) {
    bool combines =
        factor != fusion::AxesRule::kNone && rule.factors[factor] == fusion::FactorKind::Reduction;
    for (const fusion::Digit &digit : dim.getDigits()) {
      if (!digit.isStream())
        continue;
      for (const IndexPart &part : index.digits[stream++]) {
        if (!combines || part.size == 1 || part.isFirst.value_or(false))
          continue;
        // A digit with a shorter slice has more than one.
        if (part.isShort || part.isFirst.has_value())
          return {/*never=*/true, {}};
        Value begins =
            arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, part.value, getIndex(0));
        first.condition =
            first.condition
                ? arith::AndIOp::create(builder, loc, first.condition, begins).getResult()
                : begins;
      }
    }
  }
  return first;
}

LogicalResult Emitter::ifFirst(Location loc, const FirstSlice &isFirst,
                               function_ref<LogicalResult()> first,
                               function_ref<LogicalResult()> later) {
  if (isFirst.never)
    return later();
  if (!isFirst.condition)
    return first();
  auto branch = scf::IfOp::create(builder, loc, isFirst.condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(branch.thenBlock()->getTerminator());
  if (failed(first()))
    return failure();
  builder.setInsertionPoint(branch.elseBlock()->getTerminator());
  return later();
}

LogicalResult Emitter::emitAccumulation(const StreamGroup &group, Operation *op,
                                        const SliceIndex &loopIndex) {
  LogicalResult done = success();
  unsigned operand = group.accumulators.lookup(op);
  DigitMap map = group.getDigitMap(op->getOperand(operand).getDefiningOp());
  SliceIndex index = mapIndex(op->getLoc(), map, loopIndex, {});
  onMesh(op->getLoc(), fusion::getAxes(op->getResult(0)).getMesh(), [&] {
    OpDims dims = getOpDims(op, &index, operand);
    FirstSlice first = isFirstSlice(op, operand, index);
    Value out = accumulators.lookup(op);
    done = isa<fusion::MatmulOp>(op)
               ? emitMatmul(cast<fusion::MatmulOp>(op), std::move(dims), out, first, mainStream)
               : emitReduce(cast<fusion::ReduceOp>(op), std::move(dims), out, first, mainStream);
  });
  return done;
}

LogicalResult Emitter::finish(const StreamGroup &group) {
  for (Operation *op : group.ops) {
    Value result = getBuffer(op->getResult(0)), sum = accumulators.lookup(op);
    if (!sum || sum == result)
      continue;
    hostir::KernelOp cast =
        getCastKernel(op->getLoc(), llvm::cast<MemRefType>(sum.getType()).getElementType(),
                      llvm::cast<MemRefType>(result.getType()).getElementType());
    onMesh(op->getLoc(), fusion::getAxes(op->getResult(0)).getMesh(),
           [&] { emitLaunch(op->getLoc(), cast, sum, result, mainStream); });
  }
  return success();
}
