//===- FakeCuda.h - a driver of GPUs that are threads ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_SUPPORT_FAKECUDA_H
#define TANDEM_TEST_SUPPORT_FAKECUDA_H

#include <cuda.h>
#include <functional>
#include <map>
#include <string>

namespace tandem::fake {

using Work = std::function<void()>;
/// Does `work` when it is its turn in the stream, or puts it into the graph that is captured.
void add(CUstream stream, Work work);
/// By name: what a launch with these arguments does.
std::map<std::string, std::function<Work(void **)>> knownKernels();

} // namespace tandem::fake

#endif // TANDEM_TEST_SUPPORT_FAKECUDA_H
