//===- Integers.cpp - integer arithmetic of host programs -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/HostIR/Evaluate/Integers.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

static int64_t wrap(int64_t value, unsigned width) {
  if (width == 64)
    return value;
  return width == 1 ? value & 1 : llvm::SignExtend64(static_cast<uint64_t>(value), width);
}

static uint64_t unsign(int64_t value, unsigned width) {
  auto bits = static_cast<uint64_t>(value);
  return width == 64 ? bits : bits & llvm::maskTrailingOnes<uint64_t>(width);
}

static bool compare(arith::CmpIPredicate predicate, int64_t a, int64_t b, unsigned width) {
  using P = arith::CmpIPredicate;
  uint64_t ua = unsign(a, width), ub = unsign(b, width);
  if (width == 1) { // a signed i1 true is -1
    a = -a;
    b = -b;
  }
  switch (predicate) {
  case P::eq:
    return a == b;
  case P::ne:
    return a != b;
  case P::slt:
    return a < b;
  case P::sle:
    return a <= b;
  case P::sgt:
    return a > b;
  case P::sge:
    return a >= b;
  case P::ult:
    return ua < ub;
  case P::ule:
    return ua <= ub;
  case P::ugt:
    return ua > ub;
  case P::uge:
    return ua >= ub;
  }
  return false;
}

std::optional<uint8_t> hostir::getIntegerWidth(Type type) {
  if (isa<IndexType>(type))
    return 64;
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer || integer.getWidth() > 64)
    return std::nullopt;
  return static_cast<uint8_t>(integer.getWidth());
}

std::optional<IntegerOp> hostir::getIntegerOp(Operation *op) {
  using K = IntegerKind;
  if (op->getNumResults() != 1 || !isa_and_present<arith::ArithDialect>(op->getDialect()) ||
      !llvm::all_of(op->getOperandTypes(), [](Type type) { return getIntegerWidth(type); }))
    return std::nullopt;
  std::optional<uint8_t> width = getIntegerWidth(op->getResult(0).getType());
  if (!width)
    return std::nullopt;
  using Result = std::optional<IntegerOp>;
  auto of = [&](K kind) { return [=](auto) { return Result(IntegerOp{kind, *width}); }; };
  auto widen = [&](bool isSigned) {
    return [=](Operation *cast) -> Result {
      uint8_t from = *getIntegerWidth(cast->getOperand(0).getType());
      if (*width <= from || (from == 1 && !isSigned))
        return IntegerOp{K::Wrap, *width};
      if (isSigned)
        return IntegerOp{from == 1 ? K::Negate : K::Wrap, *width};
      return IntegerOp{K::Unsign, from};
    };
  };
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case<arith::AddIOp>(of(K::Add))
      .Case<arith::SubIOp>(of(K::Sub))
      .Case<arith::MulIOp>(of(K::Mul))
      .Case<arith::DivSIOp>(of(K::DivS))
      .Case<arith::DivUIOp>(of(K::DivU))
      .Case<arith::CeilDivSIOp>(of(K::CeilDivS))
      .Case<arith::CeilDivUIOp>(of(K::CeilDivU))
      .Case<arith::FloorDivSIOp>(of(K::FloorDivS))
      .Case<arith::RemSIOp>(of(K::RemS))
      .Case<arith::RemUIOp>(of(K::RemU))
      .Case<arith::MinSIOp>(of(K::MinS))
      .Case<arith::MaxSIOp>(of(K::MaxS))
      .Case<arith::MinUIOp>(of(K::MinU))
      .Case<arith::MaxUIOp>(of(K::MaxU))
      .Case<arith::AndIOp>(of(K::And))
      .Case<arith::OrIOp>(of(K::Or))
      .Case<arith::XOrIOp>(of(K::Xor))
      .Case<arith::ShLIOp>(of(K::Shl))
      .Case<arith::ShRSIOp>(of(K::ShrS))
      .Case<arith::ShRUIOp>(of(K::ShrU))
      .Case([](arith::CmpIOp cmp) -> Result {
        return IntegerOp{K::Compare, *getIntegerWidth(cmp.getLhs().getType()), cmp.getPredicate()};
      })
      .Case<arith::IndexCastOp, arith::ExtSIOp, arith::TruncIOp>(widen(/*isSigned=*/true))
      .Case<arith::IndexCastUIOp, arith::ExtUIOp>(widen(/*isSigned=*/false))
      .Default([](Operation *) { return Result(); });
}

