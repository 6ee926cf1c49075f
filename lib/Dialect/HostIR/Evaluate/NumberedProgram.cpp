//===- NumberedProgram.cpp - host programs as instructions ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/HostIR/Evaluate/NumberedProgram.h"

#include "tandem/Dialect/HostIR/IR/HostIROps.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

bool hostir::isIntLike(Type type) {
  return getIntegerWidth(type) || isa<StreamType, ChannelType>(type);
}

LogicalResult Numbering::block(Block &block) {
  for (Operation &op : block) {
    LogicalResult done = success();
    if (auto loop = dyn_cast<scf::ForOp>(op))
      done = forLoop(loop);
    else if (auto branch = dyn_cast<scf::IfOp>(op))
      done = ifThenElse(branch);
    else if (!isa<scf::YieldOp>(op) && !integer(&op))
      done = other(&op);
    if (failed(done))
      return failure();
    after(&op);
  }
  return success();
}

bool Numbering::integer(Operation *op) {
  if (std::optional<int64_t> number = getConstantNumber(op)) {
    bind(op->getResult(0), constant(*number));
    return true;
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    if (!isIntLike(select.getType()) || !isIntLike(select.getCondition().getType()))
      return false;
    uint32_t dst = define(select);
    Instr &instr = emit(op, opcode::Select);
    instr.dst = dst;
    instr.a = slot(select.getCondition());
    instr.b = slot(select.getTrueValue());
    instr.c = slot(select.getFalseValue());
    return true;
  }
  std::optional<IntegerOp> integer = getIntegerOp(op);
  if (!integer)
    return false;
  uint32_t dst = define(op->getResult(0));
  Instr &instr = emit(op, opcode::Integer);
  instr.aux = static_cast<uint8_t>(integer->opcode);
  instr.width = integer->width;
  instr.dst = dst;
  instr.a = slot(op->getOperand(0));
  instr.b = slot(op->getOperand(op->getNumOperands() - 1));
  instr.c = static_cast<uint32_t>(integer->predicate);
  return true;
}

LogicalResult Numbering::forLoop(scf::ForOp op) {
  for (BlockArgument arg : op.getRegionIterArgs())
    if (!isIntLike(arg.getType()) && !isa<MemRefType>(arg.getType()))
      return op.emitOpError("carries a value of type ")
             << arg.getType() << ", which cannot be evaluated at compile time";
  uint32_t induction = define(op.getInductionVar());
  for (auto [arg, result] : llvm::zip(op.getRegionIterArgs(), op.getResults()))
    bind(result, define(arg));
  moveAll(op, op.getInitArgs(), op.getRegionIterArgs());
  uint32_t enter = numbered.instrs.size();
  auto control = [&](uint8_t kind, uint32_t first) {
    Instr &instr = emit(op, kind);
    instr.aux = op.getUnsignedCmp();
    instr.width = *getIntegerWidth(op.getInductionVar().getType());
    instr.dst = induction;
    instr.a = first;
    instr.b = slot(op.getUpperBound());
    instr.c = slot(op.getStep());
  };
  control(opcode::LoopEnter, slot(op.getLowerBound()));
  if (failed(block(*op.getBody())))
    return failure();
  moveAll(op, cast<scf::YieldOp>(op.getBody()->getTerminator()).getOperands(),
          op.getRegionIterArgs());
  control(opcode::LoopNext, induction);
  numbered.instrs.back().target = enter + 1;
  numbered.instrs[enter].target = numbered.instrs.size();
  return success();
}

LogicalResult Numbering::ifThenElse(scf::IfOp op) {
  for (Value result : op.getResults()) {
    if (!isIntLike(result.getType()) && !isa<MemRefType>(result.getType()))
      return op.emitOpError("yields a value of type ")
             << result.getType() << ", which cannot be evaluated at compile time";
    define(result);
  }
  auto branch = [&](Region &region) {
    if (region.empty())
      return success();
    if (failed(block(region.front())))
      return failure();
    moveAll(op, cast<scf::YieldOp>(region.front().getTerminator()).getOperands(), op.getResults());
    return success();
  };
  uint32_t test = numbered.instrs.size();
  emit(op, opcode::JumpUnless).a = slot(op.getCondition());
  if (failed(branch(op.getThenRegion())))
    return failure();
  uint32_t leave = numbered.instrs.size();
  bool hasElse = !op.getElseRegion().empty();
  if (hasElse)
    emit(op, opcode::Jump);
  numbered.instrs[test].target = numbered.instrs.size();
  if (failed(branch(op.getElseRegion())))
    return failure();
  if (hasElse)
    numbered.instrs[leave].target = numbered.instrs.size();
  return success();
}

void Numbering::moveAll(Operation *op, ValueRange from, ValueRange to) {
  auto move = [&](uint32_t source, uint32_t target, bool isView) {
    if (isView)
      return moveView(op, source, target);
    Instr &instr = emit(op, opcode::Move);
    instr.a = source;
    instr.dst = target;
  };
  auto isView = [](Value value) { return isa<MemRefType>(value.getType()); };
  // A target that is also the source of a later move (a swap) goes through a temporary slot.
  llvm::DenseSet<Value> sources(from.begin(), from.end());
  bool overlaps = llvm::any_of(to, [&](Value value) { return sources.contains(value); });
  SmallVector<uint32_t> temporaries;
  for (auto [source, target] : llvm::zip(from, to)) {
    if (!overlaps) {
      move(slot(source), slot(target), isView(target));
      continue;
    }
    uint32_t temporary = isView(target) ? numbered.numViews++ : constant(0);
    move(slot(source), temporary, isView(target));
    temporaries.push_back(temporary);
  }
  if (overlaps)
    for (auto [temporary, target] : llvm::zip(temporaries, to))
      move(temporary, slot(target), isView(target));
}

Instr &Numbering::emit(Operation *op, uint8_t opcode) {
  numbered.instrs.push_back(Instr{opcode});
  numbered.ops.push_back(op);
  return numbered.instrs.back();
}

uint32_t Numbering::constant(int64_t value) {
  numbered.ints.push_back(value);
  return numbered.ints.size() - 1;
}

uint32_t Numbering::define(Value value) {
  uint32_t number = isa<MemRefType>(value.getType()) ? numbered.numViews++ : constant(0);
  bind(value, number);
  return number;
}
