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

/// One line per instruction, with all its fields: which of them it has depends on the operation.
void expression(Out out, const sp::Kernel &kernel) {
  uint64_t size = program::sizeOfVector(kernel.code());
  auto copy = program::allocateAligned(size);
  if (!copy)
    return;
  std::memcpy(copy.get(), kernel.code()->data(), size);
  const auto *code = flatbuffers::GetRoot<sp::Expression>(copy.get())->code();
  for (uint32_t i = 0; i < code->size(); ++i) {
    const sp::ExprInstr &instr = *code->Get(i);
    fmt::format_to(out, "  %{} = {} {} {} {}", i, sp::EnumNameExprOp(instr.op()), instr.a(),
                   instr.b(), instr.c());
    if (instr.op() == sp::ExprOp::constant)
      fmt::format_to(out, " {}", instr.imm());
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
