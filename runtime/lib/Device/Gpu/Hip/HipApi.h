//===- HipApi.h - the HIP runtime by symbol table ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_HIP_HIPAPI_H
#define TANDEM_LIB_DEVICE_GPU_HIP_HIPAPI_H

#include "../Driver.h"

#include <hip/hip_runtime_api.h>

namespace tandem::gpu {

/// The functions of libamdhip64.so that the backend uses. All are in HIP 5.2 and later. (Headers of
/// HIP 6 and later rename hipGetDeviceProperties, whose structure has changed.)
#define TANDEM_HIP_FUNCTIONS(X)                                                                    \
  X(hipInit)                                                                                       \
  X(hipRuntimeGetVersion)                                                                          \
  X(hipGetErrorName)                                                                               \
  X(hipGetErrorString)                                                                             \
  X(hipGetDeviceCount)                                                                             \
  X(hipGetDevice)                                                                                  \
  X(hipSetDevice)                                                                                  \
  X(hipGetDeviceProperties)                                                                        \
  X(hipDeviceGetUuid)                                                                              \
  X(hipDeviceGetAttribute)                                                                         \
  X(hipDeviceCanAccessPeer)                                                                        \
  X(hipDeviceGetP2PAttribute)                                                                      \
  X(hipMemGetAddressRange)                                                                         \
  X(hipDeviceEnablePeerAccess)                                                                     \
  X(hipExtMallocWithFlags)                                                                         \
  X(hipFree)                                                                                       \
  X(hipHostFree)                                                                                   \
  X(hipIpcGetMemHandle)                                                                            \
  X(hipIpcOpenMemHandle)                                                                           \
  X(hipIpcCloseMemHandle)                                                                          \
  X(hipMemcpyAsync)                                                                                \
  X(hipMemcpy2DAsync)                                                                              \
  X(hipMemsetAsync)                                                                                \
  X(hipMemsetD32Async)                                                                             \
  X(hipDeviceGetStreamPriorityRange)                                                               \
  X(hipStreamCreateWithPriority)                                                                   \
  X(hipStreamDestroy)                                                                              \
  X(hipStreamQuery)                                                                                \
  X(hipStreamSynchronize)                                                                          \
  X(hipStreamWaitEvent)                                                                            \
  X(hipEventCreateWithFlags)                                                                       \
  X(hipEventDestroy)                                                                               \
  X(hipEventRecord)                                                                                \
  X(hipEventQuery)                                                                                 \
  X(hipEventElapsedTime)                                                                           \
  X(hipModuleLoadData)                                                                             \
  X(hipModuleUnload)                                                                               \
  X(hipModuleGetFunction)                                                                          \
  X(hipModuleLaunchKernel)                                                                         \
  X(hipThreadExchangeStreamCaptureMode)                                                            \
  X(hipStreamBeginCapture)                                                                         \
  X(hipStreamEndCapture)                                                                           \
  X(hipStreamIsCapturing)                                                                          \
  X(hipStreamGetCaptureInfo_v2)                                                                    \
  X(hipGraphNodeGetDependencies)                                                                   \
  X(hipGraphExecKernelNodeSetParams)                                                               \
  X(hipGraphExecMemcpyNodeSetParams1D)                                                             \
  X(hipGraphInstantiateWithFlags)                                                                  \
  X(hipGraphExecUpdate)                                                                            \
  X(hipGraphLaunch)                                                                                \
  X(hipGraphDestroy)                                                                               \
  X(hipGraphExecDestroy)

/// Pointers to these functions under their own names: `api.hipStreamQuery(...)`.
struct HipApi {
#define X(name) decltype(&::name) name = nullptr;
  TANDEM_HIP_FUNCTIONS(X)
#undef X
  // Their names are overloaded in C++.
  hipError_t (*hipMalloc)(void **, size_t) = nullptr;
  hipError_t (*hipHostMalloc)(void **, size_t, unsigned) = nullptr;
  /// Null where HIP is too old for it.
  hipError_t (*hipStreamGetDevice)(hipStream_t, hipDevice_t *) = nullptr;

  /// Opens libamdhip64.so (or the library in TANDEM_HIP_LIBRARY) and initialises it, once per
  /// process. Unsupported, with the loader's or driver's message, if it is missing, older than 5.2,
  /// or finds no GPU.
  static Expected<const HipApi *> get();

  /// "<what>: <HIP's text> (<its name>)" for an error.
  Status status(hipError_t result, const char *what) const;
};

// The entries of `kHip`; see Vendor.
Expected<unsigned> countHipDevices();
Expected<std::unique_ptr<Driver>> openHip(unsigned index);
Expected<std::unique_ptr<Blas>> openHipblaslt(Driver &driver);

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_HIP_HIPAPI_H
