//===- IndexValues.cpp - arithmetic on known numbers -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IndexValues.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

using Number = std::optional<int64_t>;

static Number compare(arith::CmpIPredicate predicate, int64_t a, int64_t b) {
  auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return a == b;
  case arith::CmpIPredicate::ne:
    return a != b;
  case arith::CmpIPredicate::slt:
    return a < b;
  case arith::CmpIPredicate::sle:
    return a <= b;
  case arith::CmpIPredicate::sgt:
    return a > b;
  case arith::CmpIPredicate::sge:
    return a >= b;
  case arith::CmpIPredicate::ult:
    return ua < ub;
  case arith::CmpIPredicate::ule:
    return ua <= ub;
  case arith::CmpIPredicate::ugt:
    return ua > ub;
  case arith::CmpIPredicate::uge:
    return ua >= ub;
  }
  return std::nullopt;
}

static Number evaluateBinary(Operation *op, int64_t a, int64_t b) {
  auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  auto checked = [](bool overflow, int64_t value) { return overflow ? Number() : Number(value); };
  int64_t result = 0;
  bool divides = b != 0 && !(a == INT64_MIN && b == -1);
  return TypeSwitch<Operation *, Number>(op)
      .Case([&](arith::AddIOp) { return checked(llvm::AddOverflow(a, b, result), result); })
      .Case([&](arith::SubIOp) { return checked(llvm::SubOverflow(a, b, result), result); })
      .Case([&](arith::MulIOp) { return checked(llvm::MulOverflow(a, b, result), result); })
      .Case([&](arith::DivSIOp) { return divides ? Number(a / b) : Number(); })
      .Case([&](arith::RemSIOp) { return divides ? Number(a % b) : Number(); })
      .Case([&](arith::DivUIOp) { return b != 0 ? Number(ua / ub) : Number(); })
      .Case([&](arith::RemUIOp) { return b != 0 ? Number(ua % ub) : Number(); })
      .Case([&](arith::FloorDivSIOp) {
        return divides ? Number(a / b - (a % b != 0 && (a < 0) != (b < 0))) : Number();
      })
      .Case([&](arith::CeilDivSIOp) {
        return divides ? Number(a / b + (a % b != 0 && (a < 0) == (b < 0))) : Number();
      })
      .Case(
          [&](arith::CeilDivUIOp) { return b != 0 ? Number(ua / ub + (ua % ub != 0)) : Number(); })
      .Case([&](arith::AndIOp) { return Number(a & b); })
      .Case([&](arith::OrIOp) { return Number(a | b); })
      .Case([&](arith::XOrIOp) { return Number(a ^ b); })
      .Case([&](arith::ShLIOp) { return ub < 62 ? Number(ua << ub) : Number(); })
      .Case([&](arith::ShRUIOp) { return ub < 64 ? Number(ua >> ub) : Number(); })
      .Case([&](arith::ShRSIOp) { return ub < 64 ? Number(a >> b) : Number(); })
      .Case([&](arith::MinSIOp) { return Number(std::min(a, b)); })
      .Case([&](arith::MaxSIOp) { return Number(std::max(a, b)); })
      .Case([&](arith::MinUIOp) { return Number(std::min(ua, ub)); })
      .Case([&](arith::MaxUIOp) { return Number(std::max(ua, ub)); })
      .Case([&](arith::CmpIOp cmp) { return compare(cmp.getPredicate(), a, b); })
      .Default([](Operation *) { return Number(); });
}

Number hostir::evaluateIndexOp(Operation *op, function_ref<Number(Value)> valueOf) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto number = dyn_cast<IntegerAttr>(constant.getValue());
    if (!number || number.getValue().getSignificantBits() > 64)
      return std::nullopt;
    // i1 as 0 and 1.
    return number.getType().isInteger(1) ? number.getValue().getZExtValue()
                                         : number.getValue().getSExtValue();
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    Number condition = valueOf(select.getCondition());
    if (!condition)
      return std::nullopt;
    return valueOf(*condition ? select.getTrueValue() : select.getFalseValue());
  }
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op))
    return valueOf(op->getOperand(0));
  if (op->getNumOperands() != 2 || !isa<arith::ArithDialect>(op->getDialect()))
    return std::nullopt;
  Number a = valueOf(op->getOperand(0)), b = valueOf(op->getOperand(1));
  if (!a || !b)
    return std::nullopt;
  Number result = evaluateBinary(op, *a, *b);
  // Of narrow integers only what neither wraps nor has a sign, which 64 bits would get wrong.
  auto narrow = dyn_cast<IntegerType>(op->getOperand(0).getType());
  if (!narrow || narrow.getWidth() >= 64)
    return result;
  if (narrow.getWidth() == 1)
    return isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op) ? result : std::nullopt;
  bool fits = *a >= 0 && *b >= 0 && result && *result >= 0 &&
              llvm::isUIntN(narrow.getWidth() - 1, static_cast<uint64_t>(*result));
  return fits ? result : std::nullopt;
}
