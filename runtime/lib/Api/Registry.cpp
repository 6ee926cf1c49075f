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
#if TANDEM_HAVE_CUDA
#include "tandem/Runtime/Gpu.h"
#endif

#include <fmt/format.h>

namespace tandem {

Expected<std::unique_ptr<Device>> createDevice(std::string_view name, const CpuDeviceOptions &cpu,
                                               uint32_t localRank) {
  if (name == "cpu")
    return createCpuDevice(cpu);
  if (name == "null")
    return createNullDevice();
  if (name.substr(0, name.find(':')) == "cuda")
#if TANDEM_HAVE_CUDA
    return createGpuDevice(name, localRank);
#else
    return Status(Code::Unsupported, "this runtime was built without CUDA");
#endif
  return Status(Code::Unsupported,
                "unknown device \"" + std::string(name) + "\", expected cpu, null or cuda");
}

std::string whyNoGpu(uint32_t gpus) {
#if TANDEM_HAVE_CUDA
  auto count = countGpus();
  if (!count)
    return count.status().message();
  return *count < gpus ? fmt::format("expected {} GPUs, this machine has {}", gpus, *count) : "";
#else
  return fmt::format("expected {} GPUs, this runtime was built without CUDA", gpus);
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
    return Status(Code::Unsupported, "this runtime was built without NCCL");
#endif
  if (name == "peer")
#if TANDEM_HAVE_CUDA
    return createPeerTransport();
#else
    return Status(Code::Unsupported, "this runtime was built without CUDA");
#endif
  if (name == "local")
    return Status(Code::InvalidArgument,
                  "channel local needs a local world: its ranks are threads");
  return Status(Code::Unsupported,
                "unknown channel \"" + std::string(name) + "\", expected ucx, ccl, peer or local");
}

} // namespace tandem
