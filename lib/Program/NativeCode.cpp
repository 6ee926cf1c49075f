//===- NativeCode.cpp - programs that contain machine code ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/NativeCode.h"

#include "tandem/Program/stream_program_generated.h"

#include <fmt/format.h>

using namespace tandem;

Status tandem::refuseNativeCode(const Program &program) {
  auto refuse = [&](const sp::Kernel &kernel, sp::KernelFormat format) {
    return Status(Code::Unsupported,
                  fmt::format("@{}: kernel \"{}\" has native code ({}), which this job refuses",
                              program.name(), kernel.name()->str(),
                              sp::EnumNameKernelFormat(format)));
  };
  const auto *kernels = program.data().kernels();
  for (uint32_t i = 0; kernels && i < kernels->size(); ++i) {
    const sp::Kernel &kernel = *kernels->Get(i);
    if (kernel.format() == sp::KernelFormat::ptx || kernel.format() == sp::KernelFormat::amdgcn)
      return refuse(kernel, kernel.format());
    if (kernel.native() && kernel.native()->size() > 0)
      return refuse(kernel, kernel.native()->Get(0)->format());
  }
  return Status();
}
