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

/// The kinds of GPUs that this build supports: "cuda", "hip". Not empty.
std::vector<std::string> gpuKinds();

/// Number of GPUs of a kind that this process sees. Unsupported, with the reason, without a driver.
Expected<unsigned> countGpus(std::string_view kind);

/// Success if a driver of any kind of GPU is there; else Unsupported, with the reason of each.
Status anyGpu();

/// "cuda:1" is GPU 1; "cuda" is GPU (`localRank` mod GPU count); "hip" likewise. Ranks may share a
/// GPU. Opens the driver's library here, the matrix library at the first matmul, and NCCL or RCCL
/// with the first channel ccl.
Expected<std::unique_ptr<Device>> createGpuDevice(std::string_view name, uint32_t localRank);

/// Channel "ccl": collectives and messages between GPUs by NCCL (device cuda) or RCCL (hip), one
/// GPU per rank. Unsupported if neither is installed. TANDEM_NCCL_LIBRARY and TANDEM_RCCL_LIBRARY
/// replace libnccl.so.2 and librccl.so.1.
Expected<std::unique_ptr<Transport>> createCclTransport();

/// Channel "peer": one-sided copies and signals between GPUs of one node with peer access; ranks
/// may share a GPU. Unsupported without a GPU driver.
Expected<std::unique_ptr<Transport>> createPeerTransport();

} // namespace tandem

#endif // TANDEM_RUNTIME_GPU_H
