//===- FakeCupti.h - what a profiler is told of the fake driver ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_SUPPORT_FAKECUPTI_H
#define TANDEM_TEST_SUPPORT_FAKECUPTI_H

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::fake {

/// Times in ns of one clock.
struct NodeTime {
  std::string name; ///< of a kernel, mangled
  uint64_t bytes;   ///< of a copy; 0: a kernel
  uint64_t begin, end;
};

struct GraphLaunch {
  int64_t gpu;         ///< from 1
  uint64_t begin, end; ///< of the call
  std::vector<NodeTime> nodes;
};

/// Loads the library that CUDA_INJECTION64_PATH names, the first time.
void loadInjection();
/// Whether a profiler has registered.
bool isProfiled();
/// Of a launch that has ended.
void note(GraphLaunch launch);

} // namespace tandem::fake

#endif // TANDEM_TEST_SUPPORT_FAKECUPTI_H
