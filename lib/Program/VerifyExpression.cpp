//===- VerifyExpression.cpp - checks of CPU kernels ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramImpl.h"

#include <cstring>

namespace tandem::program {

namespace {
constexpr uint32_t kMaxInstructions = 4096;
constexpr uint32_t kMaxKernelOperands = 64;

enum class Register : uint8_t { None, Float, Int };

/// What an operation takes and gives.
struct Signature {
  bool known = false;
  Register result = Register::None;
  uint8_t count = 0;
  Register operands[3] = {Register::None, Register::None, Register::None};
};

Signature signatureOf(sp::ExprOp op) {
  using E = sp::ExprOp;
  constexpr Register F = Register::Float, I = Register::Int, N = Register::None;
  switch (op) {
  case E::load:
  case E::constant:
    return {true, F, 0, {N, N, N}};
  case E::load_i32:
  case E::constant_i32:
    return {true, I, 0, {N, N, N}};
  case E::store:
    return {true, N, 1, {F, N, N}};
  case E::store_i32:
    return {true, N, 1, {I, N, N}};
  case E::add:
  case E::sub:
  case E::mul:
  case E::div:
  case E::max:
  case E::min:
  case E::pow:
  case E::cmp_lt:
  case E::cmp_le:
  case E::cmp_eq:
    return {true, F, 2, {F, F, N}};
  case E::neg:
  case E::abs:
  case E::exp:
  case E::exp2:
  case E::log:
  case E::sqrt:
  case E::rsqrt:
  case E::tanh:
  case E::erf:
  case E::sin:
  case E::cos:
  case E::floor:
  case E::ceil:
  case E::round_f16:
  case E::round_bf16:
    return {true, F, 1, {F, N, N}};
  case E::select:
  case E::fma:
    return {true, F, 3, {F, F, F}};
  case E::add_i32:
  case E::sub_i32:
  case E::mul_i32:
  case E::max_i32:
  case E::min_i32:
  case E::and_i32:
  case E::or_i32:
  case E::xor_i32:
  case E::shl_i32:
  case E::shr_i32:
    return {true, I, 2, {I, I, N}};
  case E::cmp_lt_i32:
  case E::cmp_le_i32:
  case E::cmp_eq_i32:
    return {true, F, 2, {I, I, N}};
  case E::select_i32:
    return {true, I, 3, {F, I, I}};
  case E::from_i32:
    return {true, F, 1, {I, N, N}};
  case E::to_i32:
    return {true, I, 1, {F, N, N}};
  }
  return {};
}

std::string_view nameOf(Register type) { return type == Register::Int ? "i32" : "f32"; }

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
    if (!signature.known)
      return invalid("unknown operation {}", static_cast<unsigned>(instr.op()));
    uint32_t used[] = {instr.a(), instr.b(), instr.c()};
    for (unsigned k = 0; k < signature.count; ++k)
      TANDEM_RETURN_IF_ERROR(operand(used[k], signature.operands[k]));
    results.push_back(signature.result);
    bool isInt = instr.op() == sp::ExprOp::load_i32 || instr.op() == sp::ExprOp::store_i32;
    switch (instr.op()) {
    case sp::ExprOp::load:
    case sp::ExprOp::load_i32:
      return access(expression.outputs(), instr.a(), expression.inputs(), "input", isInt);
    case sp::ExprOp::store:
    case sp::ExprOp::store_i32:
      TANDEM_RETURN_IF_ERROR(access(0, instr.b(), expression.outputs(), "output", isInt));
      if (stored >> instr.b() & 1)
        return invalid("output {} is stored twice", instr.b());
      stored |= uint64_t(1) << instr.b();
      return Status();
    default:
      return Status();
    }
  }

  Status operand(uint32_t reg, Register expected) const {
    if (reg >= results.size() || results[reg] == Register::None)
      return invalid("register {} is not defined before its use", reg);
    if (results[reg] != expected)
      return invalid("register {}: expected {}, found {}", reg, nameOf(expected),
                     nameOf(results[reg]));
    return Status();
  }

  Status access(uint32_t first, uint32_t number, uint32_t count, std::string_view what,
                bool isInt) {
    if (number >= count)
      return invalid("{} {} of {}", what, number, count);
    if (isInt)
      types.mustBeI32 |= uint64_t(1) << (first + number);
    return Status();
  }

  const sp::Expression &expression;
  ExpressionTypes &types;
  std::vector<Register> results;
  uint64_t stored = 0; // a bit per output
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

} // namespace tandem::program

unsigned tandem::registersRead(sp::ExprOp op) { return program::signatureOf(op).count; }
