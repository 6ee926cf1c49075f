//===- EvaluateKernel.cpp - a kernel on the CPU ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EvaluateKernel.h"

#include "tandem/Runtime/Device.h"
#include "tandem/Runtime/HostOps.h"

#include <gtest/gtest.h>

std::vector<float> tandem::test::evaluateKernel(const sp::Kernel &kernel,
                                                const std::vector<float> &inputs) {
  size_t count = kernel.operand_types()->size(), outputs = count - inputs.size();
  LaunchDesc desc;
  desc.code = kernel.code()->data();
  desc.codeSize = kernel.code()->size();
  std::vector<float> memory(count);
  std::vector<void *> pointers;
  for (uint32_t k = 0; k < count; ++k) {
    auto type = static_cast<DType>(kernel.operand_types()->Get(k));
    desc.operands.push_back({k, Layout::dense(type, {1})});
    pointers.push_back(&memory[k]);
    if (k < outputs)
      continue;
    memory[k] = inputs[k - outputs];
    if (isFloat(type))
      storeFromF32(type, &inputs[k - outputs], &memory[k], 1, 1);
  }
  auto operation = createCpuDevice()->prepareLaunch(desc);
  if (!operation.ok()) {
    ADD_FAILURE() << operation.status().message();
    return {};
  }
  Frame frame;
  frame.pointers = pointers.data();
  EXPECT_TRUE(static_cast<HostOperation &>(**operation).execute(frame).ok());
  std::vector<float> results(outputs);
  for (size_t k = 0; k < outputs; ++k) {
    results[k] = memory[k];
    if (DType type = desc.operands[k].layout.dtype; isFloat(type))
      loadAsF32(type, &memory[k], 1, 1, &results[k]);
  }
  return results;
}
