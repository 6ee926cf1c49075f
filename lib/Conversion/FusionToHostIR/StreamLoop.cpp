//===- StreamLoop.cpp - what a stream loop op slices -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StreamLoop.h"

#include "OpLowering.h"
#include "ReshardPlan.h"
#include "Schedule.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Support/ElementTypes.h"

using namespace mlir;
using namespace tandem;

SmallVector<fusion::MatmulOp> tandem::getSummedProducts(Value value) {
  SmallVector<fusion::MatmulOp> products;
  SmallVector<Value> terms{value};
  while (!terms.empty()) {
    Value term = terms.pop_back_val();
    if (term.getType() != value.getType() || (term != value && !term.hasOneUse()))
      return {};
    if (auto matmul = term.getDefiningOp<fusion::MatmulOp>(); matmul && !matmul.getBias()) {
      products.push_back(matmul);
      continue;
    }
    auto sum = term.getDefiningOp<arith::AddFOp>();
    if (!sum)
      return {};
    llvm::append_range(terms, sum->getOperands());
  }
  // Products of 8 bits are scaled before they are added.
  if (products.size() > 1 && llvm::any_of(products, [](fusion::MatmulOp product) {
        return isFp8(product.getLhs().getType().getElementType());
      }))
    return {};
  return products;
}

SmallVector<fusion::MatmulOp> StreamLoop::getProducts(Value value) const {
  SmallVector<fusion::MatmulOp> products = getSummedProducts(value), ordered;
  for (Operation *op : ops)
    if (auto product = dyn_cast<fusion::MatmulOp>(op); llvm::is_contained(products, product))
      ordered.push_back(product);
  if (ordered.size() != products.size() ||
      llvm::any_of(products, [&](Operation *op) { return accumulators.contains(op); }))
    return {};
  return ordered;
}

SmallVector<fusion::ReshardOp> StreamLoop::reshards() const {
  SmallVector<fusion::ReshardOp> found;
  for (Operation *op : ops)
    if (auto reshard = dyn_cast<fusion::ReshardOp>(op))
      found.push_back(reshard);
  return found;
}

bool StreamLoop::combinesSlices() const {
  auto isNoReshard = [](Operation *op) { return !isa<fusion::ReshardOp>(op); };
  return llvm::any_of(accumulators, [&](auto entry) { return isNoReshard(entry.first); }) ||
         (combinesWhole(schedule) && llvm::any_of(after, [&](Operation *op) {
            return llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
              return contains(operand.get().getDefiningOp()) &&
                     isAccumulated(op, operand.getOperandNumber());
            });
          }));
}

std::pair<SmallVector<Operation *>, SmallVector<Operation *>>
StreamLoop::splitAround(Operation *around) const {
  DenseSet<Operation *> needed{around};
  for (Operation *op : llvm::reverse(ops))
    if (needed.contains(op))
      for (Value operand : op->getOperands())
        if (Operation *before = operand.getDefiningOp(); contains(before))
          needed.insert(before);
  std::pair<SmallVector<Operation *>, SmallVector<Operation *>> split;
  for (Operation *op : ops)
    if (op != around)
      (needed.contains(op) ? split.first : split.second).push_back(op);
  return split;
}

int64_t StreamLoop::numSlices() const {
  int64_t n = 1;
  for (int64_t size : streamSizes)
    n *= size;
  return n;
}

DigitMap StreamLoop::getDigitMap(Operation *producer) const {
  auto found = digitMaps.find(producer);
  return found == digitMaps.end() ? getIdentity(streamSizes) : found->second;
}

/// The stream digits of `op`'s result as those of the loop, which makes `operand`, if an iteration
/// makes all that the op reads for its slices.
std::optional<DigitMap> StreamLoop::getMapThrough(Operation *op, OpOperand &operand) const {
  Operation *producer = operand.get().getDefiningOp();
  std::optional<DigitMap> match = matchSlices(op, operand);
  if (!match)
    return std::nullopt;
  DigitMap ofProducer = getDigitMap(producer), map;
  for (ArrayRef<DigitPart> parts : *match) {
    SmallVector<DigitPart> &mine = map.emplace_back();
    for (const DigitPart &part : parts) {
      if (part.digit < 0) {
        mine.push_back(part);
        continue;
      }
      ArrayRef<DigitPart> whole = ofProducer[part.digit];
      int64_t size = 1;
      for (const DigitPart &one : whole)
        size *= one.size;
      if (part.size == size)
        mine.append(whole.begin(), whole.end());
      else if (whole.size() == 1 && whole.front().digit >= 0)
        mine.push_back({whole.front().digit, part.size, part.inner * whole.front().inner});
      else
        return std::nullopt;
    }
  }
  return map;
}

