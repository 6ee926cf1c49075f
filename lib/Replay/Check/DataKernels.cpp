//===- DataKernels.cpp - what commands compute, in a field ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Data.h"

#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tandem::check {

using namespace replay;
using sp::ExprOp;

namespace {

constexpr size_t kTile = 256;

Value bit(bool b) { return b ? 1 : 0; }

/// An unknown function of two operands whose order does not matter.
Value symmetric(ExprOp op, Value a, Value b) {
  return field::hash(static_cast<uint64_t>(op), std::min(a, b), std::max(a, b));
}

/// Whether a value is a whole number of 32 bits, which constants and truth values are and random
/// ones are not.
std::optional<int64_t> asInteger(Value a) {
  constexpr Value kLimit = uint64_t(1) << 31;
  if (a < kLimit)
    return static_cast<int64_t>(a);
  if (field::neg(a) <= kLimit)
    return -static_cast<int64_t>(field::neg(a));
  return std::nullopt;
}

/// A sum, difference or product of two i32: modulo 2^32 where both are known.
Value arithmetic(ExprOp op, Value a, Value b) {
  std::optional<int64_t> x = asInteger(a), y = asInteger(b);
  if (x && y) {
    int64_t exact = op == ExprOp::add_i32 ? *x + *y : op == ExprOp::sub_i32 ? *x - *y : *x * *y;
    return field::fromInteger(static_cast<int32_t>(static_cast<uint32_t>(exact)));
  }
  return op == ExprOp::add_i32   ? field::add(a, b)
         : op == ExprOp::sub_i32 ? field::sub(a, b)
                                 : field::mul(a, b);
}

/// As the compiler folds them: of whole numbers, of one operand twice, of 0 and -1.
Value bits(ExprOp op, Value a, Value b) {
  std::optional<int64_t> x = asInteger(a), y = asInteger(b);
  if (x && y) {
    auto p = static_cast<uint32_t>(*x), q = static_cast<uint32_t>(*y);
    uint32_t result = op == ExprOp::and_i32 ? p & q : op == ExprOp::or_i32 ? p | q : p ^ q;
    return field::fromInteger(static_cast<int32_t>(result));
  }
  if (a == b)
    return op == ExprOp::xor_i32 ? 0 : a;
  if (x)
    std::swap(a, b);
  Value ones = field::neg(1);
  if (b == 0)
    return op == ExprOp::and_i32 ? 0 : a;
  if (b == ones && op != ExprOp::xor_i32)
    return op == ExprOp::and_i32 ? a : ones;
  return symmetric(op, a, b);
}

Value shift(ExprOp op, Value a, Value b) {
  std::optional<int64_t> x = asInteger(a);
  if (a == 0 || b == 0)
    return a;
  if (op == ExprOp::shl_i32 && b < 32)
    return field::mul(a, uint64_t(1) << b);
  if (op == ExprOp::shr_i32 && b < 32 && x)
    return field::fromInteger(static_cast<int32_t>(*x) >> b);
  return field::hash(static_cast<uint64_t>(op), a, b);
}

/// What is finite stays with the field, which does not round: sums of numbers occur in any order.
std::optional<double> unlessFinite(double result) {
  return std::isfinite(result) ? std::nullopt : std::optional<double>(result);
}

/// An operation on numbers as the compiler folds it. It may fold in one of two programs only, where
/// an operand that is no constant there turns out to be one (x - x).
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
  case ExprOp::log:
    return std::log(f);
  case ExprOp::sqrt:
    return std::sqrt(f);
  case ExprOp::rsqrt:
    return 1 / std::sqrt(f);
  case ExprOp::tanh:
    return std::tanh(f);
  case ExprOp::erf:
    return std::erf(f);
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
  case ExprOp::to_i32:
    return std::trunc(a);
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
  // Of an i32, which need not be an f32, these give an i32 again.
  bool keepsWhole = op == ExprOp::abs || op == ExprOp::floor || op == ExprOp::ceil;
  if ((keepsWhole || op == ExprOp::to_i32) && std::fabs(*result) <= 0x1p31)
    if (*result == std::trunc(*result))
      return field::fromInteger(static_cast<int64_t>(*result));
  return field::fromFloat(static_cast<float>(*result));
}

