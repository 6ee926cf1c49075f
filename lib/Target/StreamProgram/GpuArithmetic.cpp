//===- GpuArithmetic.cpp - values in a GPU's registers ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuArithmetic.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tandem::target {

/// A float of 8 bits: `exponent` bits of exponent, and what follows from them.
namespace {
struct Fp8 {
  explicit Fp8(Type type)
      : exponent(isa<Float8E4M3FNType>(type) ? 4 : 5), mantissa(7 - exponent),
        bias(128 - (1 << (exponent - 1))), most(exponent == 4 ? 0x7f : 0x7c),
        nan(exponent == 4 ? 0x7f : 0x7e), unit(std::ldexp(1.0f, exponent == 4 ? -9 : -16)) {}
  int64_t exponent, mantissa;
  int64_t bias; ///< what that of f32 has more
  int64_t most; ///< the largest magnitude: the NaN of f8E4M3FN, infinity of f8E5M2
  int64_t nan;
  float unit; ///< the least number
};
} // namespace

Value GpuArithmetic::fromFp8(Type fp8, Value bytes) {
  using P = arith::CmpIPredicate;
  Fp8 format(fp8);
  Type integers = shaped(b.getI32Type()), floats = shaped(b.getF32Type());
  Value bits = arith::ExtUIOp::create(b, loc, integers, bytes);
  auto integer = [&](int64_t number) { return integerLike(bits, number); };
  Value size = arith::AndIOp::create(b, loc, bits, integer(0x7f));
  Value sign = arith::ShLIOp::create(b, loc, arith::AndIOp::create(b, loc, bits, integer(0x80)),
                                     integer(24));
  Value small = arith::MulFOp::create(b, loc, arith::SIToFPOp::create(b, loc, floats, size),
                                      splat(floats, b.getF32FloatAttr(format.unit)));
  small = arith::BitcastOp::create(b, loc, integers, small);
  Value result = arith::AddIOp::create(
      b, loc, arith::ShLIOp::create(b, loc, size, integer(23 - format.mantissa)),
      integer(format.bias << 23));
  Value isSmall = compare(P::slt, size, int64_t(1) << format.mantissa);
  result = arith::SelectOp::create(b, loc, isSmall, small, result);
  if (format.exponent == 5)
    result = arith::SelectOp::create(b, loc, compare(P::eq, size, format.most), integer(0x7f800000),
                                     result);
  Value isNaN = compare(format.exponent == 4 ? P::sge : P::sgt, size, format.most);
  result = arith::SelectOp::create(b, loc, isNaN, integer(0x7fc00000), result);
  return arith::BitcastOp::create(b, loc, floats, arith::OrIOp::create(b, loc, result, sign));
}

Value GpuArithmetic::toFp8(Type fp8, Value x) {
  using P = arith::CmpIPredicate;
  Fp8 format(fp8);
  int64_t shift = 23 - format.mantissa;
  Type integers = shaped(b.getI32Type()), floats = shaped(b.getF32Type());
  Value bits = arith::BitcastOp::create(b, loc, integers, x);
  auto integer = [&](int64_t number) { return integerLike(bits, number); };
  Value size = arith::AndIOp::create(b, loc, bits, integer(0x7fffffff));
  // Below the least normal number the last bit of the sum is the unit.
  float rounder = std::ldexp(format.unit, 23);
  Value sum = arith::AddFOp::create(b, loc, arith::BitcastOp::create(b, loc, floats, size),
                                    splat(floats, b.getF32FloatAttr(rounder)));
  Value small = arith::SubIOp::create(b, loc, arith::BitcastOp::create(b, loc, integers, sum),
                                      integer(llvm::bit_cast<int32_t>(rounder)));
  Value odd = arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, size, integer(shift)),
                                    integer(1));
  Value result = arith::AddIOp::create(b, loc, arith::AddIOp::create(b, loc, size, odd),
                                       integer((int64_t(1) << (shift - 1)) - 1));
  result = arith::SubIOp::create(b, loc, arith::ShRUIOp::create(b, loc, result, integer(shift)),
                                 integer(format.bias << format.mantissa));
  result = arith::SelectOp::create(b, loc, compare(P::slt, size, (format.bias + 1) << 23), small,
                                   result);
  Value isLarge = arith::OrIOp::create(b, loc, compare(P::sge, size, 0x7f800000),
                                       compare(P::sgt, result, format.most));
  result = arith::SelectOp::create(b, loc, isLarge, integer(format.most), result);
  result = arith::SelectOp::create(b, loc, compare(P::sgt, size, 0x7f800000), integer(format.nan),
                                   result);
  Value sign = arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, bits, integer(24)),
                                     integer(0x80));
  result = arith::OrIOp::create(b, loc, result, sign);
  return arith::TruncIOp::create(b, loc, shaped(b.getI8Type()), result);
}

