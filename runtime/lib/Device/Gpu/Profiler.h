//===- Profiler.h - ranges that a profiler shows ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_PROFILER_H
#define TANDEM_LIB_DEVICE_GPU_PROFILER_H

namespace tandem::gpu {

/// A range of NVTX, in domain "tandem", on the calling thread while it lives. Without a profiler: a
/// test of one pointer. With one (it names its library in NVTX_INJECTION64_PATH), what the host
/// gives to the GPU meanwhile bears the range's name.
class ProfilerRange {
public:
  /// `name` may go before the range does.
  explicit ProfilerRange(const char *name);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange &) = delete;
  ProfilerRange &operator=(const ProfilerRange &) = delete;
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_PROFILER_H
