//===- Kernels.cpp - elementwise kernels as expression code -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Code.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "tandem/Support/ElementTypes.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <limits>
#include <tuple>

using namespace mlir;

namespace tandem::target {

namespace {

using sp::RegisterType;

/// The register type of `type`: f16, bf16, f8E4M3FN and f8E5M2 are computed in f32, i1 (0 or 1), i8
/// and i16 in i32. None if kernels do not support it.
std::optional<RegisterType> registerTypeOf(Type type) {
  if (type.isF32() || type.isF16() || type.isBF16() || isFp8(type))
    return RegisterType::f32;
  if (type.isF64())
    return RegisterType::f64;
  if (type.isInteger(1) || type.isInteger(8) || type.isInteger(16) || type.isInteger(32))
    return RegisterType::i32;
  if (type.isInteger(64))
    return RegisterType::i64;
  return std::nullopt;
}

/// Emits one kernel. Narrow floats are rounded at stores and `arith.truncf`; i8 and i16 results are
/// reduced modulo 2^8 and 2^16 at once.
class ExpressionBuilder {
public:
  explicit ExpressionBuilder(hostir::KernelOp kernel) : kernel(kernel) {}
  FailureOr<std::vector<uint8_t>> run();

private:
  using Result = std::optional<uint32_t>;

  LogicalResult operation(Operation *op);
  Result compute(Operation *op);
  Result constantOf(arith::ConstantOp op);
  uint32_t compare(arith::CmpFOp op);
  uint32_t compare(arith::CmpIOp op);
  uint32_t truncate(arith::TruncFOp op);
  Result fromInteger(Operation *op, bool isSigned);
  uint32_t toOdd(Type from, uint32_t value, bool isSigned);
  Result toInteger(arith::FPToSIOp op);
  Result widen(Operation *op, bool isSigned);
  Result narrow(arith::TruncIOp op);
  Result bitcast(arith::BitcastOp op);
  uint32_t shift(Operation *op, sp::ExprOp which);
  uint32_t maxOrMinNumber(Operation *op, sp::ExprOp which);

  /// The register of an instruction; reuses an equal instruction.
  uint32_t emit(sp::ExprOp op, RegisterType type, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0,
                uint64_t bits = 0) {
    auto [known, isNew] = computed.try_emplace(
        std::make_tuple(static_cast<unsigned>(op), static_cast<unsigned>(type), a, b, c, bits),
        instrs.size());
    if (isNew)
      instrs.emplace_back(op, type, a, b, c, bits);
    return known->second;
  }
  uint32_t number(RegisterType type, double value) {
    bool single = type == RegisterType::f32;
    return emit(sp::ExprOp::constant, type, 0, 0, 0,
                single ? llvm::bit_cast<uint32_t>(static_cast<float>(value))
                       : llvm::bit_cast<uint64_t>(value));
  }
  uint32_t integer(RegisterType type, int64_t value) {
    bool narrow = type == RegisterType::i32;
    return emit(sp::ExprOp::constant, type, 0, 0, 0,
                narrow ? static_cast<uint32_t>(value) : static_cast<uint64_t>(value));
  }
  uint32_t negate(uint32_t truth) {
    return emit(sp::ExprOp::bit_xor, RegisterType::i32, truth, integer(RegisterType::i32, 1));
  }
  /// An instruction on i32 with a constant.
  uint32_t onInt(sp::ExprOp op, uint32_t value, int64_t number) {
    return emit(op, RegisterType::i32, value, integer(RegisterType::i32, number));
  }
  /// The low bits of an i32 register, as many as `type` has, as an unsigned number.
  uint32_t lowBits(Type type, uint32_t value) {
    return onInt(sp::ExprOp::bit_and, value, (int64_t(1) << type.getIntOrFloatBitWidth()) - 1);
  }
  /// The same as a signed number. Of other types than i8 and i16 the register itself.
  uint32_t wrap(Type type, uint32_t value) {
    if (type.isInteger(8))
      return emit(sp::ExprOp::wrap_i8, RegisterType::i32, value);
    if (type.isInteger(16))
      return onInt(sp::ExprOp::shr, onInt(sp::ExprOp::shl, value, 16), 16);
    return value;
  }
  uint32_t bitsOfHalf(uint32_t value);
  uint32_t halfOfBits(uint32_t bits);
  /// An i32 register's value as `type`.
  uint32_t convertTo(RegisterType type, uint32_t value) {
    return type == RegisterType::i32 ? value : emit(sp::ExprOp::convert, type, value);
  }
  uint32_t reg(Value value) const { return registers.lookup(value); }

