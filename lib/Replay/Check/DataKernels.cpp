//===- DataKernels.cpp - kernels in a finite field --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Data.h"

#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

namespace tandem::check {

using namespace replay;
using sp::ExprOp;
using sp::RegisterType;

namespace {

constexpr size_t kTile = 256;

Value bit(bool b) { return b ? 1 : 0; }

bool isFloat(RegisterType type) { return type == RegisterType::f32 || type == RegisterType::f64; }

/// An integer modulo 2^32 or 2^64, by type.
Value wrapped(RegisterType type, int64_t exact) {
  return field::fromInteger(type == RegisterType::i32 ? static_cast<int32_t>(exact) : exact);
}

/// An unknown commutative function.
Value symmetric(ExprOp op, Value a, Value b) {
  return field::hash(static_cast<uint64_t>(op), std::min(a, b), std::max(a, b));
}

/// The value as a 32-bit integer, if it is one. Constants and booleans are; random values are not.
std::optional<int64_t> asInteger(Value a) {
  constexpr Value kLimit = uint64_t(1) << 31;
  if (a < kLimit)
    return static_cast<int64_t>(a);
  if (field::neg(a) <= kLimit)
    return -static_cast<int64_t>(field::neg(a));
  return std::nullopt;
}

/// Integer operation: modulo 2^32 or 2^64 if both operands are known.
Value arithmetic(ExprOp op, RegisterType type, Value a, Value b) {
  std::optional<int64_t> x = asInteger(a), y = asInteger(b);
  bool known = x && y;
  switch (op) {
  case ExprOp::add:
    return known ? wrapped(type, *x + *y) : field::add(a, b);
  case ExprOp::sub:
    return known ? wrapped(type, *x - *y) : field::sub(a, b);
  case ExprOp::mul:
    return known ? wrapped(type, *x * *y) : field::mul(a, b);
  case ExprOp::div:
    if (y == 1)
      return a;
    return known ? wrapped(type, *y ? *x / *y : 0) : field::hash(static_cast<uint64_t>(op), a, b);
  default:
    if (y == 1)
      return 0;
    return known ? wrapped(type, *y ? *x % *y : 0) : field::hash(static_cast<uint64_t>(op), a, b);
  }
}

/// Bit operations, with the compiler's folds: of integers, of equal operands, of 0 and -1.
Value bits(ExprOp op, Value a, Value b) {
  std::optional<int64_t> x = asInteger(a), y = asInteger(b);
  if (x && y) {
    int64_t result = op == ExprOp::bit_and ? *x & *y : op == ExprOp::bit_or ? *x | *y : *x ^ *y;
    return field::fromInteger(result);
  }
  if (a == b)
    return op == ExprOp::bit_xor ? 0 : a;
  if (x)
    std::swap(a, b);
  Value ones = field::neg(1);
  if (b == 0)
    return op == ExprOp::bit_and ? 0 : a;
  if (b == ones && op != ExprOp::bit_xor)
    return op == ExprOp::bit_and ? a : ones;
  return symmetric(op, a, b);
}

Value shift(ExprOp op, Value a, Value b) {
  std::optional<int64_t> x = asInteger(a);
  if (a == 0 || b == 0)
    return a;
  if (op == ExprOp::shl && b < 32)
    return field::mul(a, uint64_t(1) << b);
  if (op == ExprOp::shr && b < 32 && x)
    return field::fromInteger(*x >> b);
  return field::hash(static_cast<uint64_t>(op), a, b);
}

/// Finite results stay in the field, which does not round: sums may come in any order.
std::optional<double> unlessFinite(double result) {
  return std::isfinite(result) ? std::nullopt : std::optional<double>(result);
}

/// Folds an operation on numbers like the compiler does. The compiler may fold it in only one of
/// two programs, if an operand becomes constant there (x - x).
std::optional<double> foldNumbers(ExprOp op, double a, double b, double c) {
  auto f = static_cast<float>(a);
  switch (op) {
  case ExprOp::add:
    return unlessFinite(a + b);
  case ExprOp::sub:
    return unlessFinite(a - b);
  case ExprOp::mul:
    return unlessFinite(a * b);
  case ExprOp::div:
    return std::isinf(b) ? a / b : unlessFinite(a / b);
  case ExprOp::fma:
    return unlessFinite(a * b + c);
  case ExprOp::abs:
    return std::fabs(a);
  case ExprOp::exp:
    return std::exp(f);
  case ExprOp::exp2:
    return std::exp2(f);
  case ExprOp::expm1:
    return std::expm1(f);
  case ExprOp::log:
    return std::log(f);
  case ExprOp::log1p:
    return std::log1p(f);
  case ExprOp::sqrt:
    return std::sqrt(f);
  case ExprOp::rsqrt:
    return 1 / std::sqrt(f);
  case ExprOp::tanh:
    return std::tanh(f);
  case ExprOp::erf:
    return std::erf(f);
  case ExprOp::erfc:
    return std::erfc(f);
  case ExprOp::sin:
    return std::sin(f);
  case ExprOp::cos:
    return std::cos(f);
  case ExprOp::pow:
    return std::pow(f, static_cast<float>(b));
  case ExprOp::floor:
    return std::floor(a);
  case ExprOp::ceil:
    return std::ceil(a);
  case ExprOp::round:
    return std::round(a);
  case ExprOp::roundeven:
    return std::nearbyint(a);
  case ExprOp::trunc:
    return std::trunc(a);
  case ExprOp::rem:
    return std::fmod(a, b);
  default:
    return std::nullopt;
  }
}

std::optional<Value> foldNumbers(ExprOp op, unsigned used, Value a, Value b, Value c) {
  std::optional<double> x = field::numberOf(a);
  std::optional<double> y = x && used > 1 ? field::numberOf(b) : x;
  std::optional<double> z = y && used > 2 ? field::numberOf(c) : y;
  std::optional<double> result = x && y && z ? foldNumbers(op, *x, *y, *z) : std::nullopt;
  if (!result)
    return std::nullopt;
  // An integer result stays an integer, even if it is no f32.
  if (std::fabs(*result) <= 0x1p31 && *result == std::trunc(*result))
    return field::fromInteger(static_cast<int64_t>(*result));
  return field::fromFloat(static_cast<float>(*result));
}

/// Converts a number to another type; floats round towards zero to integers.
Value convert(RegisterType from, RegisterType to, Value a) {
  std::optional<double> x = field::numberOf(a);
  if (!isFloat(from) || isFloat(to))
    return a;
  if (x && std::fabs(*x) <= 0x1p31)
    return field::fromInteger(static_cast<int64_t>(*x));
  return field::hash(static_cast<uint64_t>(ExprOp::convert), a);
}

/// `from`: the type of operand a.
Value apply(DataMode mode, const Instruction &instr, RegisterType from, unsigned used, Value a,
            Value b, Value c) {
  ExprOp op = instr.op;
  bool onFloats = isFloat(instr.type);
  if (onFloats && isFloat(from))
    if (std::optional<Value> folded = foldNumbers(op, used, a, b, c))
      return *folded;
  switch (op) {
  case ExprOp::add:
    return onFloats ? sum(mode, a, b) : arithmetic(op, instr.type, a, b);
  case ExprOp::sub:
    return onFloats ? sum(mode, a, field::neg(b)) : arithmetic(op, instr.type, a, b);
  case ExprOp::mul:
    return onFloats ? field::mul(a, b) : arithmetic(op, instr.type, a, b);
  case ExprOp::div:
    return onFloats ? field::mul(a, field::inverse(b)) : arithmetic(op, instr.type, a, b);
  case ExprOp::rem:
    return onFloats ? field::hash(static_cast<uint64_t>(op), a, b)
                    : arithmetic(op, instr.type, a, b);
  case ExprOp::fma:
    return sum(mode, field::mul(a, b), c);
  case ExprOp::exp_difference: {
    auto which = static_cast<uint64_t>(op);
    std::optional<double> scale = field::numberOf(c);
    bool isWeight =
        field::order(mode.order, a) <= field::order(mode.order, b) && !(scale && *scale <= 0);
    if (mode.rounded || !isWeight)
      return field::hash(which, a, b, c);
    return a == field::neg(field::kInfinity)
               ? 0
               : field::mul(field::hash(which, a, c), field::inverse(field::hash(which, b, c)));
  }
  case ExprOp::neg:
    return field::neg(a);
  case ExprOp::abs:
    if (std::optional<int64_t> x = asInteger(a))
      return wrapped(instr.type, std::abs(*x));
    return std::min(a, field::neg(a));
  case ExprOp::max:
    return field::max(mode.order, a, b);
  case ExprOp::min:
    return field::min(mode.order, a, b);
  case ExprOp::cmp_lt:
    return bit(field::order(mode.order, a) < field::order(mode.order, b));
  case ExprOp::cmp_le:
    return bit(field::order(mode.order, a) <= field::order(mode.order, b));
  case ExprOp::cmp_eq:
    return bit(a == b);
  case ExprOp::select:
    return a ? b : c;
  case ExprOp::round_f16:
    return stored(mode, DType::F16, a);
  case ExprOp::round_bf16:
    return stored(mode, DType::BF16, a);
  case ExprOp::round_f8E4M3FN:
    return stored(mode, DType::F8E4M3FN, a);
  case ExprOp::round_f8E5M2:
    return stored(mode, DType::F8E5M2, a);
  case ExprOp::convert:
  case ExprOp::convert_odd:
    return convert(from, instr.type, a);
  case ExprOp::convert_unsigned:
    if (std::optional<int64_t> x = asInteger(a); x && *x < 0)
      return field::add(a, field::power(2, from == RegisterType::i32 ? 32 : 64));
    return a;
  case ExprOp::wrap_i8:
    if (std::optional<int64_t> x = asInteger(a))
      return field::fromInteger(static_cast<int8_t>(*x));
    return a;
  case ExprOp::bit_and:
  case ExprOp::bit_or:
  case ExprOp::bit_xor:
    return bits(op, a, b);
  case ExprOp::shl:
  case ExprOp::shr:
    return shift(op, a, b);
  default:
    return field::hash(static_cast<uint64_t>(op), a, b, c);
  }
}

Value constant(const Instruction &instr) {
  float f = 0;
  double d = 0;
  switch (instr.type) {
  case RegisterType::f32:
    std::memcpy(&f, &instr.bits, sizeof f);
    return field::fromFloat(f);
  case RegisterType::f64:
    std::memcpy(&d, &instr.bits, sizeof d);
    return field::fromDouble(d);
  case RegisterType::i32:
    return field::fromInteger(static_cast<int32_t>(instr.bits));
  case RegisterType::i64:
    return field::fromInteger(static_cast<int64_t>(instr.bits));
  }
  return 0;
}

} // namespace

Value combine(DataMode mode, DType dtype, ReduceOp op, Value a, Value b) {
  if (op == ReduceOp::Sum)
    return isFloat(dtype) ? sum(mode, a, b) : field::add(a, b);
  return op == ReduceOp::Max ? field::max(mode.order, a, b) : field::min(mode.order, a, b);
}

bool usesOrder(const Kernel &kernel) {
  return std::any_of(kernel.code.begin(), kernel.code.end(), [](const Instruction &instr) {
    switch (instr.op) {
    case ExprOp::max:
    case ExprOp::min:
    case ExprOp::cmp_lt:
    case ExprOp::cmp_le:
    case ExprOp::exp_difference:
      return true;
    default:
      return false;
    }
  });
}

void evaluateKernel(DataMode mode, const Kernel &kernel, size_t count,
                    const std::vector<Values> &inputs, std::vector<Values> &outputs) {
  std::vector<Values> registers(kernel.code.size(), Values(std::min(count, kTile)));
  for (Values &output : outputs)
    output.resize(count);
  for (size_t base = 0; base < count; base += kTile) {
    size_t n = std::min(kTile, count - base);
    for (size_t r = 0; r < kernel.code.size(); ++r) {
      const Instruction &instr = kernel.code[r];
      Value *out = registers[r].data();
      switch (instr.op) {
      case ExprOp::load:
        std::copy_n(inputs[instr.a].data() + base, n, out);
        break;
      case ExprOp::store:
        std::copy_n(registers[instr.a].data(), n, outputs[instr.b].data() + base);
        break;
      case ExprOp::constant:
        std::fill_n(out, n, constant(instr));
        break;
      default: {
        // Missing operands are 0, whatever the fields contain.
        unsigned used = registersRead(instr.op);
        const Value *a = used > 0 ? registers[instr.a].data() : nullptr;
        const Value *b = used > 1 ? registers[instr.b].data() : nullptr;
        const Value *c = used > 2 ? registers[instr.c].data() : nullptr;
        RegisterType from =
            used > 0 ? resultType(kernel.code[instr.a].op, kernel.code[instr.a].type) : instr.type;
        for (size_t i = 0; i < n; ++i)
          out[i] = apply(mode, instr, from, used, a ? a[i] : 0, b ? b[i] : 0, c ? c[i] : 0);
      }
      }
    }
  }
}

/// Sums `Columns` rows of b with one row of a.
template <unsigned Columns>
static void dots(const Value *a, const Value *b, Value *out, int64_t k) {
  field::Wide sums[Columns] = {};
  for (int64_t begin = 0; begin < k; begin += field::kMaxProducts) {
    int64_t end = std::min<int64_t>(k, begin + field::kMaxProducts);
    for (int64_t i = begin; i < end; ++i)
      for (unsigned c = 0; c < Columns; ++c)
        sums[c] += field::Wide(a[i]) * b[c * k + i];
    for (field::Wide &sum : sums)
      sum = field::foldWide(sum);
  }
  for (unsigned c = 0; c < Columns; ++c)
    out[c] = field::reduce(sums[c]);
}

static Value dotRounded(const Value *a, const Value *b, int64_t k) {
  Value total = 0;
  for (int64_t i = 0; i < k; ++i)
    total = field::addRounded(total, field::mul(a[i], b[i]));
  return total;
}

void multiply(DataMode mode, const Value *a, const Value *b, Value *out, int64_t n, int64_t k) {
  int64_t j = 0;
  for (; mode.rounded && j < n; ++j)
    out[j] = dotRounded(a, b + j * k, k);
  for (; j + 4 <= n; j += 4)
    dots<4>(a, b + j * k, out + j, k);
  for (; j < n; ++j)
    dots<1>(a, b + j * k, out + j, k);
}

} // namespace tandem::check
