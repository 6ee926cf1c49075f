//===- LoopEmitter.cpp - the ops of one stream loop, slice by slice -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoopEmitter.h"

#include "OpLowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include <functional>

using namespace mlir;
using namespace tandem;

LoopEmitter::LoopEmitter(const StreamLoop &group, ProgramBuilder &program, bool sharesSums)
    : group(group), program(program) {
  if (!sharesSums || program.roundsAsWritten())
    return;
  // From the end, so that a sum comes before those that it adds up.
  for (Operation *op : llvm::reverse(group.ops)) {
    if (!isa<arith::AddFOp>(op) || additions.contains(op))
      continue;
    SmallVector<fusion::MatmulOp> products = group.getProducts(op->getResult(0));
    if (products.empty())
      continue;
    for (auto [number, product] : llvm::enumerate(products))
      summed[product.getResult()] = {op->getResult(0), number == 0};
    SmallVector<Operation *> worklist{op};
    while (!worklist.empty()) {
      Operation *sum = worklist.pop_back_val();
      if (!isa<arith::AddFOp>(sum))
        continue;
      additions.insert(sum);
      for (Value term : sum->getOperands())
        worklist.push_back(term.getDefiningOp());
    }
  }
}

LogicalResult LoopEmitter::forEachShape(Location loc, const SliceIndex &index,
                                        function_ref<LogicalResult(const SliceIndex &)> body) {
  OpBuilder &builder = getBuilder();
  SliceIndex shaped = index;
  std::function<LogicalResult(ArrayRef<unsigned>)> emit =
      [&](ArrayRef<unsigned> digits) -> LogicalResult {
    if (digits.empty())
      return body(shaped);
    IndexPart &part = shaped.digits[digits.front()].front();
    Value isLast = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, part.value,
                                         program.getIndex(part.size - 1));
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

LogicalResult LoopEmitter::prepare() {
  return failure(llvm::any_of(group.ops, [&](Operation *op) {
    return failed(group.accumulators.contains(op) ? prepareAccumulator(op) : prepare(op));
  }));
}

static const OpLowering *getLoweringOrError(Operation *op) {
  const OpLowering *lowering = getLowering(op);
  if (!lowering)
    op->emitError("expected an op with a registered lowering (fusion ops, and elementwise ops of "
                  "arith and math)");
  return lowering;
}

LogicalResult LoopEmitter::prepare(Operation *op) {
  if (program.isInPlace(op))
    return success();
  if (Value sum = op->getNumResults() == 1 ? getSummed(op->getResult(0)).sum : Value()) {
    program.setBuffer(op->getResult(0), program.getOrAllocBuffer(sum));
    return success();
  }
  if (additions.contains(op)) {
    // Those inside of a sum have no memory.
    if (op->getResult(0).use_empty() || !additions.contains(*op->getResult(0).user_begin()))
      (void)program.getOrAllocBuffer(op->getResult(0));
    return success();
  }
  const OpLowering *lowering = getLoweringOrError(op);
  return lowering ? lowering->prepare(op, *this) : failure();
}

LogicalResult LoopEmitter::emitSlice(Operation *op, const SliceIndex *index, Value stream) {
  if (program.isInPlace(op) || additions.contains(op))
    return success();
  const OpLowering *lowering = getLoweringOrError(op);
  if (!lowering)
    return failure();
  MeshAttr mesh = fusion::getAxes(op->getResult(0)).getMesh();
  auto isElsewhere = [&](Value operand) {
    fusion::AxesAttr axes = fusion::getAxes(operand);
    return axes && axes.getMesh() != mesh;
  };
  if (llvm::any_of(op->getOperands(), isElsewhere))
    return lowering->emit(op, index, stream, *this);
  LogicalResult done = success();
  program.onMesh(op->getLoc(), mesh, [&] { done = lowering->emit(op, index, stream, *this); });
  return done;
}

Value LoopEmitter::getSource(Value operand, LocalDims &dims) const {
  auto place = readPlaces.find(operand);
  if (place == readPlaces.end())
    return program.getBuffer(operand);
  dims = place->second.dims;
  return place->second.buffer;
}

Value LoopEmitter::getTarget(Value result, Value out, LocalDims &dims) const {
  Value sum = getSummed(result).sum;
  auto place = writePlaces.find(sum ? sum : result);
  if (place == writePlaces.end())
    return out;
  dims = place->second.dims;
  return place->second.buffer;
}

fusion::ReduceOp LoopEmitter::getReducedView(Value value) const {
  return isView(value) ? value.getDefiningOp<fusion::ReduceOp>() : fusion::ReduceOp();
}

void LoopEmitter::writeTo(Value value, SliceBuffer place) {
  while (fusion::ReduceOp view = getReducedView(value)) {
    if (!view.getKeepDims())
      for (int64_t dim : view.getDims()) {
        place.buffer = insertUnitDim(getBuilder(), view.getLoc(), place.buffer, dim);
        place.dims.insert(place.dims.begin() + dim, SmallVector<LocalDigit>());
      }
    value = view.getInput();
  }
  writePlaces[value] = std::move(place);
}

bool LoopEmitter::writesPlace(Value value) const {
  while (fusion::ReduceOp view = getReducedView(value))
    value = view.getInput();
  Operation *op = value.getDefiningOp();
  if (!group.contains(op))
    return false;
  const OpLowering *lowering = getLowering(op);
  return additions.contains(op) || (lowering && lowering->writesPlaces());
}

bool LoopEmitter::isAdded(Value result) const {
  SummedProduct product = getSummed(result);
  return product.sum ? !product.isFirst || added.contains(product.sum) : added.contains(result);
}

SliceBuffer LoopEmitter::getTerm(Value result) const {
  SummedProduct product = getSummed(result);
  if (!product.sum)
    return terms.lookup(result);
  return product.isFirst ? terms.lookup(product.sum) : SliceBuffer();
}

bool LoopEmitter::isReshapedInLoop(Operation *op) const {
  std::optional<fusion::AxesRule> rule = fusion::getAxesRule(op);
  return rule && rule->regroups() &&
         llvm::is_contained(group.ops, op->getOperand(0).getDefiningOp());
}

DigitMap LoopEmitter::getDigitsOf(Operation *op) const {
  return group.getDigitMap(isReshapedInLoop(op) ? op->getOperand(0).getDefiningOp() : op);
}

/// The slice of a value whose digits are `map` in iteration `index` of the loop, `inner` of those
/// that are none of the loop's. Example: with map = {digit 0, size 2, inner 3} and index 4 of a
/// digit of 6, the value is 4 / 3 mod 2 = 1.
static SliceIndex mapIndex(ProgramBuilder &program, Location loc, const DigitMap &map,
                           const SliceIndex &index, const SliceIndex &inner) {
  OpBuilder &builder = program.getBuilder();
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
        value = arith::MulIOp::create(builder, loc, value, program.getIndex(one.size));
        value = arith::AddIOp::create(builder, loc, value, one.value);
      }
      if (part.inner > 1)
        value = arith::DivUIOp::create(builder, loc, value, program.getIndex(part.inner));
      if (part.inner * part.size < size)
        value = arith::RemUIOp::create(builder, loc, value, program.getIndex(part.size));
      mine.push_back({part.size, value});
    }
  }
  return mapped;
}