/// Whether an op lowers to instructions or can be expanded; f64 has no expansions.
static bool isSupported(Operation *op) {
  if (isa<arith::ArithDialect>(op->getDialect()))
    return true;
  if (isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::FloorOp, math::FmaOp, math::RoundOp,
          math::RoundEvenOp, math::SqrtOp, math::TruncOp>(op))
    return true;
  return !op->getResult(0).getType().isF64() &&
         isa<math::CosOp, math::ErfOp, math::ErfcOp, math::ExpOp, math::Exp2Op, math::ExpM1Op,
             math::Log10Op, math::Log1pOp, math::Log2Op, math::LogOp, math::PowFOp, math::RsqrtOp,
             math::SinOp, math::TanhOp>(op);
}

/// Division and remainder by 0 give 0; the least integer divided by -1 is itself. LLVM leaves both
/// undefined, so the instruction divides by 1 there.
Value GpuArithmetic::divide(Operation *op, Value x, Value y) {
  Value isZero = compare(arith::CmpIPredicate::eq, y, 0);
  Value isMinusOne = compare(arith::CmpIPredicate::eq, y, -1);
  Value special = arith::OrIOp::create(b, loc, isZero, isMinusOne);
  Value divisor = arith::SelectOp::create(b, loc, special, integerLike(y, 1), y);
  if (isa<arith::RemSIOp>(op))
    return arith::RemSIOp::create(b, loc, x, divisor);
  Value quotient = arith::DivSIOp::create(b, loc, x, divisor);
  Value negative = arith::SubIOp::create(b, loc, integerLike(x, 0), x);
  quotient = arith::SelectOp::create(b, loc, isMinusOne, negative, quotient);
  return arith::SelectOp::create(b, loc, isZero, integerLike(x, 0), quotient);
}

/// fmod of C for |x / y| < 2^24 (2^53 in f64): x - trunc(x / y) * y with one rounding is exact, up
/// to one y if the quotient was rounded up to the next integer.
Value GpuArithmetic::remainder(Value x, Value y) {
  using P = arith::CmpFPredicate;
  Type type = x.getType();
  auto number = [&](double value) {
    return splat(type, b.getFloatAttr(getElementTypeOrSelf(type), value));
  };
  Value quotient = math::TruncOp::create(b, loc, arith::DivFOp::create(b, loc, x, y));
  Value rest = math::FmaOp::create(b, loc, arith::NegFOp::create(b, loc, quotient), y, x);
  Value step = math::CopySignOp::create(b, loc, y, x);
  Value sign = math::CopySignOp::create(b, loc, number(1), x);
  Value along = arith::MulFOp::create(b, loc, rest, sign); // negative: the quotient was too large
  Value tooLarge = arith::CmpFOp::create(b, loc, P::OLT, along, number(0));
  Value size = math::AbsFOp::create(b, loc, y);
  Value tooSmall = arith::CmpFOp::create(b, loc, P::OGE, along, size);
  Value more = arith::AddFOp::create(b, loc, rest, step);
  Value less = arith::SubFOp::create(b, loc, rest, step);
  rest = arith::SelectOp::create(b, loc, tooLarge, more, rest);
  rest = arith::SelectOp::create(b, loc, tooSmall, less, rest);
  rest = math::CopySignOp::create(b, loc, rest, x);
  // x itself if y is infinite, unless x is infinite or a NaN.
  Value isFinite = arith::CmpFOp::create(b, loc, P::OLT, math::AbsFOp::create(b, loc, x),
                                         number(std::numeric_limits<double>::infinity()));
  Value isInfinite =
      arith::CmpFOp::create(b, loc, P::OEQ, size, number(std::numeric_limits<double>::infinity()));
  Value keeps = arith::AndIOp::create(b, loc, isFinite, isInfinite);
  return arith::SelectOp::create(b, loc, keeps, x, rest);
}