  hostir::KernelOp kernel;
  llvm::DenseMap<Value, uint32_t> registers;
  llvm::DenseMap<std::tuple<unsigned, unsigned, uint32_t, uint32_t, uint32_t, uint64_t>, uint32_t>
      computed;
  std::vector<sp::ExprInstr> instrs;
};

/// Integers narrower than their register; truth values aside.
bool isNarrow(Type type) { return type.isInteger(8) || type.isInteger(16); }

/// Floats that f32 computes, rounded when they are stored.
bool isNarrowFloat(Type type) { return isa<FloatType>(type) && type.getIntOrFloatBitWidth() < 32; }

/// The type of the operands of a comparison or cast.
RegisterType operandType(Operation *op) {
  return registerTypeOf(op->getOperand(0).getType()).value_or(RegisterType::f32);
}
RegisterType resultTypeOf(Operation *op) {
  return registerTypeOf(op->getResult(0).getType()).value_or(RegisterType::f32);
}

ExpressionBuilder::Result ExpressionBuilder::constantOf(arith::ConstantOp op) {
  RegisterType type = resultTypeOf(op);
  if (auto value = dyn_cast<FloatAttr>(op.getValue()))
    return number(type, value.getValueAsDouble());
  auto value = dyn_cast<IntegerAttr>(op.getValue());
  if (!value)
    return std::nullopt;
  bool isTruth = value.getType().isInteger(1);
  return integer(type, isTruth ? !value.getValue().isZero() : value.getInt());
}

/// A store already rounds.
uint32_t ExpressionBuilder::truncate(arith::TruncFOp op) {
  uint32_t value = reg(op.getIn());
  if (operandType(op) == RegisterType::f64)
    value = emit(op.getType().isF32() ? sp::ExprOp::convert : sp::ExprOp::convert_odd,
                 RegisterType::f32, value);
  if (op.getType().isF32() ||
      llvm::all_of(op->getUsers(), [](Operation *user) { return isa<hostir::YieldOp>(user); }))
    return value;
  sp::ExprOp round = op.getType().isF16()                  ? sp::ExprOp::round_f16
                     : op.getType().isBF16()               ? sp::ExprOp::round_bf16
                     : isa<Float8E4M3FNType>(op.getType()) ? sp::ExprOp::round_f8E4M3FN
                                                           : sp::ExprOp::round_f8E5M2;
  return emit(round, RegisterType::f32, value);
}

/// Returns the other number if one is NaN.
uint32_t ExpressionBuilder::maxOrMinNumber(Operation *op, sp::ExprOp which) {
  RegisterType type = resultTypeOf(op);
  uint32_t a = reg(op->getOperand(0)), b = reg(op->getOperand(1));
  auto isNumber = [&](uint32_t x) { return emit(sp::ExprOp::cmp_eq, type, x, x); };
  uint32_t chosen = emit(sp::ExprOp::select, type, isNumber(b), emit(which, type, a, b), a);
  return emit(sp::ExprOp::select, type, isNumber(a), chosen, b);
}

uint32_t ExpressionBuilder::compare(arith::CmpIOp op) {
  using P = arith::CmpIPredicate;
  RegisterType type = operandType(op);
  uint32_t a = reg(op.getLhs()), b = reg(op.getRhs());
  P predicate = op.getPredicate();
  bool isUnsigned =
      predicate == P::ult || predicate == P::ule || predicate == P::ugt || predicate == P::uge;
  bool isTruth = op.getLhs().getType().isInteger(1);
  if (isUnsigned && !isTruth) {
    // Unsigned order is signed order with the sign bit flipped.
    int64_t least = type == RegisterType::i64 ? std::numeric_limits<int64_t>::min()
                                              : std::numeric_limits<int32_t>::min();
    a = emit(sp::ExprOp::bit_xor, type, a, integer(type, least));
    b = emit(sp::ExprOp::bit_xor, type, b, integer(type, least));
  }
  if (!isUnsigned && isTruth) // as signed numbers, booleans are 0 and -1
    std::swap(a, b);
  switch (predicate) {
  case P::eq:
    return emit(sp::ExprOp::cmp_eq, type, a, b);
  case P::ne:
    return negate(emit(sp::ExprOp::cmp_eq, type, a, b));
  case P::slt:
  case P::ult:
    return emit(sp::ExprOp::cmp_lt, type, a, b);
  case P::sle:
  case P::ule:
    return emit(sp::ExprOp::cmp_le, type, a, b);
  case P::sgt:
  case P::ugt:
    return emit(sp::ExprOp::cmp_lt, type, b, a);
  case P::sge:
  case P::uge:
    return emit(sp::ExprOp::cmp_le, type, b, a);
  }
  llvm_unreachable("unknown predicate");
}

uint32_t ExpressionBuilder::compare(arith::CmpFOp op) {
  using P = arith::CmpFPredicate;
  RegisterType type = operandType(op);
  uint32_t a = reg(op.getLhs()), b = reg(op.getRhs());
  auto less = [&](uint32_t x, uint32_t y) { return emit(sp::ExprOp::cmp_lt, type, x, y); };
  auto lessEqual = [&](uint32_t x, uint32_t y) { return emit(sp::ExprOp::cmp_le, type, x, y); };
  auto equal = [&](uint32_t x, uint32_t y) { return emit(sp::ExprOp::cmp_eq, type, x, y); };
  auto both = [&](sp::ExprOp e, uint32_t x, uint32_t y) {
    return emit(e, RegisterType::i32, x, y);
  };
  // x == x except for NaN.
  auto ordered = [&] { return both(sp::ExprOp::bit_and, equal(a, a), equal(b, b)); };
  switch (op.getPredicate()) {
  case P::AlwaysFalse:
    return integer(RegisterType::i32, 0);
  case P::AlwaysTrue:
    return integer(RegisterType::i32, 1);
  case P::OLT:
    return less(a, b);
  case P::OGT:
    return less(b, a);
  case P::OLE:
    return lessEqual(a, b);
  case P::OGE:
    return lessEqual(b, a);
  case P::OEQ:
    return equal(a, b);
  case P::ONE:
    return both(sp::ExprOp::bit_or, less(a, b), less(b, a));
  case P::ORD:
    return ordered();
  case P::UNO:
    return negate(ordered());
  case P::UEQ:
    return negate(both(sp::ExprOp::bit_or, less(a, b), less(b, a)));
  case P::UNE:
    return negate(equal(a, b));
  case P::ULT:
    return negate(lessEqual(b, a));
  case P::UGT:
    return negate(lessEqual(a, b));
  case P::ULE:
    return negate(less(b, a));
  case P::UGE:
    return negate(less(a, b));
  }
  llvm_unreachable("unknown predicate");
}

/// sitofp and uitofp.
ExpressionBuilder::Result ExpressionBuilder::fromInteger(Operation *op, bool isSigned) {
  Type from = op->getOperand(0).getType();
  RegisterType to = resultTypeOf(op);
  uint32_t value = reg(op->getOperand(0));
  if (from.isInteger(1) && isSigned) // -1
    value = emit(sp::ExprOp::neg, RegisterType::i32, value);
  if (isNarrow(from) && !isSigned)
    value = lowBits(from, value);
  bool hasUnsigned = from.isInteger(32) || from.isInteger(64);
  if (hasUnsigned && isNarrowFloat(op->getResult(0).getType()))
    return toOdd(from, value, isSigned);
  return emit(!isSigned && hasUnsigned ? sp::ExprOp::convert_unsigned : sp::ExprOp::convert, to,
              value);
}

/// An integer as f32, for a store as a narrower float.
uint32_t ExpressionBuilder::toOdd(Type from, uint32_t value, bool isSigned) {
  using E = sp::ExprOp;
  constexpr RegisterType i64 = RegisterType::i64, f32 = RegisterType::f32;
  if (isSigned)
    return emit(E::convert_odd, f32, value);
  if (from.isInteger(32))
    return emit(E::convert_odd, f32, emit(E::convert_unsigned, i64, value));
  // From 2^63 on: half of it, with a last bit that says whether bits are missing.
  uint32_t one = integer(i64, 1), most = integer(i64, std::numeric_limits<int64_t>::max());
  uint32_t high = emit(E::bit_and, i64, emit(E::shr, i64, value, one), most);
  uint32_t half = emit(E::bit_or, i64, high, emit(E::bit_and, i64, value, one));
  uint32_t odd = emit(E::convert_odd, f32, half);
  return emit(E::select, f32, emit(E::cmp_lt, i64, value, integer(i64, 0)),
              emit(E::add, f32, odd, odd), emit(E::convert_odd, f32, value));
}

/// Towards zero, saturating; NaN gives 0.
ExpressionBuilder::Result ExpressionBuilder::toInteger(arith::FPToSIOp op) {
  if (op.getType().isInteger(1))
    return std::nullopt;
  RegisterType type = resultTypeOf(op);
  uint32_t value = emit(sp::ExprOp::convert, type, reg(op.getIn()));
  if (!isNarrow(op.getType()))
    return value;
  int64_t end = int64_t(1) << (op.getType().getIntOrFloatBitWidth() - 1);
  return onInt(sp::ExprOp::min, onInt(sp::ExprOp::max, value, -end), end - 1);
}

/// extsi and extui.
ExpressionBuilder::Result ExpressionBuilder::widen(Operation *op, bool isSigned) {
  Type from = op->getOperand(0).getType();
  uint32_t value = reg(op->getOperand(0));
  if (from.isInteger(32) && !isSigned)
    return emit(sp::ExprOp::convert_unsigned, RegisterType::i64, value);
  if (from.isInteger(1) && isSigned)
    value = emit(sp::ExprOp::neg, RegisterType::i32, value);
  if (isNarrow(from) && !isSigned)
    value = lowBits(from, value);
  return convertTo(resultTypeOf(op), value);
}

ExpressionBuilder::Result ExpressionBuilder::narrow(arith::TruncIOp op) {
  uint32_t value = reg(op.getIn());
  if (operandType(op) == RegisterType::i64)
    value = emit(sp::ExprOp::convert, RegisterType::i32, value);
  return op.getType().isInteger(1) ? lowBits(op.getType(), value) : wrap(op.getType(), value);
}

/// The 16 bits of the f16 nearest to an f32 register.
uint32_t ExpressionBuilder::bitsOfHalf(uint32_t value) {
  using E = sp::ExprOp;
  uint32_t half = emit(E::round_f16, RegisterType::f32, value);
  uint32_t bits = emit(E::bitcast, RegisterType::i32, half);
  uint32_t size = onInt(E::bit_and, bits, 0x7fffffff), high = onInt(E::shr, size, 13);
  // Exponents begin at -15 instead of -127; infinities and NaN have the largest one.
  uint32_t normal = onInt(E::sub, high, 112 << 10);
  uint32_t special = onInt(E::bit_or, onInt(E::bit_and, high, 0x3ff), 0x7c00);
  // Below 2^-14 the bits are the number in units of 2^-24.
  uint32_t units = emit(E::mul, RegisterType::f32, emit(E::abs, RegisterType::f32, half),
                        number(RegisterType::f32, 0x1p24));
  uint32_t small = emit(E::convert, RegisterType::i32, units);
  uint32_t result =
      emit(E::select, RegisterType::i32, onInt(E::cmp_lt, size, 0x38800000), small, normal);
  result = emit(E::select, RegisterType::i32, onInt(E::cmp_lt, size, 0x7f800000), result, special);
  uint32_t sign = onInt(E::bit_and, onInt(E::shr, bits, 16), 0x8000);
  return emit(E::bit_or, RegisterType::i32, result, sign);
}

/// The inverse.
uint32_t ExpressionBuilder::halfOfBits(uint32_t bits) {
  using E = sp::ExprOp;
  uint32_t size = onInt(E::bit_and, bits, 0x7fff), high = onInt(E::shl, size, 13);
  uint32_t units = emit(E::mul, RegisterType::f32, emit(E::convert, RegisterType::f32, size),
                        number(RegisterType::f32, 0x1p-24));
  uint32_t small = emit(E::bitcast, RegisterType::i32, units);
  uint32_t result = emit(E::select, RegisterType::i32, onInt(E::cmp_lt, size, 0x400), small,
                         onInt(E::add, high, int64_t(112) << 23));
  result = emit(E::select, RegisterType::i32, onInt(E::cmp_lt, size, 0x7c00), result,
                onInt(E::add, high, int64_t(224) << 23));
  uint32_t sign = onInt(E::shl, onInt(E::bit_and, bits, 0x8000), 16);
  return emit(E::bitcast, RegisterType::f32, emit(E::bit_or, RegisterType::i32, result, sign));
}

/// Registers of 32 and 64 bits have the bits of memory; f16 and bf16 are in f32.
ExpressionBuilder::Result ExpressionBuilder::bitcast(arith::BitcastOp op) {
  Type from = op.getIn().getType(), to = op.getType();
  uint32_t value = reg(op.getIn());
  if (from == to)
    return value;
  if (from.getIntOrFloatBitWidth() < 16)
    return std::nullopt;
  if (from.isF16())
    value = bitsOfHalf(value);
  else if (from.isBF16())
    value = onInt(sp::ExprOp::shr,
                  emit(sp::ExprOp::bitcast, RegisterType::i32,
                       emit(sp::ExprOp::round_bf16, RegisterType::f32, value)),
                  16);
  else if (!from.isInteger(16))
    return emit(sp::ExprOp::bitcast, resultTypeOf(op), value);
  if (to.isF16())
    return halfOfBits(value);
  if (to.isBF16())
    return emit(sp::ExprOp::bitcast, RegisterType::f32, onInt(sp::ExprOp::shl, value, 16));
  return wrap(to, value);
}

/// Modulo the width, as in expression code for 32 and 64 bits.
uint32_t ExpressionBuilder::shift(Operation *op, sp::ExprOp which) {
  RegisterType type = resultTypeOf(op);
  uint32_t amount = reg(op->getOperand(1));
  if (Type result = op->getResult(0).getType(); isNarrow(result))
    amount = onInt(sp::ExprOp::bit_and, amount, result.getIntOrFloatBitWidth() - 1);
  return emit(which, type, reg(op->getOperand(0)), amount);
}

/// The instruction with the operands of an op, if there is one; of integers, before they wrap.
static std::optional<sp::ExprOp> instructionOf(Operation *op) {
  using E = sp::ExprOp;
  static const llvm::StringMap<E> instructions = {
      {arith::SelectOp::getOperationName(), E::select},
      {arith::AddFOp::getOperationName(), E::add},
      {arith::SubFOp::getOperationName(), E::sub},
      {arith::MulFOp::getOperationName(), E::mul},
      {arith::DivFOp::getOperationName(), E::div},
      {arith::RemFOp::getOperationName(), E::rem},
      {arith::NegFOp::getOperationName(), E::neg},
      {arith::MaximumFOp::getOperationName(), E::max},
      {arith::MinimumFOp::getOperationName(), E::min},
      {math::AbsFOp::getOperationName(), E::abs},
      {math::PowFOp::getOperationName(), E::pow},
      {math::ExpOp::getOperationName(), E::exp},
      {math::Exp2Op::getOperationName(), E::exp2},
      {math::ExpM1Op::getOperationName(), E::expm1},
      {math::LogOp::getOperationName(), E::log},
      {math::Log1pOp::getOperationName(), E::log1p},
      {math::SqrtOp::getOperationName(), E::sqrt},
      {math::RsqrtOp::getOperationName(), E::rsqrt},
      {math::TanhOp::getOperationName(), E::tanh},
      {math::ErfOp::getOperationName(), E::erf},
      {math::ErfcOp::getOperationName(), E::erfc},
      {math::SinOp::getOperationName(), E::sin},
      {math::CosOp::getOperationName(), E::cos},
      {math::FloorOp::getOperationName(), E::floor},
      {math::CeilOp::getOperationName(), E::ceil},
      {math::RoundOp::getOperationName(), E::round},
      {math::RoundEvenOp::getOperationName(), E::roundeven},
      {math::TruncOp::getOperationName(), E::trunc},
      {math::FmaOp::getOperationName(), E::fma},
      {hostir::ExpDifferenceOp::getOperationName(), E::exp_difference},
      {arith::AndIOp::getOperationName(), E::bit_and},
      {arith::OrIOp::getOperationName(), E::bit_or},
      {arith::XOrIOp::getOperationName(), E::bit_xor},
      {arith::AddIOp::getOperationName(), E::add},
      {arith::SubIOp::getOperationName(), E::sub},
      {arith::MulIOp::getOperationName(), E::mul},
      {arith::DivSIOp::getOperationName(), E::div},
      {arith::RemSIOp::getOperationName(), E::rem},
      {math::AbsIOp::getOperationName(), E::abs},
      {arith::MaxSIOp::getOperationName(), E::max},
      {arith::MinSIOp::getOperationName(), E::min}};
  auto found = instructions.find(op->getName().getStringRef());
  return found == instructions.end() ? std::nullopt : std::optional(found->second);
}

/// Integers of 8 and 16 bits wrap after each of these.
static bool wraps(Operation *op) {
  return isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::DivSIOp, arith::RemSIOp,
             math::AbsIOp, arith::MaxSIOp, arith::MinSIOp>(op);
}

ExpressionBuilder::Result ExpressionBuilder::compute(Operation *op) {
  using E = sp::ExprOp;
  if (op->getNumResults() != 1 || !registerTypeOf(op->getResult(0).getType()))
    return std::nullopt;
  for (Value operand : op->getOperands())
    if (!registerTypeOf(operand.getType()))
      return std::nullopt;
  Type resultType = op->getResult(0).getType();
  RegisterType type = resultTypeOf(op);
  bool onTruth = resultType.isInteger(1);
  auto operand = [&](unsigned i) { return reg(op->getOperand(i)); };
  // i8 and i16 wrap at once; i1 has no arithmetic.
  auto wrapped = [&](Result result) -> Result {
    if (onTruth)
      return std::nullopt;
    return wrap(resultType, *result);
  };
  // log2(x) = ln(x) / ln(2).
  auto scaledLog = [&](double base) {
    return Result(
        emit(E::mul, type, emit(E::log, type, operand(0)), number(type, 1.0 / std::log(base))));
  };
  if (std::optional<E> instruction = instructionOf(op)) {
    SmallVector<uint32_t, 3> inputs =
        llvm::map_to_vector<3>(op->getOperands(), [&](Value v) { return reg(v); });
    inputs.resize(3, 0);
    Result result(emit(*instruction, type, inputs[0], inputs[1], inputs[2]));
    return wraps(op) ? wrapped(result) : result;
  }
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](arith::ConstantOp o) { return constantOf(o); })
      .Case<arith::CmpFOp, arith::CmpIOp>([&](auto o) { return Result(compare(o)); })
      .Case([&](arith::MaxNumFOp o) { return Result(maxOrMinNumber(o, E::max)); })
      .Case([&](arith::MinNumFOp o) { return Result(maxOrMinNumber(o, E::min)); })
      .Case([&](math::Log2Op) { return scaledLog(2); })
      .Case([&](math::Log10Op) { return scaledLog(10); })
      .Case([&](arith::ShLIOp o) { return wrapped(shift(o, E::shl)); })
      .Case([&](arith::ShRSIOp o) { return wrapped(shift(o, E::shr)); })
      .Case([&](arith::ExtFOp o) {
        uint32_t value = operand(0);
        return Result(type == operandType(o) ? value : emit(E::convert, type, value));
      })
      .Case([&](arith::TruncFOp o) { return Result(truncate(o)); })
      .Case([&](arith::SIToFPOp o) { return fromInteger(o, true); })
      .Case([&](arith::UIToFPOp o) { return fromInteger(o, false); })
      .Case([&](arith::FPToSIOp o) { return toInteger(o); })
      .Case([&](arith::ExtSIOp o) { return widen(o, true); })
      .Case([&](arith::ExtUIOp o) { return widen(o, false); })
      .Case([&](arith::TruncIOp o) { return narrow(o); })
      .Case([&](arith::BitcastOp o) { return bitcast(o); })
      .Default(std::nullopt);
}

