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

/// Number of GPUs that this process sees. Unsupported, with the reason, without a driver.
Expected<unsigned> countGpus();

/// "cuda:1" is GPU 1; "cuda" is GPU (`localRank` mod GPU count). Ranks may share a GPU. Opens the
/// driver's library here, cuBLASLt at the first matmul, and NCCL with channel ccl.
Expected<std::unique_ptr<Device>> createGpuDevice(std::string_view name, uint32_t localRank);

/// Channel "ccl": collectives and messages between GPUs by NCCL, one GPU per rank. Unsupported if
/// NCCL is not installed. TANDEM_NCCL_LIBRARY replaces libnccl.so.2.
Expected<std::unique_ptr<Transport>> createCclTransport();

/// Channel "peer": one-sided copies and signals between GPUs of one node with peer access; ranks
/// may share a GPU. Unsupported without a GPU driver.
Expected<std::unique_ptr<Transport>> createPeerTransport();

} // namespace tandem

#endif // TANDEM_RUNTIME_GPU_H
