//===- DumpKernels.cpp - the kernels of a program as text ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramImpl.h"

#include <cstring>
#include <iterator>

namespace tandem {

namespace {

using Out = std::back_insert_iterator<std::string>;

/// The number that an instruction's bits are.
std::string constantText(const sp::ExprInstr &instr) {
  uint64_t bits = instr.bits();
  auto as = [&](auto value) {
    std::memcpy(&value, &bits, sizeof value);
    return fmt::format("{}", value);
  };
  switch (instr.type()) {
  case sp::RegisterType::f32:
    return as(float());
  case sp::RegisterType::f64:
    return as(double());
  case sp::RegisterType::i32:
    return as(int32_t());
  case sp::RegisterType::i64:
    return as(int64_t());
  }
  return "";
}

/// One line per instruction, with the fields that it has.
void expression(Out out, const sp::Kernel &kernel) {
  uint64_t size = program::sizeOfVector(kernel.code());
  auto copy = program::allocateAligned(size);
  if (!copy)
    return;
  std::memcpy(copy.get(), kernel.code()->data(), size);
  const auto *code = flatbuffers::GetRoot<sp::Expression>(copy.get())->code();
  for (uint32_t i = 0; i < code->size(); ++i) {
    const sp::ExprInstr &instr = *code->Get(i);
    std::string_view name = sp::EnumNameExprOp(instr.op());
    std::string_view type = sp::EnumNameRegisterType(instr.type());
    if (instr.op() == sp::ExprOp::store) {
      fmt::format_to(out, "  output {} = store {} %{}\n", instr.b(), type, instr.a());
      continue;
    }
    fmt::format_to(out, "  %{} = {} {}", i, name, type);
    if (instr.op() == sp::ExprOp::constant)
      fmt::format_to(out, " {}", constantText(instr));
    if (instr.op() == sp::ExprOp::load)
      fmt::format_to(out, " input {}", instr.a());
    const uint32_t fields[] = {instr.a(), instr.b(), instr.c()};
    for (unsigned k = 0; k < registersRead(instr.op()); ++k)
      fmt::format_to(out, " %{}", fields[k]);
    *out++ = '\n';
  }
}

} // namespace

std::string dumpKernels(const Program &program) {
  std::string result;
  Out out(result);
  const auto *kernels = program.data().kernels();
  for (uint32_t i = 0; i < program::sizeOfVector(kernels); ++i) {
    const sp::Kernel &kernel = *kernels->Get(i);
    fmt::format_to(out, "kernel k{} \"{}\"\n", i, kernel.name()->string_view());
    if (kernel.format() == sp::KernelFormat::expression)
      expression(out, kernel);
    for (uint32_t k = 0; k < program::sizeOfVector(kernel.native()); ++k) {
      const sp::NativeCode &native = *kernel.native()->Get(k);
      fmt::format_to(out, "kernel k{} {} target \"{}\"\n", i,
                     sp::EnumNameKernelFormat(native.format()),
                     native.target() ? native.target()->string_view() : std::string_view());
      if (native.format() == sp::KernelFormat::ptx)
        result.append(reinterpret_cast<const char *>(native.code()->data()), native.code()->size());
      *out++ = '\n';
    }
  }
  return result;
}

} // namespace tandem
