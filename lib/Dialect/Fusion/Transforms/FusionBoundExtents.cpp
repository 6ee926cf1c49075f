//===- FusionBoundExtents.cpp - fusion-bound-extents ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DimGroups.h"
#include "PassLog.h"
#include "Retype.h"
#include "ZeroPadding.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"
#include "tandem/Support/VaryingAttrs.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

#include <cmath>

namespace tandem::fusion {
#define GEN_PASS_DEF_FUSIONBOUNDEXTENTS
#include "tandem/Dialect/Fusion/Transforms/Passes.h.inc"
} // namespace tandem::fusion

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

namespace {
/// The value that an op needs in the rows after the run's extent, which the caller does not fill.
enum class Neutral { Zero, Lowest, Highest };

/// Makes one function compute its results for any extent up to the bound.
class Bounder {
public:
  Bounder(func::FuncOp function, const PassLog &logger) : function(function), logger(logger) {}

  LogicalResult run();
  unsigned numMasked = 0;
  /// Whether an extent varies; else `run` changes nothing.
  bool isBounded() const { return bound != 0; }

private:
  static RankedTensorType typeOf(Value value) {
    return dyn_cast<RankedTensorType>(value.getType());
  }
  bool isVarying(Value value, int64_t dim) const {
    std::optional<DimGroups::Dim> leader = dims.findLeader(value, dim);
    return varying.contains(leader ? *leader : DimGroups::dimOf(value, dim));
  }
  SmallVector<int64_t> varyingDims(Value value) const;
  LogicalResult markArguments();
  LogicalResult verifyResults(Operation *op);
  LogicalResult fit(Operation *op);
  LogicalResult fitOperand(Operation *op, const AxesRule &rule, OpOperand &operand, int64_t dim);
  LogicalResult fitAttention(AttentionOp attention);
  void markCall(CallOp call);
  void hideKeys(AttentionOp attention);
  Value getMask(MeshAttr mesh);
  Value broadcastMask(OpBuilder &builder, Location loc, RankedTensorType type, int64_t dim);
  FailureOr<Value> mask(Operation *user, Value value, int64_t dim, Neutral neutral);

  func::FuncOp function;
  const PassLog &logger;
  DimGroups dims;
  llvm::DenseSet<DimGroups::Dim> varying; ///< leaders
  int64_t bound = 0;
  std::optional<ZeroPadding> padding;
  llvm::MapVector<MeshAttr, Value> masks;
  llvm::DenseMap<std::tuple<Value, int64_t, int>, Value> masked;
};
} // namespace

SmallVector<int64_t> Bounder::varyingDims(Value value) const {
  SmallVector<int64_t> result;
  for (int64_t dim = 0; typeOf(value) && dim < typeOf(value).getRank(); ++dim)
    if (isVarying(value, dim))
      result.push_back(dim);
  return result;
}

