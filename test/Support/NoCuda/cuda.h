//===- cuda.h - what the stand-in driver needs of CUDA's names ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The stand-in for HIP is the stand-in for CUDA under other names (FakeHip.cpp). Where there is no
// CUDA toolkit it is compiled with these declarations: types and functions of the driver API as far
// as they are used, with numbers of our own. Nothing of the vendor's can be called with them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_SUPPORT_NOCUDA_CUDA_H
#define TANDEM_TEST_SUPPORT_NOCUDA_CUDA_H

#include <cstddef>
#include <cstdint>

using cuuint64_t = uint64_t;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUmemGenericAllocationHandle = unsigned long long;
using CUcontext = struct CUctx_st *;
using CUevent = struct CUevent_st *;
using CUfunction = struct CUfunc_st *;
using CUgraph = struct CUgraph_st *;
using CUgraphExec = struct CUgraphExec_st *;
using CUgraphNode = struct CUgraphNode_st *;
using CUmodule = struct CUmod_st *;
using CUstream = struct CUstream_st *;

enum CUresult {
  CUDA_SUCCESS,
  CUDA_ERROR_INVALID_VALUE,
  CUDA_ERROR_INVALID_HANDLE,
  CUDA_ERROR_OUT_OF_MEMORY,
  CUDA_ERROR_NOT_SUPPORTED,
  CUDA_ERROR_NOT_READY,
  CUDA_ERROR_LAUNCH_FAILED,
  CUDA_ERROR_CAPTURED_EVENT,
  CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
  CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
};
enum CUdevice_attribute {
  CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
};
enum CUdevice_P2PAttribute { CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED };
enum CUgraphNodeType { CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY };
enum CUmemAllocationGranularity_flags { CU_MEM_ALLOC_GRANULARITY_MINIMUM };
enum CUmemAllocationHandleType { CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR };
enum CUmemorytype { CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE };
enum { CU_EVENT_DISABLE_TIMING = 2 }; // also HIP's number
// Also HIP's numbers.
enum CUstreamCaptureMode {
  CU_STREAM_CAPTURE_MODE_GLOBAL,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
  CU_STREAM_CAPTURE_MODE_RELAXED
};
enum CUstreamCaptureStatus {
  CU_STREAM_CAPTURE_STATUS_NONE,
  CU_STREAM_CAPTURE_STATUS_ACTIVE,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED
};

struct CUuuid {
  char bytes[16];
};
struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  void **kernelParams;
};
struct CUDA_MEMSET_NODE_PARAMS {};
struct CUDA_MEMCPY2D {
  CUdeviceptr srcDevice, dstDevice;
  size_t srcPitch, dstPitch, WidthInBytes, Height;
};
struct CUDA_MEMCPY3D {
  CUmemorytype srcMemoryType, dstMemoryType;
  CUdeviceptr srcDevice, dstDevice;
  size_t srcPitch, dstPitch, WidthInBytes, Height, Depth;
};
struct CUgraphEdgeData {};
struct CUgraphExecUpdateResultInfo {};
struct CUmemAccessDesc {};
struct CUmemAllocationProp {};

// What FakeHip.cpp calls.
extern "C" {
CUresult cuDeviceGetCount(int *count);
CUresult cuCtxPushCurrent(CUcontext context);
CUresult cuCtxPopCurrent(CUcontext *context);
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest);
CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags);
CUresult cuMemFreeHost(void *memory);
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream);
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream);
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream);
CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, size_t words, CUstream stream);
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority);
CUresult cuStreamDestroy(CUstream stream);
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventDestroy(CUevent event);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventElapsedTime(float *time, CUevent from, CUevent to);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threadsX,
                        unsigned threadsY, unsigned threadsZ, unsigned shared, CUstream stream,
                        void **arguments, void **extra);
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode);
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status);
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **nodes,
                                   const CUgraphEdgeData **edges, size_t *count);
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *dependencies,
                                       CUgraphEdgeData *edges, size_t *count);
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS *params);
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                        const CUDA_MEMCPY3D *params, CUcontext context);
CUresult cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, unsigned long long flags);
CUresult cuGraphExecUpdate(CUgraphExec executable, CUgraph graph,
                           CUgraphExecUpdateResultInfo *result);
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphExecDestroy(CUgraphExec executable);
}
#define cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2

#endif // TANDEM_TEST_SUPPORT_NOCUDA_CUDA_H
