//===- CudaApi.h - the CUDA driver by symbol table ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_CUDA_CUDAAPI_H
#define TANDEM_LIB_DEVICE_GPU_CUDA_CUDAAPI_H

#include "../Driver.h"

#include <cuda.h>

namespace tandem::gpu {

/// The functions of libcuda.so.1 (installed with the driver) that the backend uses. cuda.h renames
/// some of them to their newer versions.
#define TANDEM_CUDA_FUNCTIONS(X)                                                                   \
  X(cuInit)                                                                                        \
  X(cuDriverGetVersion)                                                                            \
  X(cuGetErrorName)                                                                                \
  X(cuGetErrorString)                                                                              \
  X(cuDeviceGetCount)                                                                              \
  X(cuDeviceGet)                                                                                   \
  X(cuDeviceGetName)                                                                               \
  X(cuDeviceGetUuid)                                                                               \
  X(cuDeviceGetAttribute)                                                                          \
  X(cuDevicePrimaryCtxRetain)                                                                      \
  X(cuCtxGetCurrent)                                                                               \
  X(cuCtxPushCurrent)                                                                              \
  X(cuCtxPopCurrent)                                                                               \
  X(cuMemAlloc)                                                                                    \
  X(cuMemFree)                                                                                     \
  X(cuMemHostAlloc)                                                                                \
  X(cuMemFreeHost)                                                                                 \
  X(cuMemcpyAsync)                                                                                 \
  X(cuMemcpy2DAsync)                                                                               \
  X(cuMemsetD8Async)                                                                               \
  X(cuMemsetD32Async)                                                                              \
  X(cuCtxGetStreamPriorityRange)                                                                   \
  X(cuStreamCreateWithPriority)                                                                    \
  X(cuStreamDestroy)                                                                               \
  X(cuStreamGetCtx)                                                                                \
  X(cuStreamQuery)                                                                                 \
  X(cuStreamSynchronize)                                                                           \
  X(cuStreamWaitEvent)                                                                             \
  X(cuEventCreate)                                                                                 \
  X(cuEventDestroy)                                                                                \
  X(cuEventRecord)                                                                                 \
  X(cuEventQuery)                                                                                  \
  X(cuEventElapsedTime)                                                                            \
  X(cuModuleLoadData)                                                                              \
  X(cuModuleUnload)                                                                                \
  X(cuModuleGetFunction)                                                                           \
  X(cuFuncGetParamInfo)                                                                            \
  X(cuFuncLoad)                                                                                    \
  X(cuLaunchKernel)                                                                                \
  X(cuDeviceCanAccessPeer)                                                                         \
  X(cuDeviceGetP2PAttribute)                                                                       \
  X(cuMemGetAddressRange)                                                                          \
  X(cuMemCreate)                                                                                   \
  X(cuMemRelease)                                                                                  \
  X(cuMemAddressReserve)                                                                           \
  X(cuMemAddressFree)                                                                              \
  X(cuMemMap)                                                                                      \
  X(cuMemUnmap)                                                                                    \
  X(cuMemSetAccess)                                                                                \
  X(cuMemGetAllocationGranularity)                                                                 \
  X(cuMemRetainAllocationHandle)                                                                   \
  X(cuMemExportToShareableHandle)                                                                  \
  X(cuMemImportFromShareableHandle)                                                                \
  X(cuStreamWriteValue64)                                                                          \
  X(cuStreamWaitValue64)                                                                           \
  X(cuStreamBeginCapture)                                                                          \
  X(cuStreamEndCapture)                                                                            \
  X(cuStreamIsCapturing)                                                                           \
  X(cuThreadExchangeStreamCaptureMode)                                                             \
  X(cuStreamGetCaptureInfo_v3)                                                                     \
  X(cuGraphNodeGetDependencies_v2)                                                                 \
  X(cuGraphNodeGetType)                                                                            \
  X(cuGraphKernelNodeGetParams)                                                                    \
  X(cuGraphMemcpyNodeGetParams)                                                                    \
  X(cuGraphMemsetNodeGetParams)                                                                    \
  X(cuGraphExecKernelNodeSetParams)                                                                \
  X(cuGraphExecMemcpyNodeSetParams)                                                                \
  X(cuGraphExecMemsetNodeSetParams)                                                                \
  X(cuGraphInstantiate)                                                                            \
  X(cuGraphExecUpdate)                                                                             \
  X(cuGraphLaunch)                                                                                 \
  X(cuGraphDestroy)                                                                                \
  X(cuGraphExecDestroy)

/// Pointers to these functions under their own names: `api.cuStreamQuery(...)`.
struct CudaApi {
#define X(name) decltype(&::name) name = nullptr;
  TANDEM_CUDA_FUNCTIONS(X)
#undef X

  /// Opens libcuda.so.1 (or the library in TANDEM_CUDA_LIBRARY) and initialises it, once per
  /// process. Unsupported, with the loader's or driver's message, if it is missing or finds no GPU.
  static Expected<const CudaApi *> get();

  /// "<what>: <the driver's name and text>" for an error.
  Status status(CUresult result, const char *what) const;
};

// The entries of `kCuda`; see Vendor.
Expected<unsigned> countCudaDevices();
Expected<std::unique_ptr<Driver>> openCuda(unsigned index);
Expected<std::unique_ptr<Blas>> openCublas(Driver &driver);

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_CUDA_CUDAAPI_H
