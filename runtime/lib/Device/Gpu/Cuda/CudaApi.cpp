//===- CudaApi.cpp - the CUDA driver by symbol table ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaApi.h"

#include "../../../Core/SharedLibrary.h"

#include <fmt/format.h>

namespace tandem::gpu {

namespace {

Expected<CudaApi> load() {
  TANDEM_ASSIGN_OR_RETURN(SharedLibrary library,
                          SharedLibrary::open("TANDEM_CUDA_LIBRARY", {"libcuda.so.1"},
                                              "device cuda: the driver of NVIDIA GPUs"));
  CudaApi api;
  TANDEM_CUDA_FUNCTIONS(TANDEM_FIND_FUNCTION)
  Status started = api.status(api.cuInit(0), "cuInit");
  if (!started.ok())
    return Status(Code::Unsupported, "device cuda: " + started.message());
  int version = 0;
  TANDEM_RETURN_IF_ERROR(api.status(api.cuDriverGetVersion(&version), "cuDriverGetVersion"));
  if (version < 12040)
    return Status(Code::Unsupported,
                  fmt::format("device cuda: expected a driver of CUDA 12.4 or later, found {}.{}",
                              version / 1000, version % 1000 / 10));
  return api;
}

} // namespace

Expected<const CudaApi *> CudaApi::get() {
  static const Expected<CudaApi> api = load();
  if (!api)
    return api.status();
  return &*api;
}

Status CudaApi::status(CUresult result, const char *what) const {
  if (result == CUDA_SUCCESS)
    return Status();
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  Code code = result == CUDA_ERROR_OUT_OF_MEMORY   ? Code::OutOfMemory
              : result == CUDA_ERROR_INVALID_VALUE ? Code::InvalidArgument
              : result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_NOT_SUPPORTED ||
                      (result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
                       result <= CUDA_ERROR_CAPTURED_EVENT)
                  ? Code::Unsupported
                  : Code::Io;
  return Status(code, fmt::format("{}: {} ({})", what, text ? text : "unknown error",
                                  name ? name : std::to_string(result)));
}

} // namespace tandem::gpu
