//===- CodeIntegers.cpp - numbering arith -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeBuilder.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tandem::target {

void CodeBuilder::binary(Opcode opcode, Operation *op) {
  uint32_t dst = define(op->getResult(0));
  Instr &instr = emit(op, opcode);
  instr.width = widthOf(op->getResult(0).getType());
  instr.dst = dst;
  instr.a = slot(op->getOperand(0));
  instr.b = slot(op->getOperand(1));
}

void CodeBuilder::widen(Operation *op, bool isSigned) {
  uint8_t from = widthOf(op->getOperand(0).getType()), to = widthOf(op->getResult(0).getType());
  uint32_t dst = define(op->getResult(0));
  // Slots hold numbers sign-extended, save i1: 0 and 1.
  Opcode opcode = Opcode::Wrap;
  if (to > from && !isSigned && from > 1)
    opcode = Opcode::Unsign;
  else if (to > from && isSigned && from == 1)
    opcode = Opcode::Negate;
  Instr &instr = emit(op, opcode);
  instr.width = opcode == Opcode::Unsign ? from : to;
  instr.dst = dst;
  instr.a = slot(op->getOperand(0));
}

void CodeBuilder::compare(arith::CmpIOp op) {
  uint8_t width = widthOf(op.getLhs().getType());
  uint32_t operands[] = {slot(op.getLhs()), slot(op.getRhs())};
  arith::CmpIPredicate predicate = op.getPredicate();
  bool isSigned = predicate >= arith::CmpIPredicate::slt && predicate <= arith::CmpIPredicate::sge;
  if (width == 1 && isSigned) // true is -1
    for (uint32_t &operand : operands) {
      uint32_t negated = constant(0);
      Instr &instr = emit(op, Opcode::Negate);
      instr.dst = negated;
      instr.a = operand;
      operand = negated;
    }
  uint32_t dst = define(op.getResult());
  Instr &instr = emit(op, Opcode::Compare);
  instr.aux = static_cast<uint8_t>(predicate);
  instr.width = width;
  instr.dst = dst;
  instr.a = operands[0];
  instr.b = operands[1];
}

bool CodeBuilder::integer(Operation *op) {
  if (auto constantOp = dyn_cast<arith::ConstantOp>(op)) {
    auto value = dyn_cast<IntegerAttr>(constantOp.getValue());
    if (!value || !isIntLike(value.getType()))
      return false;
    bool isBool = value.getType().isInteger(1);
    bind(constantOp,
         constant(isBool ? value.getValue().getZExtValue() : value.getValue().getSExtValue()));
    return true;
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    bool isView = isa<MemRefType>(select.getType());
    if ((!isView && !isIntLike(select.getType())) || !isIntLike(select.getCondition().getType()))
      return false;
    uint32_t dst = define(select);
    Instr &instr = emit(op, isView ? Opcode::SelectView : Opcode::Select);
    instr.dst = dst;
    instr.a = slot(select.getCondition());
    instr.b = slot(select.getTrueValue());
    instr.c = slot(select.getFalseValue());
    return true;
  }
  if (op->getNumResults() != 1 || !isIntLike(op->getResult(0).getType()) ||
      !llvm::all_of(op->getOperandTypes(), isIntLike))
    return false;
  return llvm::TypeSwitch<Operation *, bool>(op)
#define TANDEM_BINARY(OP, OPCODE)                                                                  \
  .Case([&](arith::OP o) {                                                                         \
    binary(Opcode::OPCODE, o);                                                                     \
    return true;                                                                                   \
  })
      TANDEM_BINARY(AddIOp, Add) TANDEM_BINARY(SubIOp, Sub) TANDEM_BINARY(MulIOp, Mul)
          TANDEM_BINARY(DivSIOp, DivS) TANDEM_BINARY(DivUIOp, DivU)
              TANDEM_BINARY(CeilDivSIOp, CeilDivS) TANDEM_BINARY(CeilDivUIOp, CeilDivU)
                  TANDEM_BINARY(FloorDivSIOp, FloorDivS) TANDEM_BINARY(RemSIOp, RemS) TANDEM_BINARY(
                      RemUIOp, RemU) TANDEM_BINARY(MinSIOp, MinS) TANDEM_BINARY(MaxSIOp, MaxS)
                      TANDEM_BINARY(MinUIOp, MinU) TANDEM_BINARY(MaxUIOp, MaxU)
                          TANDEM_BINARY(AndIOp, And) TANDEM_BINARY(OrIOp, Or)
                              TANDEM_BINARY(XOrIOp, Xor) TANDEM_BINARY(ShLIOp, Shl)
                                  TANDEM_BINARY(ShRSIOp, ShrS) TANDEM_BINARY(ShRUIOp, ShrU)
#undef TANDEM_BINARY
                                      .Case([&](arith::CmpIOp o) {
                                        compare(o);
                                        return true;
                                      })
                                      .Case<arith::IndexCastOp, arith::ExtSIOp, arith::TruncIOp>(
                                          [&](auto o) {
                                            widen(o, /*isSigned=*/true);
                                            return true;
                                          })
                                      .Case<arith::IndexCastUIOp, arith::ExtUIOp>([&](auto o) {
                                        widen(o, /*isSigned=*/false);
                                        return true;
                                      })
                                      .Default(false);
}

} // namespace tandem::target