LogicalResult ExpressionBuilder::operation(Operation *op) {
  Result result = compute(op);
  if (!result) {
    InFlightDiagnostic diag = op->emitOpError("has no counterpart in expression code");
    if (op->getNumResults() == 1)
      diag << " for type " << op->getResult(0).getType();
    return diag;
  }
  registers[op->getResult(0)] = *result;
  return success();
}

FailureOr<std::vector<uint8_t>> ExpressionBuilder::run() {
  Block &body = kernel.getBody().front();
  for (BlockArgument arg : body.getArguments()) {
    std::optional<RegisterType> type = registerTypeOf(arg.getType());
    if (!type)
      return kernel.emitOpError("has no counterpart in expression code for type ") << arg.getType();
    registers[arg] = emit(sp::ExprOp::load, *type, arg.getArgNumber());
  }
  for (Operation &op : body.without_terminator())
    if (failed(operation(&op)))
      return failure();
  auto yield = dyn_cast<hostir::YieldOp>(body.back());
  if (!yield)
    return kernel.emitOpError("expected to end in hostir.yield");
  for (auto [number, value] : llvm::enumerate(yield.getValues()))
    emit(sp::ExprOp::store, *registerTypeOf(value.getType()), reg(value), number);
  flatbuffers::FlatBufferBuilder builder(1024);
  auto code = builder.CreateVectorOfStructs(instrs);
  builder.Finish(
      sp::CreateExpression(builder, body.getNumArguments(), yield.getNumOperands(), code));
  return std::vector<uint8_t>(builder.GetBufferPointer(),
                              builder.GetBufferPointer() + builder.GetSize());
}

} // namespace

FailureOr<std::vector<uint8_t>> buildExpression(hostir::KernelOp kernel) {
  return ExpressionBuilder(kernel).run();
}

} // namespace tandem::target
