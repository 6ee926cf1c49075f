//===- FusionBoundExtents.cpp - fusion-bound-extents ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PaddedFunction.h"
#include "Retype.h"
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
/// Makes one function compute its results for any extent up to the bound.
class Bounder : PaddedFunction {
public:
  Bounder(func::FuncOp function, const PassLog &logger)
      : PaddedFunction(function, logger, /*varies=*/true) {}

  LogicalResult run();
  using PaddedFunction::getNumFilled;

private:
  bool isPadded(Value value, int64_t dim) const override {
    return varying.contains(findLeader(value, dim));
  }
  int64_t getPaddedExtent(Value value, int64_t dim) const override {
    return typeOf(value).getDimSize(dim);
  }
  Value getMask(MeshAttr mesh, Value value, int64_t dim) override;
  LogicalResult hideKeys(AttentionOp attention) override;
  LogicalResult exclude(OpOperand &operand, ArrayRef<int64_t> dims) override;
  LogicalResult markArguments();
  void markCall(CallOp call);

  llvm::DenseSet<Dim> varying; ///< leaders
  int64_t bound = 0;
  llvm::MapVector<MeshAttr, Value> masks;
};
} // namespace

/// The varying dimensions of arguments and results. The runtime cuts off what is after the extent
/// of a run, so a device must have one block.
LogicalResult Bounder::markArguments() {
  LogicalResult done = success();
  annotate(kVaryingAttrName, [&](Value value) -> Attribute {
    SmallVector<int64_t> dims = getPaddedDims(value);
    if (dims.empty())
      return {};
    if (AxesAttr axes = getAxes(value); axes && !isOneRange(axes) && succeeded(done))
      done = emitError(value.getLoc()) << "expected one block of each dimension per device, since "
                                          "an extent varies, found "
                                       << formatAxes(axes);
    return DenseI64ArrayAttr::get(function.getContext(), dims);
  });
  return done;
}

/// An argument that the runtime binds.
Value Bounder::getMask(MeshAttr mesh, Value, int64_t) {
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

LogicalResult Bounder::exclude(OpOperand &operand, ArrayRef<int64_t> dims) {
  InFlightDiagnostic error = operand.getOwner()->emitError();
  AxesAttr axes = getAxes(operand.get());
  if (axes && axes.isPartial())
    return error << "expected an operand that is not partial, since dimension " << dims.front()
                 << " varies and must be filled, found " << operand.get().getType();
  return error << "expected an op that takes any extent in dimension " << dims.front()
               << " of operand " << operand.getOperandNumber()
               << ", which varies, found one that needs it whole";
}

/// Hides the keys after the extent of a run: adds columns to queries and keys, such that the
/// scores of these keys are -infinity, and those of all others do not change.
LogicalResult Bounder::hideKeys(AttentionOp attention) {
  if (attention.getKeyCount())
    return attention.emitError()
           << "expected no 'key_count', since the number of keys varies, found "
           << *attention.getKeyCount();
  // Padding comes last, so only padding reads it.
  if (attention.getCausal())
    return success();
  int64_t tokens = attention.getType().getRank() - 2;
  Value keys = attention.getKey(), clean = keys;
  if (!isZero(keys, tokens))
    clean = fill(attention, keys, keys, tokens, ReduceKind::Sum);
  OpBuilder builder(attention);
  Location loc = attention.getLoc();
  constexpr int64_t columns = 8; // keeps rows aligned
  auto widened = [&](Value value, function_ref<Value(RankedTensorType)> make) -> Value {
    RankedTensorType type = typeOf(value);
    SmallVector<int64_t> shape(type.getShape());
    int64_t last = type.getRank() - 1;
    shape[last] = columns;
    Value more = make(type.clone(shape));
    shape[last] = columns + type.getDimSize(last);
    return ConcatOp::create(builder, loc, type.clone(shape), ValueRange{value, more}, last);
  };
  auto constant = [&](RankedTensorType type, double value) -> Value {
    auto element = builder.getFloatAttr(type.getElementType(), value);
    return arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, element));
  };
  if (!attention.getScale()) // that of the columns as written
    attention.setScale(
        APFloat(1 / std::sqrt(double(attention.getKey().getType().getDimSize(tokens + 1)))));
  Value query =
      widened(attention.getQuery(), [&](RankedTensorType type) { return constant(type, 1.0); });
  Value key = widened(clean, [&](RankedTensorType type) -> Value {
    return arith::SelectOp::create(builder, loc, broadcastMask(builder, keys, type, tokens),
                                   constant(type, 0.0), constant(type, -INFINITY));
  });
  attention.getQueryMutable().assign(query);
  attention.getKeyMutable().assign(key);
  return success();
}

/// Its kernel is told the extent of the run.
void Bounder::markCall(CallOp call) {
  FailureOr<SmallVector<SmallVector<int64_t>>> numbers = call.getParallelDims();
  SmallVector<int64_t> found;
  for (auto [dim, number] : llvm::enumerate(numbers->front()))
    if (number >= 0 && isPadded(call->getResult(0), static_cast<int64_t>(dim)))
      found.push_back(number);
  if (!found.empty())
    call->setAttr(kVaryingAttrName, DenseI64ArrayAttr::get(call.getContext(), found));
}

LogicalResult Bounder::run() {
  for (BlockArgument argument : function.getArguments())
    if (auto seeds =
            function.getArgAttrOfType<DenseI64ArrayAttr>(argument.getArgNumber(), kVaryingAttrName))
      for (int64_t dim : seeds.asArrayRef()) {
        bound = typeOf(argument).getDimSize(dim);
        varying.insert(leaderOf(argument, dim));
      }
  if (failed(markArguments()) || failed(fitOps()))
    return failure();
  // A dimension that varies must get its indices from an operand, or be repeated.
  for (const auto &[result, dims] : computedWhole)
    return result.getOwner()->emitError()
           << "expected a result of any extent in dimension " << dims.front()
           << ", which varies, found one of extent " << bound;
  function.walk([&](CallOp call) { markCall(call); });
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
    auto numbers = llvm::seq<unsigned>(0, function.getNumArguments());
    if (llvm::none_of(numbers, [&](unsigned number) {
          return function.getArgAttr(number, kVaryingAttrName);
        }))
      return markAllAnalysesPreserved();
    PassLog logger("fusion-bound-extents", log);
    Bounder bounder(function, logger);
    if (failed(bounder.run()))
      return signalPassFailure();
    logger.summary(function.getLoc(), {{"operands filled", bounder.getNumFilled()}});
    numFilled += bounder.getNumFilled();
  }
};
} // namespace