/// Ops one after another whose slices have the same digits: what the loop does not go through is
/// gone through here.
LogicalResult LoopEmitter::emitAlike(ArrayRef<Operation *> ops, const DigitMap &map,
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
    SliceIndex mapped = mapIndex(program, loc, map, index, inner);
    for (Operation *op : ops)
      if (failed(emitSlice(op, &mapped, stream)))
        return failure();
    return success();
  };
  if (innerSizes.empty())
    return emit({});
  return program.loop(loc, 0, count, [&](Value iteration) {
    return emit(getSliceIndex(getBuilder(), loc, innerSizes, iteration));
  });
}

LogicalResult LoopEmitter::emitSlices(ArrayRef<Operation *> ops, const SliceIndex &index,
                                      Value stream, bool isStreamUsed) {
  auto accumulates = [&](Operation *op) { return group.accumulators.contains(op); };
  SmallVector<Operation *> plain = llvm::to_vector(
      llvm::make_filter_range(ops, [&](Operation *op) { return !accumulates(op); }));
  isStreamUsed |= !plain.empty();
  for (ArrayRef<Operation *> rest = plain; !rest.empty();) {
    DigitMap map = getDigitsOf(rest.front());
    ArrayRef<Operation *> alike =
        rest.take_while([&](Operation *op) { return getDigitsOf(op) == map; });
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
    hostir::SyncOp::create(getBuilder(), loc, program.getMainStream(), stream);
  for (Operation *op : ops)
    if (accumulates(op) && failed(emitAccumulation(op, index)))
      return failure();
  if (isStreamUsed)
    hostir::SyncOp::create(getBuilder(), loc, stream, program.getMainStream());
  return success();
}

//===----------------------------------------------------------------------===//
// Accumulation
//===----------------------------------------------------------------------===//

LogicalResult LoopEmitter::prepareAccumulator(Operation *op) {
  const OpLowering *lowering = getLoweringOrError(op);
  if (!lowering)
    return failure();
  Value result = program.getOrAllocBuffer(op->getResult(0));
  Value &buffer = accumulators[op];
  buffer = result;
  auto type = cast<MemRefType>(result.getType());
  if (Type element = lowering->getAccumulatorElement(op); element != type.getElementType())
    buffer = program.alloc(op->getLoc(), MemRefType::get(type.getShape(), element));
  LogicalResult done = success();
  program.onMesh(op->getLoc(), fusion::getAxes(op->getResult(0)).getMesh(),
                 [&] { done = lowering->prepareAccumulation(op, accumulators.lookup(op), *this); });
  return done;
}

LogicalResult LoopEmitter::emitAccumulation(Operation *op, const SliceIndex &loopIndex) {
  LogicalResult done = success();
  unsigned operand = group.accumulators.lookup(op);
  DigitMap map = group.getDigitMap(op->getOperand(operand).getDefiningOp());
  SliceIndex index = mapIndex(program, op->getLoc(), map, loopIndex, {});
  program.onMesh(op->getLoc(), fusion::getAxes(op->getResult(0)).getMesh(), [&] {
    done = getLowering(op)->accumulate(op, operand, index, accumulators.lookup(op), *this);
  });
  return done;
}

LogicalResult LoopEmitter::finish() {
  for (Operation *op : group.ops) {
    Value sum = accumulators.lookup(op);
    if (!sum)
      continue;
    LogicalResult done = success();
    program.onMesh(op->getLoc(), fusion::getAxes(op->getResult(0)).getMesh(),
                   [&] { done = getLowering(op)->finishAccumulation(op, sum, *this); });
    if (failed(done))
      return failure();
  }
  return success();
}

LogicalResult tandem::emitWhole(ArrayRef<Operation *> ops, ProgramBuilder &program,
                                bool sendsMessages) {
  StreamLoop group;
  group.ops.assign(ops.begin(), ops.end());
  LoopEmitter emitter(group, program);
  emitter.sendsMessages = sendsMessages;
  return failure(llvm::any_of(ops, [&](Operation *op) {
    return failed(emitter.prepare(op)) ||
           failed(emitter.emitSlice(op, nullptr, program.getMainStream()));
  }));
}