/// Towards zero, saturating; NaN gives 0. LLVM leaves out-of-range values undefined, so they are
/// replaced before the conversion.
Value GpuArithmetic::toInteger(Type type, Value x) {
  using P = arith::CmpFPredicate;
  Type from = x.getType();
  unsigned width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  double end = std::ldexp(1.0, static_cast<int>(width) - 1);
  auto number = [&](double value) {
    return splat(from, b.getFloatAttr(getElementTypeOrSelf(from), value));
  };
  // -end - 1 < x < end; for wide integers this is -end <= x, by the spacing of floats.
  Value above = arith::CmpFOp::create(b, loc, P::OGE, x, number(end));
  Value below = arith::CmpFOp::create(b, loc, P::OLT, x, number(-end));
  Value isNaN = arith::CmpFOp::create(b, loc, P::UNO, x, x);
  Value outside = arith::OrIOp::create(b, loc, arith::OrIOp::create(b, loc, above, below), isNaN);
  Value inside = arith::SelectOp::create(b, loc, outside, number(0), x);
  Value result = arith::FPToSIOp::create(b, loc, type, inside);
  auto integer = [&](int64_t value) {
    return splat(type, b.getIntegerAttr(getElementTypeOrSelf(type), value));
  };
  int64_t most = static_cast<int64_t>((uint64_t(1) << (width - 1)) - 1);
  result = arith::SelectOp::create(b, loc, above, integer(most), result);
  return arith::SelectOp::create(b, loc, below, integer(-most - 1), result);
}

/// An f64 or an integer of 32 or 64 bits as f32, rounded to odd (sp::ExprOp::convert_odd): a later
/// rounding to a narrower float is then the only one.
Value GpuArithmetic::toOdd(Value x, bool isSigned) {
  using P = arith::CmpFPredicate;
  Type wide = shaped(b.getF64Type()), single = shaped(b.getF32Type()),
       bits32 = shaped(b.getI32Type());
  auto integer = [&](int64_t number) { return integerLike(x, number); };
  auto choose = [&](Value condition, Value yes, Value no) {
    return arith::SelectOp::create(b, loc, condition, yes, no).getResult();
  };
  if (getElementTypeOrSelf(x.getType()).isInteger(64)) {
    // Large ones to at most 53 bits, also of unsigned ones: all below the last decide only whether
    // they are 0.
    int64_t most = int64_t(1) << 53;
    Value shifted = isSigned ? add(x, integer(most)) : x;
    Value isLarge = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, shifted,
                                          integer(isSigned ? 2 * most : most));
    Value low = arith::AndIOp::create(b, loc, x, integer(0xfff));
    Value rest = choose(compare(arith::CmpIPredicate::ne, low, 0), integer(0x800), integer(0));
    Value high = arith::AndIOp::create(b, loc, x, integer(~int64_t(0xfff)));
    x = choose(isLarge, arith::OrIOp::create(b, loc, high, rest), x);
  }
  if (isa<IntegerType>(getElementTypeOrSelf(x.getType())))
    x = isSigned ? arith::SIToFPOp::create(b, loc, wide, x).getResult()
                 : arith::UIToFPOp::create(b, loc, wide, x).getResult();
  Value nearest = arith::TruncFOp::create(b, loc, single, x);
  Value back = arith::ExtFOp::create(b, loc, wide, nearest);
  Value isBelow = arith::CmpFOp::create(b, loc, P::OLT, back, x);
  Value isAbove = arith::CmpFOp::create(b, loc, P::OGT, back, x);
  Value zero = splat(wide, b.getF64FloatAttr(0));
  Value isPositive = arith::CmpFOp::create(b, loc, P::OGT, x, zero);
  // An even number next to x: the other one is odd.
  Value bits = arith::BitcastOp::create(b, loc, bits32, nearest);
  Value grows = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, isBelow, isPositive);
  Value step = choose(grows, integerLike(bits, 1), integerLike(bits, -1));
  Value last = arith::AndIOp::create(b, loc, bits, integerLike(bits, 1));
  Value isInexact = arith::OrIOp::create(b, loc, isBelow, isAbove);
  Value moves =
      arith::AndIOp::create(b, loc, isInexact, compare(arith::CmpIPredicate::eq, last, 0));
  bits = choose(moves, add(bits, step), bits);
  return arith::BitcastOp::create(b, loc, single, bits);
}