/// The varying dimensions of arguments and results. The runtime cuts off what is after the extent
/// of a run, so a device must have one block.
LogicalResult Bounder::markArguments() {
  Builder builder(function.getContext());
  auto verify = [&](Value value) -> LogicalResult {
    AxesAttr axes = getAxes(value);
    if (varyingDims(value).empty() || !axes || isOneRange(axes))
      return success();
    return emitError(value.getLoc()) << "expected one block of each dimension per device, since an "
                                        "extent varies, found "
                                     << formatAxes(axes);
  };
  auto attributeOf = [&](Value value) -> Attribute {
    SmallVector<int64_t> found = varyingDims(value);
    return found.empty() ? Attribute() : builder.getDenseI64ArrayAttr(found);
  };
  for (BlockArgument argument : function.getArguments()) {
    if (failed(verify(argument)))
      return failure();
    if (Attribute found = attributeOf(argument))
      function.setArgAttr(argument.getArgNumber(), kVaryingAttrName, found);
  }
  for (OpOperand &returned : function.getBody().front().getTerminator()->getOpOperands()) {
    if (failed(verify(returned.get())))
      return failure();
    if (Attribute found = attributeOf(returned.get()))
      function.setResultAttr(returned.getOperandNumber(), kVaryingAttrName, found);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

/// An argument that the runtime binds: which indices exist. All devices have it whole, so that its
/// use needs no communication.
Value Bounder::getMask(MeshAttr mesh) {
  Value &found = masks[mesh];
  if (found)
    return found;
  Builder builder(function.getContext());
  Attribute axes = mesh ? Attribute(AxesAttr::getReplicated(mesh, 1)) : Attribute();
  std::string name = "varying.mask";
  if (masks.size() > 1)
    name += "." + std::to_string(masks.size() - 1);
  unsigned number = function.getNumArguments();
  (void)function.insertArgument(
      number, RankedTensorType::get({bound}, builder.getI1Type(), axes),
      builder.getDictionaryAttr(
          {builder.getNamedAttr(kNameAttrName, builder.getStringAttr(name)),
           builder.getNamedAttr(kVaryingAttrName, builder.getDenseI64ArrayAttr({0})),
           builder.getNamedAttr(kMaskAttrName, builder.getUnitAttr())}),
      function.getLoc());
  return found = function.getArgument(number);
}

/// The mask along `dim` of a tensor of `type`, in a tensor like it.
Value Bounder::broadcastMask(OpBuilder &builder, Location loc, RankedTensorType type, int64_t dim) {
  AxesAttr axes = getAxes(type);
  MeshAttr mesh = axes ? axes.getMesh() : nullptr;
  for (Value argument : function.getArguments())
    if (!mesh && getAxes(argument))
      mesh = getAxes(argument).getMesh();
  return BroadcastOp::create(
      builder, loc, RankedTensorType::get(type.getShape(), builder.getI1Type(), type.getEncoding()),
      getMask(mesh), ArrayRef<int64_t>{dim});
}

static Attribute splat(RankedTensorType type, Neutral neutral) {
  Builder builder(type.getContext());
  Type element = type.getElementType();
  auto shaped = RankedTensorType::get(type.getShape(), element, type.getEncoding());
  if (neutral == Neutral::Zero)
    return builder.getZeroAttr(shaped);
  bool isHighest = neutral == Neutral::Highest;
  if (auto floats = dyn_cast<FloatType>(element))
    return DenseElementsAttr::get(
        shaped, APFloat::getInf(floats.getFloatSemantics(), /*Negative=*/!isHighest));
  unsigned width = element.getIntOrFloatBitWidth();
  // i1 counts as unsigned.
  APInt value = width == 1  ? APInt(1, isHighest)
                : isHighest ? APInt::getSignedMaxValue(width)
                            : APInt::getSignedMinValue(width);
  return DenseElementsAttr::get(shaped, value);
}

/// `value` with `neutral` at the indices of `dim` that are after the extent of a run.
FailureOr<Value> Bounder::mask(Operation *user, Value value, int64_t dim, Neutral neutral) {
  RankedTensorType type = typeOf(value);
  AxesAttr axes = getAxes(type);
  if (axes && axes.isPartial())
    return user->emitError() << "expected an operand that is not partial, since dimension " << dim
                             << " varies and must be masked, found " << type;
  Value &found = masked[{value, dim, static_cast<int>(neutral)}];
  if (found)
    return found;
  OpBuilder builder(user);
  builder.setInsertionPointAfterValue(value);
  Location loc = user->getLoc();
  Value exists = broadcastMask(builder, loc, type, dim);
  Value other = arith::ConstantOp::create(builder, loc, cast<TypedAttr>(splat(type, neutral)));
  found = arith::SelectOp::create(builder, loc, exists, value, other);
  ++numMasked;
  logger(loc, [&](raw_ostream &os) {
    os << "dimension " << dim << " of an operand is masked behind the extent of a run";
  });
  return found;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult Bounder::fitOperand(Operation *op, const AxesRule &rule, OpOperand &operand,
                                  int64_t dim) {
  std::optional<int64_t> factor = getOperandFactor(rule, operand.getOperandNumber(), dim);
  bool isKnown = factor && *factor != AxesRule::kNone;
  FactorKind kind = isKnown ? rule.factors[*factor] : FactorKind::Whole;
  if (kind == FactorKind::Parallel)
    return success();
  Neutral neutral = Neutral::Zero;
  if (auto reduce = dyn_cast<ReduceOp>(op); reduce && reduce.getKind() != ReduceKind::Sum)
    neutral = reduce.getKind() == ReduceKind::Max ? Neutral::Lowest : Neutral::Highest;
  else if (kind != FactorKind::Reduction || !isa<MatmulOp, GroupedMatmulOp, ReduceOp>(op))
    return op->emitError() << "expected an op that takes any extent in dimension " << dim
                           << " of operand " << operand.getOperandNumber()
                           << ", which varies, found one that needs it whole";
  if (neutral == Neutral::Zero && padding->isZero(operand.get(), dim))
    return success();
  FailureOr<Value> clean = mask(op, operand.get(), dim, neutral);
  if (failed(clean))
    return failure();
  operand.set(*clean);
  return success();
}

/// Hides the keys after the extent of a run: adds columns to queries and keys, such that the
/// scores of these keys are -infinity, and those of all others do not change.
void Bounder::hideKeys(AttentionOp attention) {
  OpBuilder builder(attention);
  Location loc = attention.getLoc();
  constexpr int64_t columns = 8; // keeps rows aligned
  auto widened = [&](Value value, function_ref<Value(RankedTensorType)> make) -> Value {
    RankedTensorType type = typeOf(value);
    SmallVector<int64_t> shape(type.getShape());
    int64_t last = type.getRank() - 1;
    shape[last] = columns;
    Value more = make(RankedTensorType::get(shape, type.getElementType(), type.getEncoding()));
    shape[last] = columns + type.getDimSize(last);
    return ConcatOp::create(builder, loc,
                            RankedTensorType::get(shape, type.getElementType(), type.getEncoding()),
                            ValueRange{value, more}, last);
  };
  auto constant = [&](RankedTensorType type, double value) -> Value {
    auto element = builder.getFloatAttr(type.getElementType(), value);
    return arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, element));
  };
  int64_t tokens = attention.getType().getRank() - 2;
  if (!attention.getScale()) // that of the columns as written
    attention.setScale(
        APFloat(1 / std::sqrt(double(attention.getKey().getType().getDimSize(tokens + 1)))));
  Value query =
      widened(attention.getQuery(), [&](RankedTensorType type) { return constant(type, 1.0); });
  Value key = widened(attention.getKey(), [&](RankedTensorType type) -> Value {
    return arith::SelectOp::create(builder, loc, broadcastMask(builder, loc, type, tokens),
                                   constant(type, 0.0), constant(type, -INFINITY));
  });
  attention.getQueryMutable().assign(query);
  attention.getKeyMutable().assign(key);
}

LogicalResult Bounder::fitAttention(AttentionOp attention) {
  int64_t tokens = attention.getType().getRank() - 2;
  for (Value operand : attention->getOperands())
    if (isVarying(operand, tokens + 1))
      return attention.emitError() << "expected known extents of the last dimensions, found one "
                                      "that varies";
  if (!isVarying(attention.getKey(), tokens) && !isVarying(attention.getQuery(), tokens))
    return success();
  if (attention.getZigzag())
    return attention.emitError() << "expected a known number of tokens with 'zigzag', found one "
                                    "that varies";
  if (!isVarying(attention.getKey(), tokens))
    return success();
  if (attention.getKeyCount())
    return attention.emitError()
           << "expected no 'key_count', since the number of keys varies, found "
           << *attention.getKeyCount();
  // The weight of a hidden key is 0, but 0 * infinity is not.
  if (!padding->isZero(attention.getValue(), tokens)) {
    FailureOr<Value> value = mask(attention, attention.getValue(), tokens, Neutral::Zero);
    if (failed(value))
      return failure();
    attention.getValueMutable().assign(*value);
  }
  // Padding comes last, so only padding reads it.
  if (attention.getCausal())
    return success();
  if (!padding->isZero(attention.getKey(), tokens)) {
    FailureOr<Value> key = mask(attention, attention.getKey(), tokens, Neutral::Zero);
    if (failed(key))
      return failure();
    attention.getKeyMutable().assign(*key);
  }
  hideKeys(attention);
  ++numMasked;
  return success();
}

/// Its kernel is told the extent of the run.
void Bounder::markCall(CallOp call) {
  FailureOr<SmallVector<SmallVector<int64_t>>> numbers = call.getParallelDims();
  SmallVector<int64_t> found;
  for (auto [dim, number] : llvm::enumerate(numbers->front()))
    if (number >= 0 && isVarying(call->getResult(0), static_cast<int64_t>(dim)))
      found.push_back(number);
  if (!found.empty())
    call->setAttr(kVaryingAttrName, DenseI64ArrayAttr::get(call.getContext(), found));
}

LogicalResult Bounder::fit(Operation *op) {
  if (isa<ReshardOp, func::ReturnOp>(op))
    return success();
  if (auto attention = dyn_cast<AttentionOp>(op))
    return fitAttention(attention);
  if (auto call = dyn_cast<CallOp>(op))
    markCall(call);
  std::optional<AxesRule> rule = getAxesRule(op);
  for (OpOperand &operand : op->getOpOperands())
    for (int64_t dim : varyingDims(operand.get())) {
      if (!rule)
        return op->emitError() << "expected an op of a known axes rule on an operand whose "
                                  "dimension "
                               << dim << " varies";
      if (failed(fitOperand(op, *rule, operand, dim)))
        return failure();
    }
  return success();
}

/// A dimension that varies must get its indices from an operand, or be repeated.
LogicalResult Bounder::verifyResults(Operation *op) {
  for (OpResult result : op->getResults())
    for (int64_t dim : varyingDims(result))
      if (!isa<CallOp>(op) && !givesPadding(op, result.getResultNumber(), dim))
        return op->emitError() << "expected a result of any extent in dimension " << dim
                               << ", which varies, found one of extent " << bound;
  return success();
}

LogicalResult Bounder::run() {
  for (BlockArgument argument : function.getArguments())
    if (auto seeds =
            function.getArgAttrOfType<DenseI64ArrayAttr>(argument.getArgNumber(), kVaryingAttrName))
      bound = typeOf(argument).getDimSize(seeds[0]);
  if (bound == 0)
    return success();
  function.walk([&](Operation *op) { dims.group(op, /*withCalls=*/true); });
  for (BlockArgument argument : function.getArguments())
    if (auto seeds =
            function.getArgAttrOfType<DenseI64ArrayAttr>(argument.getArgNumber(), kVaryingAttrName))
      for (int64_t dim : seeds.asArrayRef())
        varying.insert(dims.leaderOf(argument, dim));
  if (failed(markArguments()))
    return failure();
  padding.emplace(function);
  SmallVector<Operation *> ops;
  function.getBody().walk([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : ops)
    if (failed(fit(op)) || failed(verifyResults(op)))
      return failure();
  function.walk([](ReshapeOp op) { op->removeAttr(kVaryingAttrName); });
  updateSignature(function);
  return success();
}

namespace {
struct FusionBoundExtentsPass
    : public fusion::impl::FusionBoundExtentsBase<FusionBoundExtentsPass> {
  using FusionBoundExtentsBase::FusionBoundExtentsBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || !function.getBody().hasOneBlock())
      return;
    PassLog logger("fusion-bound-extents", log);
    Bounder bounder(function, logger);
    if (failed(bounder.run()))
      return signalPassFailure();
    logger.summary(function.getLoc(), {{"operands masked", bounder.numMasked}});
    numMasked += bounder.numMasked;
    if (!bounder.isBounded())
      markAllAnalysesPreserved();
  }
};
} // namespace
