//===- EvaluateKernel.h - a kernel on the CPU ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_TARGET_EVALUATEKERNEL_H
#define TANDEM_TEST_UNIT_TARGET_EVALUATEKERNEL_H

#include "tandem/Program/stream_program_generated.h"

#include <vector>

namespace tandem::test {

/// The outputs of `kernel` for one element of each input, by the CPU device. Elements are f32, f16
/// or bf16, as numbers, or i32, as the float of their bits. Without MLIR's headers, whose names are
/// those of the runtime.
std::vector<float> evaluateKernel(const sp::Kernel &kernel, const std::vector<float> &inputs);

} // namespace tandem::test

#endif // TANDEM_TEST_UNIT_TARGET_EVALUATEKERNEL_H