Value GpuArithmetic::convert(Operation *op, Value operand, Type type) {
  if (isa<arith::ExtFOp>(op) && operand.getType() == type)
    return operand;
  if (isa<arith::TruncFOp>(op)) {
    Value value = operand;
    Type narrow = shaped(op->getResult(0).getType());
    if (value.getType() != type)
      value = narrow == type ? arith::TruncFOp::create(b, loc, type, value).getResult()
                             : toOdd(value, true);
    // A store already rounds.
    if (narrow == type ||
        llvm::all_of(op->getUsers(), [](Operation *user) { return isa<hostir::YieldOp>(user); }))
      return value;
    if (Type fp8 = getElementTypeOrSelf(op->getResult(0).getType()); isFp8(fp8))
      return fromFp8(fp8, toFp8(fp8, value));
    Value rounded = arith::TruncFOp::create(b, loc, narrow, value);
    return arith::ExtFOp::create(b, loc, type, rounded).getResult();
  }
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op) && type != shaped(op->getResult(0).getType()) &&
      op->getOperand(0).getType().getIntOrFloatBitWidth() >= 32)
    return toOdd(operand, isa<arith::SIToFPOp>(op));
  // f16 and bf16 are in f32.
  if (isa<arith::BitcastOp>(op) && op->getResult(0).getType().getIntOrFloatBitWidth() == 16) {
    Value value = operand;
    if (Type from = shaped(op->getOperand(0).getType()); value.getType() != from)
      value = arith::TruncFOp::create(b, loc, from, value);
    Type to = shaped(op->getResult(0).getType());
    value = arith::BitcastOp::create(b, loc, to, value);
    return to == type ? value : arith::ExtFOp::create(b, loc, type, value).getResult();
  }
  return {};
}

FailureOr<Value> GpuArithmetic::compute(Operation *op, ArrayRef<Value> operands) {
  if (isa<hostir::ExpDifferenceOp>(op)) {
    Value difference = arith::SubFOp::create(b, loc, operands[0], operands[1]);
    Value scaled = arith::MulFOp::create(b, loc, operands[2], difference);
    auto power = math::ExpOp::create(b, loc, scaled);
    if (isSupported(power))
      return power.getResult();
    return op->emitOpError("has no counterpart on a GPU for type ") << op->getResult(0).getType();
  }
  if (op->getNumResults() != 1 || !isSupported(op)) {
    InFlightDiagnostic diag = op->emitOpError("has no counterpart on a GPU");
    if (op->getNumResults() == 1)
      diag << " for type " << op->getResult(0).getType();
    return diag;
  }
  Type type = registerType(op->getResult(0).getType());
  auto number = [&](double value) {
    return splat(type, b.getFloatAttr(getElementTypeOrSelf(type), value));
  };
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto value = dyn_cast<FloatAttr>(constant.getValue()))
      return number(value.getValueAsDouble());
    return splat(type, constant.getValue());
  }
  if (Value converted = convert(op, operands[0], type))
    return converted;
  if (isa<arith::DivSIOp, arith::RemSIOp>(op))
    return divide(op, operands[0], operands[1]);
  if (isa<arith::RemFOp>(op))
    return remainder(operands[0], operands[1]);
  if (isa<arith::FPToSIOp>(op))
    return toInteger(type, operands[0]);
  if (isa<arith::ShLIOp, arith::ShRSIOp>(op)) {
    // Modulo the width.
    int64_t width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
    Value amount = arith::AndIOp::create(b, loc, operands[1], integerLike(operands[1], width - 1));
    if (isa<arith::ShLIOp>(op))
      return arith::ShLIOp::create(b, loc, operands[0], amount).getResult();
    return arith::ShRSIOp::create(b, loc, operands[0], amount).getResult();
  }
  // Upstream calls libdevice for these.
  if (isa<arith::MaxNumFOp>(op))
    return LLVM::MaxNumOp::create(b, loc, type, operands[0], operands[1]).getResult();
  if (isa<arith::MinNumFOp>(op))
    return LLVM::MinNumOp::create(b, loc, type, operands[0], operands[1]).getResult();
  if (isa<math::Log10Op>(op)) {
    Value log = math::LogOp::create(b, loc, operands[0]);
    return arith::MulFOp::create(b, loc, log, number(1.0 / std::log(10.0))).getResult();
  }
  OperationState state(loc, op->getName(), operands, type,
                       op->getDiscardableAttrDictionary().getValue());
  state.propertiesAttr = op->getPropertiesAsAttribute();
  return b.create(state)->getResult(0);
}

} // namespace tandem::target