std::optional<int64_t> hostir::getConstantNumber(Operation *op) {
  auto constant = dyn_cast<arith::ConstantOp>(op);
  auto number = constant ? dyn_cast<IntegerAttr>(constant.getValue()) : IntegerAttr();
  if (!number || !getIntegerWidth(number.getType()))
    return std::nullopt;
  bool isBool = number.getType().isInteger(1);
  return isBool ? static_cast<int64_t>(number.getValue().getZExtValue())
                : number.getValue().getSExtValue();
}

std::optional<int64_t> hostir::evaluate(IntegerOp op, int64_t a, int64_t b) {
  using K = IntegerKind;
  unsigned width = op.width;
  uint64_t ua = unsign(a, width), ub = unsign(b, width);
  auto wrapped = [&](uint64_t value) { return wrap(static_cast<int64_t>(value), width); };
  bool overflows = a == std::numeric_limits<int64_t>::min() && b == -1;
  switch (op.opcode) {
  case K::Add:
    return wrapped(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  case K::Sub:
    return wrapped(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  case K::Mul:
    return wrapped(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  case K::DivS:
  case K::CeilDivS:
  case K::FloorDivS:
  case K::RemS:
    if (b == 0 || overflows)
      return std::nullopt;
    if (op.opcode == K::RemS)
      return wrap(a % b, width);
    if (op.opcode == K::DivS)
      return wrap(a / b, width);
    return wrap(op.opcode == K::CeilDivS ? llvm::divideCeilSigned(a, b)
                                         : llvm::divideFloorSigned(a, b),
                width);
  case K::DivU:
  case K::CeilDivU:
  case K::RemU:
    if (ub == 0)
      return std::nullopt;
    if (op.opcode == K::RemU)
      return wrapped(ua % ub);
    return wrapped(ua / ub + (op.opcode == K::CeilDivU && ua % ub != 0));
  case K::MinS:
    return std::min(a, b);
  case K::MaxS:
    return std::max(a, b);
  case K::MinU:
    return wrapped(std::min(ua, ub));
  case K::MaxU:
    return wrapped(std::max(ua, ub));
  case K::And:
    return a & b;
  case K::Or:
    return a | b;
  case K::Xor:
    return a ^ b;
  case K::Shl:
  case K::ShrS:
  case K::ShrU:
    if (ub >= width)
      return std::nullopt;
    if (op.opcode == K::ShrS)
      return wrap(a >> ub, width);
    return wrapped(op.opcode == K::Shl ? static_cast<uint64_t>(a) << ub : ua >> ub);
  case K::Compare:
    return compare(op.predicate, a, b, width);
  case K::Wrap:
    return wrap(a, width);
  case K::Unsign:
    return static_cast<int64_t>(ua);
  case K::Negate:
    return wrap(-a, width);
  }
  return std::nullopt;
}

std::string hostir::describeUndefined(IntegerOp op, int64_t b) {
  bool isShift = op.opcode >= IntegerKind::Shl && op.opcode <= IntegerKind::ShrU;
  if (isShift)
    return ("shift by " + Twine(unsign(b, op.width)) + " of " + Twine(unsigned(op.width)) + " bits")
        .str();
  return b == 0 ? "division by zero" : "the quotient overflows";
}

bool hostir::isLess(int64_t a, int64_t b, unsigned width, bool isUnsigned) {
  return isUnsigned ? unsign(a, width) < unsign(b, width) : a < b;
}

std::optional<int64_t> hostir::advance(int64_t index, int64_t step, unsigned width) {
  int64_t next = 0;
  if (llvm::AddOverflow(index, step, next) || wrap(next, width) != next)
    return std::nullopt;
  return next;
}

std::optional<int64_t> hostir::evaluateOp(Operation *op,
                                          function_ref<std::optional<int64_t>(Value)> valueOf) {
  if (std::optional<int64_t> constant = getConstantNumber(op))
    return constant;
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    std::optional<int64_t> condition = valueOf(select.getCondition());
    if (!condition)
      return std::nullopt;
    return valueOf(*condition ? select.getTrueValue() : select.getFalseValue());
  }
  std::optional<IntegerOp> integer = getIntegerOp(op);
  if (!integer)
    return std::nullopt;
  std::optional<int64_t> a = valueOf(op->getOperand(0));
  std::optional<int64_t> b = integer->isUnary() ? 0 : valueOf(op->getOperand(1));
  return a && b ? evaluate(*integer, *a, *b) : std::nullopt;
}
