//===- VerifyExpression.cpp - checks of CPU kernels ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramImpl.h"

#include <array>
#include <cstring>
#include <optional>

namespace tandem::program {

namespace {
constexpr uint32_t kMaxInstructions = 4096;
constexpr uint32_t kMaxKernelOperands = 64;

using sp::ExprOp;
using sp::RegisterType;

/// Types that an operation may have, a bit per RegisterType.
constexpr unsigned kF32 = 1, kFloats = 1 | 2, kI32 = 4, kIntegers = 4 | 8, kAll = 15;

/// Operands and result of an operation.
struct Signature {
  unsigned types = 0; ///< 0: there is no such operation
  uint8_t count = 0;  ///< registers it reads: fields a, b, c
};

Signature signatureOf(ExprOp op) {
  using E = ExprOp;
  struct Row {
    Signature signature;
    std::initializer_list<ExprOp> ops;
  };
  static const Row rows[] = {
      {{kAll, 0}, {E::load, E::constant}},
      {{kAll, 1}, {E::store, E::neg, E::abs, E::convert, E::convert_unsigned, E::bitcast}},
      {{kAll, 2}, {E::add, E::sub, E::mul, E::div, E::rem, E::max, E::min}},
      {{kAll, 2}, {E::cmp_lt, E::cmp_le, E::cmp_eq}},
      {{kAll, 3}, {E::select}},
      {{kFloats, 1}, {E::exp, E::exp2, E::expm1, E::log, E::log1p, E::sqrt, E::rsqrt, E::tanh}},
      {{kFloats, 1}, {E::erf, E::erfc, E::sin, E::cos}},
      {{kFloats, 1}, {E::floor, E::ceil, E::round, E::roundeven, E::trunc}},
      {{kFloats, 2}, {E::pow}},
      {{kFloats, 3}, {E::fma, E::exp_difference}},
      {{kF32, 1},
       {E::round_f16, E::round_bf16, E::round_f8E4M3FN, E::round_f8E5M2, E::convert_odd}},
      {{kIntegers, 2}, {E::bit_and, E::bit_or, E::bit_xor, E::shl, E::shr}},
      {{kI32, 1}, {E::wrap_i8}},
  };
  static const std::array<Signature, 256> byOp = [] {
    std::array<Signature, 256> table{};
    for (const Row &row : rows)
      for (ExprOp known : row.ops)
        table[static_cast<uint8_t>(known)] = row.signature;
    return table;
  }();
  return byOp[static_cast<uint8_t>(op)];
}

std::string_view nameOf(RegisterType type) { return sp::EnumNameRegisterType(type); }
bool isFloat(RegisterType type) { return (kFloats >> static_cast<unsigned>(type) & 1) != 0; }
bool isWide(RegisterType type) { return type == RegisterType::f64 || type == RegisterType::i64; }

class ExpressionVerifier {
public:
  ExpressionVerifier(const sp::Expression &expression, ExpressionTypes &types)
      : expression(expression), types(types) {}

  Status run() {
    uint32_t count = sizeOfVector(expression.code());
    if (count > kMaxInstructions)
      return invalid("expression: expected at most {} instructions, found {}", kMaxInstructions,
                     count);
    uint64_t operands = uint64_t(expression.inputs()) + expression.outputs();
    if (expression.outputs() == 0 || operands > kMaxKernelOperands)
      return invalid("expression: expected at least one output and at most {} operands, found {} "
                     "outputs and {} inputs",
                     kMaxKernelOperands, expression.outputs(), expression.inputs());
    types.outputs = expression.outputs();
    types.inputs = expression.inputs();
    types.accessedAs.assign(operands, std::nullopt);
    for (uint32_t i = 0; i < count; ++i)
      if (Status status = instruction(*expression.code()->Get(i)); !status.ok())
        return status.withPrefix(fmt::format("expression: instruction {}: ", i));
    uint64_t all =
        expression.outputs() == 64 ? ~uint64_t(0) : (uint64_t(1) << expression.outputs()) - 1;
    if (stored != all)
      return invalid("expression: an output is never stored");
    return Status();
  }

private:
  Status instruction(const sp::ExprInstr &instr) {
    Signature signature = signatureOf(instr.op());
    if (!signature.types)
      return invalid("unknown operation {}", static_cast<unsigned>(instr.op()));
    RegisterType type = instr.type();
    if (static_cast<unsigned>(type) > static_cast<unsigned>(RegisterType::MAX))
      return invalid("unknown type {}", static_cast<unsigned>(type));
    if (!(signature.types >> static_cast<unsigned>(type) & 1))
      return invalid("{} has no type {}", sp::EnumNameExprOp(instr.op()), nameOf(type));
    TANDEM_RETURN_IF_ERROR(operands(instr, signature.count));
    if (instr.op() == ExprOp::store)
      results.emplace_back();
    else
      results.emplace_back(resultType(instr.op(), type));
    if (instr.op() == ExprOp::load)
      return access(expression.outputs(), instr.a(), expression.inputs(), "input", type);
    if (instr.op() != ExprOp::store)
      return Status();
    TANDEM_RETURN_IF_ERROR(access(0, instr.b(), expression.outputs(), "output", type));
    if (stored >> instr.b() & 1)
      return invalid("output {} is stored twice", instr.b());
    stored |= uint64_t(1) << instr.b();
    return Status();
  }