/// Whether each digit is made of whole digits of a loop over `sizes`.
static bool isOfWholeDigits(const DigitMap &map, ArrayRef<int64_t> sizes) {
  return llvm::all_of(map, [&](ArrayRef<DigitPart> parts) {
    return llvm::all_of(parts, [&](const DigitPart &part) {
      return part.digit >= 0 && part.size == sizes[part.digit];
    });
  });
}

bool StreamLoop::isAccumulated(Operation *op, unsigned operand) const {
  const OpLowering *lowering = getLowering(op);
  if (!fusion::isLocalComputation(op) || !lowering || !lowering->accumulates(op))
    return false;
  fusion::AxesRule rule = *fusion::getAxesRule(op);
  auto isReduction = [&](const StreamAxis &axis) {
    return axis.dim != fusion::AxesRule::kNone && fusion::isCombined(rule.factors[axis.dim]);
  };
  auto type = cast<RankedTensorType>(op->getOperand(operand).getType());
  SmallVector<StreamAxis> axes = getStreamAxes(type, rule.operands[operand]);
  if (llvm::none_of(axes, isReduction))
    return false;
  // Which slice is the first is known of whole digits.
  Operation *sliced = op->getOperand(operand).getDefiningOp();
  DigitMap map = getDigitMap(sliced);
  if (!isOfWholeDigits(map, streamSizes))
    return false;
  // Whatever else the loop has made must lie in the same slices.
  for (OpOperand &other : op->getOpOperands()) {
    Operation *producer = other.get().getDefiningOp();
    if (contains(producer) && (getDigitMap(producer) != map ||
                               getStreamAxes(cast<RankedTensorType>(other.get().getType()),
                                             rule.operands[other.getOperandNumber()]) != axes))
      return false;
  }
  llvm::erase_if(axes, isReduction);
  return axes == getStreamAxes(cast<RankedTensorType>(op->getResult(0).getType()), rule.results[0]);
}

bool tandem::isScatter(Operation *op) {
  auto reshard = dyn_cast<fusion::ReshardOp>(op);
  return reshard && getScatteredDigit(reshard);
}

void StreamLoop::begin(Operation *op, ArrayRef<int64_t> sizes) {
  ops.push_back(op);
  streamSizes.assign(sizes.begin(), sizes.end());
  if (sizes.empty())
    return;
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  for (auto [i, axis] : llvm::enumerate(getStreamAxes(type, dims)))
    if (axis.ragged)
      raggedDigits.push_back(i);
}

std::optional<LoopMember> StreamLoop::getMember(Operation *op, OpOperand &operand, bool isStreamed,
                                                function_ref<bool(Operation *)> isLater) const {
  bool readsMapped = false, isAlike = isStreamed;
  DigitMap map;
  for (OpOperand &other : op->getOpOperands()) {
    Operation *producer = other.get().getDefiningOp();
    if (!contains(producer))
      continue;
    if (accumulators.contains(producer))
      return std::nullopt;
    readsMapped |= digitMaps.contains(producer);
    if (!isAlike)
      continue;
    std::optional<DigitMap> through = getMapThrough(op, other);
    isAlike = through && (map.empty() || map == *through);
    if (isAlike)
      map = std::move(*through);
  }
  unsigned number = operand.getOperandNumber();
  bool isPersonalized = reshards().empty() && isScatter(op) && !readsMapped;
  if ((!isAlike && !isPersonalized && !isAccumulated(op, number)) ||
      llvm::any_of(op->getOperands(), [&](Value other) {
        Operation *producer = other.getDefiningOp();
        return producer && !contains(producer) && isLater(producer);
      }))
    return std::nullopt;
  if (isAlike)
    return LoopMember{std::nullopt, std::move(map)};
  return LoopMember{number, {}};
}

void StreamLoop::add(Operation *op, const LoopMember &member) {
  ops.push_back(op);
  if (member.accumulated)
    accumulators[op] = *member.accumulated;
  else if (!streamSizes.empty() && member.map != getIdentity(streamSizes))
    digitMaps[op] = member.map;
}

