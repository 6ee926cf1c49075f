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

namespace tandem {

Expected<std::unique_ptr<Device>> createDevice(std::string_view name, const CpuDeviceOptions &cpu) {
  if (name == "cpu")
    return createCpuDevice(cpu);
  if (name == "null")
    return createNullDevice();
  return Status(Code::Unsupported,
                "unknown device \"" + std::string(name) + "\", expected cpu or null");
}

Expected<std::unique_ptr<Transport>> createTransport(std::string_view name) {
  if (name == "ucx")
#if TANDEM_HAVE_UCX
    return createUcxTransport();
#else
    return Status(Code::Unsupported, "this runtime was built without UCX");
#endif
  if (name == "local")
    return Status(Code::InvalidArgument,
                  "channel local needs a local world: its ranks are threads");
  return Status(Code::Unsupported,
                "unknown channel \"" + std::string(name) + "\", expected ucx or local");
}

} // namespace tandem
