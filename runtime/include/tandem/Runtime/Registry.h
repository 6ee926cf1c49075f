//===- Registry.h - devices and transports by name ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_REGISTRY_H
#define TANDEM_RUNTIME_REGISTRY_H

#include "tandem/Runtime/Channel.h"
#include "tandem/Runtime/Device.h"

#include <string>

namespace tandem {

/// "cpu", "null", "cuda" (the GPU of this rank), "cuda:NUMBER", "hip" or "hip:NUMBER"; other names
/// are errors that list these. Unsupported if this build or this machine lacks the device.
Expected<std::unique_ptr<Device>>
createDevice(std::string_view name, const CpuDeviceOptions &cpu = {}, uint32_t localRank = 0);

/// Empty if this build has device `kind` ("cuda", "hip") and this machine has `gpus` such GPUs.
/// Otherwise the reason.
std::string whyNoGpu(uint32_t gpus = 1, std::string_view kind = "cuda");

/// A transport between processes: "ucx"; or "ccl" or "peer", which also connect threads with GPUs.
/// ("local" comes from a LocalWorld.) Unsupported if this build or this machine lacks it.
Expected<std::unique_ptr<Transport>> createTransport(std::string_view name);

} // namespace tandem

#endif // TANDEM_RUNTIME_REGISTRY_H