void StreamLoop::moveReshardsFirst() {
  SmallVector<Operation *> first, rest;
  for (Operation *op : ops) {
    bool isFree = isa<fusion::ReshardOp>(op) &&
                  llvm::none_of(op->getOperands(),
                                [&](Value operand) { return contains(operand.getDefiningOp()); });
    (isFree ? first : rest).push_back(op);
  }
  first.append(rest);
  ops = std::move(first);
}

Explained<SmallVector<int64_t>> tandem::getStreamDigits(Operation *op) {
  if (op->getNumResults() == 0)
    return explain(op) << "expected an op with results";
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type || !fusion::getAxes(type))
    return explain(op) << "expected results with axes, found " << op->getResult(0).getType()
                       << "; run fusion-propagate-axes";
  auto sizes = fusion::getStreamSizes(type);
  if (failed(sizes))
    return explain(op) << "expected known extents and mesh sizes, found " << type
                       << "; run fusion-specialize";
  return *sizes;
}

Explained<StreamLoop> tandem::getStreamLoop(fusion::StreamLoopOp op) {
  StreamLoop loop;
  bool isWhole = combinesWhole(op.getScheduleAttr());
  llvm::SmallDenseSet<Operation *> after;
  auto isAfter = [&](Operation *producer) { return after.contains(producer); };
  auto joins = [&](Operation &member, bool isStreamed) {
    for (OpOperand &operand : member.getOpOperands())
      if (loop.contains(operand.get().getDefiningOp()))
        if (auto joined = loop.getMember(&member, operand, isStreamed, isAfter)) {
          if (joined->accumulated && isWhole && !isa<fusion::ReshardOp>(member))
            return false;
          loop.add(&member, *joined);
          return true;
        }
    return false;
  };
  for (Operation &member : op.getBody().front().without_terminator()) {
    if (member.hasTrait<OpTrait::ConstantLike>())
      continue;
    auto sizes = getStreamDigits(&member);
    if (failed(sizes))
      return sizes.explanation();
    if (joins(member, !sizes->empty()))
      continue;
    bool comesAfter = llvm::any_of(member.getOperands(), [&](Value operand) {
      return loop.contains(operand.getDefiningOp()) || isAfter(operand.getDefiningOp());
    });
    if (sizes->empty()) {
      (comesAfter ? loop.after : loop.before).push_back(&member);
      if (comesAfter)
        after.insert(&member);
      continue;
    }
    StreamLoop other;
    other.begin(&member, *sizes);
    if (loop.ops.empty()) {
      loop.begin(&member, *sizes);
    } else if (!comesAfter && other.streamSizes == loop.streamSizes &&
               other.raggedDigits == loop.raggedDigits) {
      loop.ops.push_back(&member);
    } else {
      return explain(op) << "expected the ops of a stream loop to be sliced alike, found '"
                         << loop.ops.front()->getName() << "' and '" << member.getName()
                         << "' that are not";
    }
  }
  if (loop.ops.empty())
    std::swap(loop.ops, loop.before);
  loop.moveReshardsFirst();
  loop.op = op;
  loop.schedule = op.getScheduleAttr();
  if (DictionaryAttr thresholds = op.getThresholdsAttr())
    loop.thresholds.forEach([&](StringRef name, int64_t &value, bool) {
      if (auto number = thresholds.getAs<IntegerAttr>(name))
        value = number.getInt();
    });
  return loop;
}

static DictionaryAttr getDictionary(MLIRContext *context, program::Thresholds thresholds) {
  NamedAttrList list;
  thresholds.forEach([&](StringRef name, int64_t &value, bool) {
    list.set(name, Builder(context).getI64IntegerAttr(value));
  });
  return list.getDictionary(context);
}

void tandem::setThresholds(fusion::StreamLoopOp loop, const program::Thresholds &thresholds) {
  DictionaryAttr dictionary = getDictionary(loop.getContext(), thresholds);
  if (dictionary != getDictionary(loop.getContext(), {}))
    loop.setThresholdsAttr(dictionary);
}

std::string tandem::describeReshards(fusion::StreamLoopOp loop) {
  std::string text;
  for (fusion::ReshardOp op : loop.getReshards()) {
    fusion::Reshard reshard = fusion::classifyReshard(op);
    text += (text.empty() ? "" : " and ") + fusion::stringifyReshardKind(reshard.kind).str();
  }
  return text;
}
