//===- EmitCompute.cpp - emits slices of ops that compute locally -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include <map>

using namespace mlir;
using namespace tandem;

LocalDims Emitter::getOperandDims(Operation *op, const fusion::AxesRule &rule, unsigned operand,
                                  const LocalDims &result) {
  auto type = cast<RankedTensorType>(op->getOperand(operand).getType());
  LocalDims dims = getLocalDims(type, nullptr);
  for (auto [dim, factor] : llvm::enumerate(rule.operands[operand])) {
    if (factor == fusion::AxesRule::kNone)
      continue;
    const auto *along = llvm::find(rule.results[0], factor);
    if (along != rule.results[0].end())
      dims[dim] = result[along - rule.results[0].begin()];
  }
  return dims;
}

OpDims Emitter::getOpDims(Operation *op, const SliceIndex *index, std::optional<unsigned> operand) {
  fusion::AxesRule rule = *fusion::getAxesRule(op);
  OpDims dims;
  auto resultType = cast<RankedTensorType>(op->getResult(0).getType());
  if (!operand) {
    dims.result = getLocalDims(resultType, index);
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      dims.operands.push_back(getOperandDims(op, rule, i, dims.result));
    return dims;
  }
  auto type = cast<RankedTensorType>(op->getOperand(*operand).getType());
  LocalDims sliced = getLocalDims(type, index);
  auto follow = [&](LocalDims whole, ArrayRef<int64_t> factors) {
    for (auto [dim, factor] : llvm::zip_equal(whole, factors)) {
      const auto *along = llvm::find(rule.operands[*operand], factor);
      if (factor != fusion::AxesRule::kNone && along != rule.operands[*operand].end())
        dim = sliced[along - rule.operands[*operand].begin()];
    }
    return whole;
  };
  for (auto [i, other] : llvm::enumerate(op->getOperandTypes()))
    dims.operands.push_back(
        follow(getLocalDims(cast<RankedTensorType>(other), nullptr), rule.operands[i]));
  dims.result = follow(getLocalDims(resultType, nullptr), rule.results[0]);
  return dims;
}

Value Emitter::getSource(Value operand, LocalDims &dims) {
  auto own = ownSlices.find(operand);
  if (own == ownSlices.end())
    return getBuffer(operand);
  dims = own->second.dims;
  return own->second.buffer;
}

LogicalResult Emitter::alignDims(Operation *op, ArrayRef<SmallVector<int64_t>> operandFactors,
                                 ArrayRef<int64_t> resultFactors, OpDims &dims) {
  std::map<int64_t, SmallVector<SmallVector<LocalDigit> *>> ofFactor;
  auto add = [&](ArrayRef<int64_t> factors, LocalDims &mine) {
    for (auto [factor, digits] : llvm::zip_equal(factors, mine))
      if (factor != fusion::AxesRule::kNone)
        ofFactor[factor].push_back(&digits);
  };
  for (auto [factors, mine] : llvm::zip_equal(operandFactors, dims.operands))
    add(factors, mine);
  add(resultFactors, dims.result);
  for (auto &[factor, lists] : ofFactor)
    if (failed(alignDigits(builder, op->getLoc(), lists)))
      return op->emitError("expected slices of operands and result with digits of common sizes; "
                           "with other stream digits, or none, they may have them");
  return success();
}

LogicalResult Emitter::emitReduce(fusion::ReduceOp op, OpDims opDims, Value out, FirstSlice first,
                                  Value stream) {
  Location loc = op.getLoc();
  LocalDims &inDims = opDims.operands[0];
  Value source = getSource(op.getInput(), inDims);
  fusion::AxesRule rule = *fusion::getAxesRule(op);
  if (failed(alignDims(op, rule.operands, rule.results[0], opDims)))
    return failure();
  Value in = makeView(builder, loc, source, inDims, true);
  out = makeView(builder, loc, out, opDims.result, true);

  // The view's dimensions that the reduced dimensions became.
  SmallVector<int64_t> dims;
  int64_t viewDim = 0;
  for (auto [dim, ranks] : llvm::enumerate(getViewRanks(inDims)))
    for (int64_t i = 0; i < ranks; ++i, ++viewDim)
      if (llvm::is_contained(op.getDims(), static_cast<int64_t>(dim)))
        dims.push_back(viewDim);
  auto kind = fusion::ReduceKindAttr::get(builder.getContext(), op.getKind());
  Type element = cast<MemRefType>(out.getType()).getElementType();
  auto alloc = [&](ArrayRef<int64_t> shape) -> Value {
    return hostir::AllocOp::create(builder, loc, MemRefType::get(shape, element), stream,
                                   IntegerAttr(), IntegerAttr());
  };
  auto inType = cast<MemRefType>(in.getType());
  if (inType.getElementType() != element) {
    Value wide = alloc(inType.getShape());
    hostir::KernelOp cast = getCastKernel(loc, inType.getElementType(), element);
    emitLaunch(loc, cast, in, wide, stream);
    in = wide;
  }
  auto reduceTo = [&](Value target) {
    if (dims.empty())
      hostir::CopyOp::create(builder, loc, in, target, stream);
    else
      hostir::ReduceOp::create(builder, loc, kind, in, target, builder.getDenseI64ArrayAttr(dims),
                               stream);
    return success();
  };
  return ifFirst(
      loc, first, [&] { return reduceTo(out); },
      [&] {
        Value term = in;
        if (!dims.empty()) {
          term = alloc(cast<MemRefType>(out.getType()).getShape());
          (void)reduceTo(term);
        }
        hostir::AccumulateOp::create(builder, loc, kind, term, out, stream);
        return success();
      });
}
