//===- Registry.cpp - devices and transports by name ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/Registry.h"

#if TANDEM_HAVE_UCX
#include "tandem/Runtime/Ucx.h"
#endif
#if TANDEM_HAVE_GPU
#include "tandem/Runtime/Gpu.h"
#endif

#include <algorithm>
#include <fmt/format.h>

namespace tandem {

Expected<std::unique_ptr<Device>> createDevice(std::string_view name, const CpuDeviceOptions &cpu,
                                               uint32_t localRank) {
  if (name == "cpu")
    return createCpuDevice(cpu);
  if (name == "null")
    return createNullDevice();
  std::string_view kind = name.substr(0, name.find(':'));
#if TANDEM_HAVE_GPU
  std::vector<std::string> kinds = gpuKinds();
  if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end())
    return createGpuDevice(name, localRank);
#else
  static_cast<void>(localRank);
#endif
  if (kind == "cuda" || kind == "hip")
    return Status(Code::Unsupported, kind == "cuda" ? "this runtime was built without CUDA"
                                                    : "this runtime was built without HIP");
  return Status(Code::Unsupported,
                "unknown device \"" + std::string(name) + "\", expected cpu, null, cuda or hip");
}

std::string whyNoGpu(uint32_t gpus, std::string_view kind) {
#if TANDEM_HAVE_GPU
  auto count = countGpus(kind);
  if (!count)
    return count.status().message();
  return *count < gpus ? fmt::format("expected {} GPUs, this machine has {}", gpus, *count) : "";
#else
  return fmt::format("expected {} GPUs, this runtime was built without {}", gpus, kind);
#endif
}

Expected<std::unique_ptr<Transport>> createTransport(std::string_view name) {
  if (name == "ucx")
#if TANDEM_HAVE_UCX
    return createUcxTransport();
#else
    return Status(Code::Unsupported, "this runtime was built without UCX");
#endif
  if (name == "ccl")
#if TANDEM_HAVE_NCCL
    return createCclTransport();
#else
    return Status(Code::Unsupported, "this runtime was built without NCCL or RCCL");
#endif
  if (name == "peer")
#if TANDEM_HAVE_GPU
    return createPeerTransport();
#else
    return Status(Code::Unsupported, "this runtime was built without CUDA or HIP");
#endif
  if (name == "local")
    return Status(Code::InvalidArgument,
                  "channel local needs a local world: its ranks are threads");
  return Status(Code::Unsupported,
                "unknown channel \"" + std::string(name) + "\", expected ucx, ccl, peer or local");
}

} // namespace tandem
