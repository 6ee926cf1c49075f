//===- OpLowering.cpp - how one op becomes host IR -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpLowering.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Conversion/FusionToHostIR/Passes.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionDialect.h"

using namespace mlir;
using namespace tandem;

#include "tandem/Conversion/FusionToHostIR/LoweringOpInterface.cpp.inc"

const OpLowering *tandem::getLowering(Operation *op) {
  static const ElementwiseLowering elementwise;
  if (auto lowered = dyn_cast<LoweringOpInterface>(op))
    return &lowered.getLowering();
  return op->hasTrait<OpTrait::Elementwise>() ? &elementwise : nullptr;
}

void tandem::registerLowerings(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, fusion::FusionDialect *) {
    attachAttentionLowering(*context);
    attachCallLowering(*context);
    attachConcatLowering(*context);
    attachGroupedMatmulLowering(*context);
    attachMatmulLowering(*context);
    attachReduceLowering(*context);
    attachReshardLowering(*context);
    attachViewLowerings(*context);
  });
}

//===----------------------------------------------------------------------===//
// Defaults
//===----------------------------------------------------------------------===//

LogicalResult OpLowering::prepare(Operation *op, LoopEmitter &loop) const {
  for (Value result : op->getResults())
    (void)loop.program.getOrAllocBuffer(result);
  return success();
}

LogicalResult OpLowering::accumulate(Operation *op, unsigned operand, const SliceIndex &index,
                                     Value out, LoopEmitter &loop) const {
  return op->emitError("expected an op that can combine slices of operand ") << operand;
}

LogicalResult OpLowering::finishAccumulation(Operation *op, Value out, LoopEmitter &loop) const {
  ProgramBuilder &program = loop.program;
  Value result = program.getBuffer(op->getResult(0));
  if (out == result)
    return success();
  hostir::KernelOp cast =
      program.getCastKernel(op->getLoc(), llvm::cast<MemRefType>(out.getType()).getElementType(),
                            llvm::cast<MemRefType>(result.getType()).getElementType());
  program.launch(op->getLoc(), cast, out, result, program.getMainStream());
  return success();
}

Type OpLowering::getAccumulatorElement(Operation *op) const {
  return cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

LogicalResult tandem::ifFirst(OpBuilder &builder, Location loc, const FirstSlice &isFirst,
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

/// Whether an operand's slice is the first one combined into the result: every digit of a combined
/// dimension has its first value.
static FirstSlice isFirstSlice(ProgramBuilder &program, Operation *op, unsigned operand,
                               const SliceIndex &index) {
  hostir::IndexBuilder math = program.math(op->getLoc());
  FirstSlice first;
  fusion::AxesRule rule = *fusion::getAxesRule(op);
  auto type = cast<RankedTensorType>(op->getOperand(operand).getType());
  fusion::AxesAttr axes = fusion::getAxes(type);
  size_t stream = 0;
  for (auto [dim, factor] : llvm::zip_equal(axes.getDims(), rule.operands[operand])) {
    bool combines = factor != fusion::AxesRule::kNone && fusion::isCombined(rule.factors[factor]);
    for (const fusion::Digit &digit : dim.getDigits()) {
      if (!digit.isStream())
        continue;
      for (const IndexPart &part : index.digits[stream++]) {
        if (!combines || part.size == 1 || part.isFirst.value_or(false))
          continue;
        // A digit with a shorter slice has more than one slice.
        if (part.isShort || part.isFirst.has_value())
          return {/*never=*/true, {}};
        first.condition = math.both(first.condition, math.isEqual(part.value, 0));
      }
    }
  }
  return first;
}

LogicalResult tandem::forEachRun(ProgramBuilder &program, Location loc,
                                 ArrayRef<SmallVector<LocalDigit> *> lists,
                                 function_ref<LogicalResult(Value)> body) {
  auto isWhole = [](SmallVector<LocalDigit> *list) { return getViewRanks({*list})[0] == 1; };
  if (llvm::all_of(lists, isWhole))
    return body({});
  // Loop over all kept digits except the innermost.
  SmallVector<int64_t> sizes;
  SmallVector<SmallVector<LocalDigit *>> kept;
  for (SmallVector<LocalDigit> *list : lists) {
    SmallVector<LocalDigit *> &mine = kept.emplace_back();
    for (LocalDigit &digit : *list)
      if (digit.isKept())
        mine.push_back(&digit);
    if (!mine.empty())
      mine.pop_back();
  }
  int64_t count = 1;
  for (LocalDigit *digit : kept.front()) {
    sizes.push_back(digit->size);
    count *= digit->size;
  }
  return program.loop(loc, 0, count, [&](Value run) {
    SliceIndex index = getSliceIndex(program.getBuilder(), loc, sizes, run);
    for (auto &mine : kept)
      for (auto [digit, parts] : llvm::zip_equal(mine, index.digits))
        digit->index = parts.front().value;
    return body(run);
  });
}

LogicalResult tandem::forEachTerm(ProgramBuilder &program, Location loc,
                                  SmallVector<LocalDigit> &lhs, SmallVector<LocalDigit> &rhs,
                                  const FirstSlice &first,
                                  function_ref<LogicalResult(const FirstSlice &)> body) {
  SmallVector<LocalDigit> lhsBefore = lhs, rhsBefore = rhs;
  LogicalResult done = forEachRun(program, loc, {&lhs, &rhs}, [&](Value run) {
    FirstSlice now = first;
    if (run && !first.never)
      now.condition = program.math(loc).both(first.condition, program.math(loc).isEqual(run, 0));
    return body(now);
  });
  lhs = lhsBefore;
  rhs = rhsBefore;
  return done;
}

LogicalResult ReducingLowering::emit(Operation *op, const SliceIndex *index, Value stream,
                                     LoopEmitter &loop) const {
  Value out = loop.program.getOrAllocBuffer(op->getResult(0));
  FirstSlice first;
  first.never = loop.isAdded(op->getResult(0));
  return combine(op, getOpDims(op, index, std::nullopt), out, first, stream, loop);
}

LogicalResult ReducingLowering::accumulate(Operation *op, unsigned operand, const SliceIndex &index,
                                           Value out, LoopEmitter &loop) const {
  return combine(op, getOpDims(op, &index, operand), out,
                 isFirstSlice(loop.program, op, operand, index), loop.program.getMainStream(),
                 loop);
}

Type ReducingLowering::getWideElement(Operation *op) {
  Type element = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  return isa<Float16Type, BFloat16Type>(element) ? Float32Type::get(op->getContext()) : element;
}