  Status operands(const sp::ExprInstr &instr, unsigned count) const {
    RegisterType type = instr.type();
    switch (instr.op()) {
    case ExprOp::convert:
    case ExprOp::convert_unsigned:
    case ExprOp::convert_odd:
    case ExprOp::bitcast: {
      TANDEM_RETURN_IF_ERROR(defined(instr.a()));
      RegisterType from = *results[instr.a()];
      bool fits = from != type;
      if (instr.op() == ExprOp::bitcast)
        fits = fits && isWide(from) == isWide(type);
      if (instr.op() == ExprOp::convert_unsigned)
        fits = fits && !isFloat(from) && type != RegisterType::i32;
      if (!fits)
        return invalid("{} from {} to {}", sp::EnumNameExprOp(instr.op()), nameOf(from),
                       nameOf(type));
      return Status();
    }
    case ExprOp::select:
      TANDEM_RETURN_IF_ERROR(operand(instr.a(), RegisterType::i32));
      TANDEM_RETURN_IF_ERROR(operand(instr.b(), type));
      return operand(instr.c(), type);
    default:
      uint32_t used[] = {instr.a(), instr.b(), instr.c()};
      for (unsigned k = 0; k < count; ++k)
        TANDEM_RETURN_IF_ERROR(operand(used[k], type));
      return Status();
    }
  }

  Status defined(uint32_t reg) const {
    if (reg >= results.size() || !results[reg])
      return invalid("register {} is not defined before its use", reg);
    return Status();
  }

  Status operand(uint32_t reg, RegisterType expected) const {
    TANDEM_RETURN_IF_ERROR(defined(reg));
    if (*results[reg] != expected)
      return invalid("register {}: expected {}, found {}", reg, nameOf(expected),
                     nameOf(*results[reg]));
    return Status();
  }

  Status access(uint32_t first, uint32_t number, uint32_t count, std::string_view what,
                RegisterType type) {
    if (number >= count)
      return invalid("{} {} of {}", what, number, count);
    std::optional<RegisterType> &known = types.accessedAs[first + number];
    if (known && *known != type)
      return invalid("{} {} is accessed as {} and as {}", what, number, nameOf(*known),
                     nameOf(type));
    known = type;
    return Status();
  }

  const sp::Expression &expression;
  ExpressionTypes &types;
  std::vector<std::optional<RegisterType>> results; ///< none: of a store
  uint64_t stored = 0;                              // a bit per output
};

} // namespace

Status verifyExpression(const uint8_t *code, uint64_t size, ExpressionTypes &types) {
  // The code is a byte vector inside another buffer, so its own fields may lie at odd addresses
  // there.
  auto copy = allocateAligned(size);
  if (!copy)
    return Status(Code::OutOfMemory, "no memory for the expression");
  if (size)
    std::memcpy(copy.get(), code, size);
  const auto *bytes = reinterpret_cast<const uint8_t *>(copy.get());
  flatbuffers::Verifier verifier(bytes, size);
  if (!verifier.VerifyBuffer<sp::Expression>(nullptr))
    return invalid("expression: not a valid FlatBuffer");
  return ExpressionVerifier(*flatbuffers::GetRoot<sp::Expression>(bytes), types).run();
}

Status checkAccess(const ExpressionTypes &types, uint32_t operand, DType dtype) {
  const std::optional<RegisterType> &type = types.accessedAs[operand];
  if (type && *type != registerOf(dtype))
    return invalid("the expression accesses it as {}, found {}", nameOf(*type), toString(dtype));
  return Status();
}

} // namespace tandem::program

unsigned tandem::registersRead(sp::ExprOp op) { return program::signatureOf(op).count; }

tandem::sp::RegisterType tandem::resultType(sp::ExprOp op, sp::RegisterType type) {
  bool compares = op == sp::ExprOp::cmp_lt || op == sp::ExprOp::cmp_le || op == sp::ExprOp::cmp_eq;
  return compares ? sp::RegisterType::i32 : type;
}

tandem::sp::RegisterType tandem::registerOf(DType dtype) {
  switch (dtype) {
  case DType::F32:
  case DType::F16:
  case DType::BF16:
  case DType::F8E4M3FN:
  case DType::F8E5M2:
    return sp::RegisterType::f32;
  case DType::F64:
    return sp::RegisterType::f64;
  case DType::I64:
    return sp::RegisterType::i64;
  case DType::I32:
  case DType::I8:
  case DType::I1:
  case DType::I16:
    break;
  }
  return sp::RegisterType::i32;
}
