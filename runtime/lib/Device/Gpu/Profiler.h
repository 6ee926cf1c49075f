//===- Profiler.h - ranges that a profiler shows ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_PROFILER_H
#define TANDEM_LIB_DEVICE_GPU_PROFILER_H

namespace tandem::gpu {

/// An NVTX range of domain "tandem" on the calling thread while the object lives. Costs one pointer
/// test without a profiler. With one (loaded from NVTX_INJECTION64_PATH), GPU work that the host
/// issues meanwhile carries the range's name.
class ProfilerRange {
public:
  /// `name` may be freed before the range ends.
  explicit ProfilerRange(const char *name);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange &) = delete;
  ProfilerRange &operator=(const ProfilerRange &) = delete;
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_PROFILER_H