Value apply(DataMode mode, ExprOp op, unsigned used, Value a, Value b, Value c) {
  if (std::optional<Value> folded = foldNumbers(op, used, a, b, c))
    return *folded;
  switch (op) {
  case ExprOp::add:
    return sum(mode, a, b);
  case ExprOp::sub:
    return sum(mode, a, field::neg(b));
  case ExprOp::add_i32:
  case ExprOp::sub_i32:
  case ExprOp::mul_i32:
    return arithmetic(op, a, b);
  case ExprOp::mul:
    return field::mul(a, b);
  case ExprOp::div:
    return field::mul(a, field::inverse(b));
  case ExprOp::fma:
    return sum(mode, field::mul(a, b), c);
  case ExprOp::neg:
    return field::neg(a);
  case ExprOp::abs:
    return std::min(a, field::neg(a));
  case ExprOp::max:
  case ExprOp::max_i32:
    return field::max(mode.order, a, b);
  case ExprOp::min:
  case ExprOp::min_i32:
    return field::min(mode.order, a, b);
  case ExprOp::cmp_lt:
  case ExprOp::cmp_lt_i32:
    return bit(field::order(mode.order, a) < field::order(mode.order, b));
  case ExprOp::cmp_le:
  case ExprOp::cmp_le_i32:
    return bit(field::order(mode.order, a) <= field::order(mode.order, b));
  case ExprOp::cmp_eq:
  case ExprOp::cmp_eq_i32:
    return bit(a == b);
  case ExprOp::select:
  case ExprOp::select_i32:
    return a ? b : c;
  case ExprOp::round_f16:
  case ExprOp::round_bf16:
  case ExprOp::from_i32:
    return a;
  case ExprOp::and_i32:
  case ExprOp::or_i32:
  case ExprOp::xor_i32:
    return bits(op, a, b);
  case ExprOp::shl_i32:
  case ExprOp::shr_i32:
    return shift(op, a, b);
  default:
    return field::hash(static_cast<uint64_t>(op), a, b, c);
  }
}

} // namespace

Value combine(DataMode mode, DType dtype, ReduceOp op, Value a, Value b) {
  if (op == ReduceOp::Sum)
    return dtype == DType::I32 ? field::add(a, b) : sum(mode, a, b);
  return op == ReduceOp::Max ? field::max(mode.order, a, b) : field::min(mode.order, a, b);
}

bool usesOrder(const Kernel &kernel) {
  return std::any_of(kernel.code.begin(), kernel.code.end(), [](const Instruction &instr) {
    switch (instr.op) {
    case ExprOp::max:
    case ExprOp::min:
    case ExprOp::cmp_lt:
    case ExprOp::cmp_le:
    case ExprOp::max_i32:
    case ExprOp::min_i32:
    case ExprOp::cmp_lt_i32:
    case ExprOp::cmp_le_i32:
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
      case ExprOp::load_i32:
        std::copy_n(inputs[instr.a].data() + base, n, out);
        break;
      case ExprOp::store:
      case ExprOp::store_i32:
        std::copy_n(registers[instr.a].data(), n, outputs[instr.b].data() + base);
        break;
      case ExprOp::constant:
        std::fill_n(out, n, field::fromFloat(instr.imm));
        break;
      case ExprOp::constant_i32:
        std::fill_n(out, n, field::fromInteger(static_cast<int32_t>(instr.a)));
        break;
      default: {
        // Operands that an operation does not have are 0, whatever the fields hold.
        unsigned used = registersRead(instr.op);
        const Value *a = used > 0 ? registers[instr.a].data() : nullptr;
        const Value *b = used > 1 ? registers[instr.b].data() : nullptr;
        const Value *c = used > 2 ? registers[instr.c].data() : nullptr;
        for (size_t i = 0; i < n; ++i)
          out[i] = apply(mode, instr.op, used, a ? a[i] : 0, b ? b[i] : 0, c ? c[i] : 0);
      }
      }
    }
  }
}

/// Sums of `Columns` rows of b with one row of a.
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
