//===- Gpu.h - GPUs as devices ----------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_GPU_H
#define TANDEM_RUNTIME_GPU_H

#include "tandem/Runtime/Channel.h"
#include "tandem/Runtime/Device.h"

namespace tandem {

/// GPUs that this process sees; Unsupported, with the reason, where there is no driver.
Expected<unsigned> countGpus();

/// "cuda:1" is GPU 1; "cuda" is number `localRank` modulo the GPUs there are. Ranks may share one.
/// The vendor's libraries are opened here, at the first matmul (cuBLASLt) and by channel ccl.
Expected<std::unique_ptr<Device>> createGpuDevice(std::string_view name, uint32_t localRank);

/// Channel "ccl": collectives and messages between GPUs by NCCL, one GPU a rank. Unsupported where
/// NCCL is not installed. TANDEM_NCCL_LIBRARY names another than libnccl.so.2.
Expected<std::unique_ptr<Transport>> createCclTransport();

/// Channel "peer": one-sided copies and signals between GPUs of one node that reach each other's
/// memory; ranks may share a GPU. Unsupported where there is no driver of GPUs.
Expected<std::unique_ptr<Transport>> createPeerTransport();

namespace gpu {
struct DeviceState;
class Kernels;

/// Launches of the program's kernels that a device has given to its GPU, or captured, so far.
struct LaunchCounts {
  uint64_t ptx = 0;         ///< as the compiler's PTX
  uint64_t interpreted = 0; ///< as an expression
};

/// What a channel that works on a GPU's streams asks of its device (dynamic_cast; null: no GPU).
class GpuAccess {
public:
  virtual ~GpuAccess();
  virtual std::shared_ptr<DeviceState> shared() const = 0;
  /// Live as long as the device.
  virtual const Kernels &kernels() const = 0;
  /// Any thread.
  virtual LaunchCounts launches() const = 0;
};
} // namespace gpu

} // namespace tandem

#endif // TANDEM_RUNTIME_GPU_H
