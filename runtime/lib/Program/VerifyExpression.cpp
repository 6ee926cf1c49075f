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
} // namespace

Status verifyExpression(const uint8_t *code, uint64_t size) {
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
  const auto *expression = flatbuffers::GetRoot<sp::Expression>(bytes);
  uint32_t count = sizeOfVector(expression->code());
  if (count > kMaxInstructions)
    return invalid("expression: expected at most {} instructions, found {}", kMaxInstructions,
                   count);
  uint64_t operands = uint64_t(expression->inputs()) + expression->outputs();
  if (expression->outputs() == 0 || operands > kMaxKernelOperands)
    return invalid("expression: expected at least one output and at most {} operands, found {} "
                   "outputs and {} inputs",
                   kMaxKernelOperands, expression->outputs(), expression->inputs());
  uint64_t stored = 0; // a bit per output
  for (uint32_t i = 0; i < count; ++i) {
    const sp::ExprInstr &instr = *expression->code()->Get(i);
    // A register is the result of an earlier instruction that has one.
    auto isRegister = [&](uint32_t r) {
      return r < i && expression->code()->Get(r)->op() != sp::ExprOp::store;
    };
    unsigned registers = 0;
    switch (instr.op()) {
    case sp::ExprOp::load:
      if (instr.a() >= expression->inputs())
        return invalid("expression: instruction {}: input {} of {}", i, instr.a(),
                       expression->inputs());
      break;
    case sp::ExprOp::constant:
      break;
    case sp::ExprOp::store:
      if (instr.b() >= expression->outputs())
        return invalid("expression: instruction {}: output {} of {}", i, instr.b(),
                       expression->outputs());
      if (stored >> instr.b() & 1)
        return invalid("expression: instruction {}: output {} is stored twice", i, instr.b());
      stored |= uint64_t(1) << instr.b();
      registers = 1;
      break;
    case sp::ExprOp::add:
    case sp::ExprOp::sub:
    case sp::ExprOp::mul:
    case sp::ExprOp::div:
    case sp::ExprOp::max:
    case sp::ExprOp::min:
    case sp::ExprOp::pow:
    case sp::ExprOp::cmp_lt:
    case sp::ExprOp::cmp_le:
    case sp::ExprOp::cmp_eq:
      registers = 2;
      break;
    case sp::ExprOp::neg:
    case sp::ExprOp::abs:
    case sp::ExprOp::exp:
    case sp::ExprOp::exp2:
    case sp::ExprOp::log:
    case sp::ExprOp::sqrt:
    case sp::ExprOp::rsqrt:
    case sp::ExprOp::tanh:
    case sp::ExprOp::erf:
    case sp::ExprOp::sin:
    case sp::ExprOp::cos:
    case sp::ExprOp::floor:
    case sp::ExprOp::ceil:
      registers = 1;
      break;
    case sp::ExprOp::select:
    case sp::ExprOp::fma:
      registers = 3;
      break;
    default:
      return invalid("expression: instruction {}: unknown operation {}", i,
                     static_cast<unsigned>(instr.op()));
    }
    uint32_t used[] = {instr.a(), instr.b(), instr.c()};
    for (unsigned k = 0; k < registers; ++k)
      if (!isRegister(used[k]))
        return invalid("expression: instruction {}: register {} is not defined before its use", i,
                       used[k]);
  }
  uint64_t all =
      expression->outputs() == 64 ? ~uint64_t(0) : (uint64_t(1) << expression->outputs()) - 1;
  if (stored != all)
    return invalid("expression: an output is never stored");
  return Status();
}

} // namespace tandem::program
