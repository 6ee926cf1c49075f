//===- HipApi.cpp - the HIP runtime by symbol table ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HipApi.h"

#include "../../../Core/SharedLibrary.h"

#include <fmt/format.h>

namespace tandem::gpu {

namespace {

/// hipRuntimeGetVersion() of HIP 5.2.0: major * 10^7 + minor * 10^5 + patch.
constexpr int kOldest = 50200000;

Expected<HipApi> load() {
  TANDEM_ASSIGN_OR_RETURN(
      SharedLibrary library,
      SharedLibrary::open("TANDEM_HIP_LIBRARY",
                          {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"},
                          "device hip: the HIP runtime of AMD GPUs"));
  HipApi api;
  TANDEM_HIP_FUNCTIONS(TANDEM_FIND_FUNCTION)
  TANDEM_FIND_FUNCTION(hipMalloc)
  TANDEM_FIND_FUNCTION(hipHostMalloc)
  library.find(api.hipStreamGetDevice, "hipStreamGetDevice").ignore();
  int version = 0;
  TANDEM_RETURN_IF_ERROR(api.status(api.hipRuntimeGetVersion(&version), "hipRuntimeGetVersion"));
  if (version < kOldest)
    return Status(Code::Unsupported,
                  fmt::format("device hip: expected HIP 5.2 or later, found {}.{}",
                              version / 10000000, version % 10000000 / 100000));
  Status started = api.status(api.hipInit(0), "hipInit");
  if (!started.ok())
    return Status(Code::Unsupported, "device hip: " + started.message());
  return api;
}

} // namespace

Expected<const HipApi *> HipApi::get() {
  static const Expected<HipApi> api = load();
  if (!api)
    return api.status();
  return &*api;
}

Status HipApi::status(hipError_t result, const char *what) const {
  if (result == hipSuccess)
    return Status();
  const char *name = hipGetErrorName(result), *text = hipGetErrorString(result);
  Code code =
      result == hipErrorOutOfMemory    ? Code::OutOfMemory
      : result == hipErrorInvalidValue ? Code::InvalidArgument
      : result == hipErrorNoDevice || result == hipErrorNotSupported ||
              (result >= hipErrorStreamCaptureUnsupported && result <= hipErrorCapturedEvent)
          ? Code::Unsupported
          : Code::Io;
  return Status(code, fmt::format("{}: {} ({})", what, text ? text : "unknown error",
                                  name ? name : std::to_string(result)));
}

} // namespace tandem::gpu
