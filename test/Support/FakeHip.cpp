//===- FakeHip.cpp - the stand-in driver under HIP's names ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What device hip asks of libamdhip64.so, done by the functions of FakeCuda.cpp and FakeGraph.cpp.
// Where HIP differs, so does this: memory is shared by handles of bytes, which only the start of an
// allocation has; flags that HIP 5 does not know are refused; there are no stream waits. Kernels
// run by their names, but a module must be a code object for gfx942.
//
//===----------------------------------------------------------------------===//

// NOLINTBEGIN(performance-no-int-to-ptr): addresses and handles are integers in CUDA's API

#include "FakeQueue.h"

#include <cstdio>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <hip/hip_runtime_api.h>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

using namespace tandem::fake;

namespace {

/// An allocation: a file, so that other processes can map it.
struct Allocation {
  int fd = -1;
  size_t bytes = 0;
};

std::mutex allocationsMutex;
std::map<void *, Allocation> allocations; ///< guarded by allocationsMutex

/// What a handle holds.
struct Handle {
  uint64_t magic = 0;
  int64_t process = 0;
  int64_t fd = 0;
  uint64_t bytes = 0;
};
constexpr uint64_t kMagic = 0x68697066616b6521;

thread_local int current = 0;

hipError_t from(CUresult result) {
  switch (result) {
  case CUDA_SUCCESS:
    return hipSuccess;
  case CUDA_ERROR_NOT_READY:
    return hipErrorNotReady;
  case CUDA_ERROR_OUT_OF_MEMORY:
    return hipErrorOutOfMemory;
  case CUDA_ERROR_NOT_SUPPORTED:
    return hipErrorNotSupported;
  case CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE:
    return hipErrorGraphExecUpdateFailure;
  case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    return hipErrorStreamCaptureUnsupported;
  case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    return hipErrorStreamCaptureInvalidated;
  case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
    return hipErrorStreamCaptureIsolation;
  case CUDA_ERROR_CAPTURED_EVENT:
    return hipErrorCapturedEvent;
  case CUDA_ERROR_INVALID_HANDLE:
    return hipErrorInvalidHandle;
  default:
    return hipErrorInvalidValue;
  }
}

CUdeviceptr at(const void *memory) { return reinterpret_cast<CUdeviceptr>(memory); }
template <typename To, typename From> To as(From handle) { return reinterpret_cast<To>(handle); }

/// The GPU of hipSetDevice() is CUDA's current context while it lives.
class Gpu {
public:
  Gpu() { cuCtxPushCurrent(as<CUcontext>(static_cast<uintptr_t>(current + 1))); }
  ~Gpu() {
    CUcontext ignored;
    cuCtxPopCurrent(&ignored);
  }
};

hipError_t map(int fd, size_t bytes, void **memory) {
  *memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (*memory == MAP_FAILED)
    return hipErrorOutOfMemory;
  std::lock_guard<std::mutex> lock(allocationsMutex);
  allocations[*memory] = {fd, bytes};
  return hipSuccess;
}

hipError_t allocate(void **memory, size_t bytes) {
  Gpu gpu;
  disturb();
  if (number("memory") && bytes > static_cast<size_t>(number("memory")))
    return hipErrorOutOfMemory;
  bytes = (bytes + 4095) / 4096 * 4096;
  int fd = ::memfd_create("fake-hip", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    return hipErrorOutOfMemory;
  return map(fd, bytes, memory);
}

hipError_t forget(void *memory) {
  std::lock_guard<std::mutex> lock(allocationsMutex);
  auto found = allocations.find(memory);
  if (found == allocations.end())
    return hipErrorInvalidValue;
  ::munmap(memory, found->second.bytes);
  ::close(found->second.fd);
  allocations.erase(found);
  return hipSuccess;
}

} // namespace

extern "C" {

hipError_t hipInit(unsigned) { return hipSuccess; }
hipError_t hipRuntimeGetVersion(int *version) { return *version = 60200000, hipSuccess; }
const char *hipGetErrorName(hipError_t) { return "FAKE"; }
const char *hipGetErrorString(hipError_t) { return "the fake driver refuses"; }
hipError_t hipGetDeviceCount(int *count) { return from(cuDeviceGetCount(count)); }
hipError_t hipGetDevice(int *device) { return *device = current, hipSuccess; }
hipError_t hipSetDevice(int device) {
  int count = 0;
  cuDeviceGetCount(&count);
  if (device < 0 || device >= count)
    return hipErrorInvalidDevice;
  return current = device, hipSuccess;
}
hipError_t hipGetDeviceProperties(hipDeviceProp_t *properties, int) {
  std::strncpy(properties->name, "fake", sizeof properties->name - 1);
  std::strncpy(properties->gcnArchName, "gfx942:sramecc+:xnack-",
               sizeof properties->gcnArchName - 1);
  return hipSuccess;
}
hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device) {
  return std::memset(uuid, device + 1, sizeof *uuid), hipSuccess;
}
hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t which, int device) {
  if (which == hipDeviceAttributeMultiprocessorCount)
    return from(cuDeviceGetAttribute(value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  return *value = 1, hipSuccess;
}
hipError_t hipDeviceGetP2PAttribute(int *value, hipDeviceP2PAttr, int, int) {
  return *value = number("no-atomics") == 0, hipSuccess;
}
hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *bytes, hipDeviceptr_t memory) {
  std::lock_guard<std::mutex> lock(allocationsMutex);
  auto next = allocations.upper_bound(memory);
  if (next == allocations.begin())
    return hipErrorNotFound;
  auto found = std::prev(next);
  *base = found->first;
  *bytes = found->second.bytes;
  return static_cast<std::byte *>(memory) < static_cast<std::byte *>(*base) + *bytes
             ? hipSuccess
             : hipErrorNotFound;
}
hipError_t hipDeviceCanAccessPeer(int *can, int, int) { return *can = 1, hipSuccess; }
hipError_t hipDeviceEnablePeerAccess(int peer, unsigned) {
  static std::mutex mutex;
  static std::set<std::pair<int, int>> enabled;
  std::lock_guard<std::mutex> lock(mutex);
  return peer == current                          ? hipErrorInvalidDevice
         : enabled.insert({current, peer}).second ? hipSuccess
                                                  : hipErrorPeerAccessAlreadyEnabled;
}

hipError_t hipMalloc(void **memory, size_t bytes) { return allocate(memory, bytes); }
hipError_t hipExtMallocWithFlags(void **memory, size_t bytes, unsigned flags) {
  number("signal-memory") += 1;
  // TANDEM_FAKE_HIP5: without hipDeviceMallocUncached.
  return flags > (number("hip5") ? 2u : 3u) ? hipErrorInvalidValue : allocate(memory, bytes);
}
hipError_t hipFree(void *memory) {
  Gpu gpu;
  disturb();
  std::unique_lock<std::shared_mutex> alone(lockOf(currentGpu()));
  waitForGpu(currentGpu());
  return forget(memory);
}
hipError_t hipHostMalloc(void **memory, size_t bytes, unsigned) {
  Gpu gpu;
  return from(cuMemHostAlloc(memory, bytes, 0));
}
hipError_t hipHostFree(void *memory) {
  Gpu gpu;
  return from(cuMemFreeHost(memory));
}

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *memory) {
  Gpu gpu;
  std::lock_guard<std::mutex> lock(allocationsMutex);
  auto found = allocations.find(memory);
  if (found == allocations.end() || number("no-export-on") == currentGpu())
    return hipErrorInvalidValue;
  Handle made{kMagic, ::getpid(), found->second.fd, found->second.bytes};
  static_assert(sizeof made <= sizeof *handle, "a handle has 64 bytes");
  std::memset(handle, 0, sizeof *handle);
  return std::memcpy(handle, &made, sizeof made), hipSuccess;
}
hipError_t hipIpcOpenMemHandle(void **memory, hipIpcMemHandle_t handle, unsigned flags) {
  Gpu gpu;
  Handle given;
  std::memcpy(static_cast<void *>(&given), &handle, sizeof given);
  // HIP 5 wants 0; a process does not open its own handles.
  if (given.magic != kMagic || given.process == ::getpid() || flags != (number("hip5") ? 0u : 1u) ||
      number("no-import-on") == currentGpu())
    return hipErrorInvalidValue;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%lld/fd/%lld", static_cast<long long>(given.process),
                static_cast<long long>(given.fd));
  int fd = ::open(path, O_RDWR | O_CLOEXEC);
  return fd < 0 ? hipErrorInvalidValue : map(fd, given.bytes, memory);
}
hipError_t hipIpcCloseMemHandle(void *memory) {
  Gpu gpu;
  return meetsFault("unmap", currentGpu()) ? hipErrorInvalidValue : forget(memory);
}

hipError_t hipMemcpyAsync(void *dst, const void *src, size_t bytes, hipMemcpyKind,
                          hipStream_t stream) {
  Gpu gpu;
  return from(cuMemcpyAsync(at(dst), at(src), bytes, as<CUstream>(stream)));
}
hipError_t hipMemcpy2DAsync(void *dst, size_t dstPitch, const void *src, size_t srcPitch,
                            size_t width, size_t height, hipMemcpyKind, hipStream_t stream) {
  Gpu gpu;
  CUDA_MEMCPY2D copy{};
  copy.dstDevice = at(dst);
  copy.dstPitch = dstPitch;
  copy.srcDevice = at(src);
  copy.srcPitch = srcPitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return from(cuMemcpy2DAsync(&copy, as<CUstream>(stream)));
}
hipError_t hipMemsetAsync(void *dst, int value, size_t bytes, hipStream_t stream) {
  Gpu gpu;
  return from(
      cuMemsetD8Async(at(dst), static_cast<unsigned char>(value), bytes, as<CUstream>(stream)));
}
hipError_t hipMemsetD32Async(hipDeviceptr_t dst, int value, size_t words, hipStream_t stream) {
  Gpu gpu;
  return from(cuMemsetD32Async(at(dst), static_cast<unsigned>(value), words, as<CUstream>(stream)));
}

hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest) {
  return from(cuCtxGetStreamPriorityRange(least, greatest));
}
hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int priority) {
  Gpu gpu;
  return from(cuStreamCreateWithPriority(as<CUstream *>(stream), flags, priority));
}
hipError_t hipStreamDestroy(hipStream_t stream) {
  return from(cuStreamDestroy(as<CUstream>(stream)));
}
hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *device) {
  CUcontext context = nullptr;
  cuStreamGetCtx(as<CUstream>(stream), &context);
  return *device = static_cast<int>(as<uintptr_t>(context)) - 1, hipSuccess;
}
hipError_t hipStreamQuery(hipStream_t stream) {
  Gpu gpu;
  return from(cuStreamQuery(as<CUstream>(stream)));
}
hipError_t hipStreamSynchronize(hipStream_t stream) {
  Gpu gpu;
  return from(cuStreamSynchronize(as<CUstream>(stream)));
}
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) {
  Gpu gpu;
  return from(cuStreamWaitEvent(as<CUstream>(stream), as<CUevent>(event), flags));
}
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags) {
  return from(cuEventCreate(as<CUevent *>(event), flags));
}
hipError_t hipEventDestroy(hipEvent_t event) { return from(cuEventDestroy(as<CUevent>(event))); }
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  Gpu gpu;
  return from(cuEventRecord(as<CUevent>(event), as<CUstream>(stream)));
}
hipError_t hipEventQuery(hipEvent_t event) { return from(cuEventQuery(as<CUevent>(event))); }
hipError_t hipEventElapsedTime(float *time, hipEvent_t first, hipEvent_t last) {
  return from(cuEventElapsedTime(time, as<CUevent>(first), as<CUevent>(last)));
}

hipError_t hipModuleLoadData(hipModule_t *module, const void *image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  // EF_AMDGPU_MACH_AMDGCN_GFX942 in the flags of an EM_AMDGPU file.
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != 224 ||
      (header.e_flags & 0xff) != 0x4c)
    return hipErrorInvalidImage;
  return from(cuModuleLoadData(as<CUmodule *>(module), image));
}
hipError_t hipModuleUnload(hipModule_t module) {
  return from(cuModuleUnload(as<CUmodule>(module)));
}
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name) {
  return from(cuModuleGetFunction(as<CUfunction *>(function), as<CUmodule>(module), name));
}
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned x, unsigned y, unsigned z,
                                 unsigned threads, unsigned, unsigned, unsigned, hipStream_t stream,
                                 void **arguments, void **) {
  Gpu gpu;
  return from(cuLaunchKernel(as<CUfunction>(function), x, y, z, threads, 1, 1, 0,
                             as<CUstream>(stream), arguments, nullptr));
}

hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode) {
  auto exchanged = static_cast<CUstreamCaptureMode>(*mode);
  cuThreadExchangeStreamCaptureMode(&exchanged);
  return *mode = static_cast<hipStreamCaptureMode>(exchanged), hipSuccess;
}
hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  Gpu gpu;
  return from(cuStreamBeginCapture(as<CUstream>(stream), static_cast<CUstreamCaptureMode>(mode)));
}
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph) {
  Gpu gpu;
  return from(cuStreamEndCapture(as<CUstream>(stream), as<CUgraph *>(graph)));
}
hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status) {
  CUstreamCaptureStatus now = CU_STREAM_CAPTURE_STATUS_NONE;
  hipError_t result = from(cuStreamIsCapturing(as<CUstream>(stream), &now));
  return *status = static_cast<hipStreamCaptureStatus>(now), result;
}
hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus *status,
                                      unsigned long long *, hipGraph_t *,
                                      const hipGraphNode_t **nodes, size_t *count) {
  CUstreamCaptureStatus now = CU_STREAM_CAPTURE_STATUS_NONE;
  hipError_t result =
      from(cuStreamGetCaptureInfo_v3(as<CUstream>(stream), &now, nullptr, nullptr,
                                     as<const CUgraphNode **>(nodes), nullptr, count));
  return *status = static_cast<hipStreamCaptureStatus>(now), result;
}
hipError_t hipGraphNodeGetDependencies(hipGraphNode_t node, hipGraphNode_t *before, size_t *count) {
  std::vector<CUgraphEdgeData> edges(before ? *count : 0);
  return from(cuGraphNodeGetDependencies_v2(as<CUgraphNode>(node), as<CUgraphNode *>(before),
                                            edges.data(), count));
}
hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                           const hipKernelNodeParams *given) {
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = as<CUfunction>(given->func);
  params.kernelParams = given->kernelParams;
  return from(
      cuGraphExecKernelNodeSetParams(as<CUgraphExec>(executable), as<CUgraphNode>(node), &params));
}
hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t executable, hipGraphNode_t node,
                                             void *dst, const void *src, size_t bytes,
                                             hipMemcpyKind) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = at(src);
  copy.dstDevice = at(dst);
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return from(cuGraphExecMemcpyNodeSetParams(as<CUgraphExec>(executable), as<CUgraphNode>(node),
                                             &copy, nullptr));
}
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *executable, hipGraph_t graph,
                                        unsigned long long flags) {
  if (flags != 0 && number("hip5"))
    return hipErrorInvalidValue;
  Gpu gpu;
  return from(cuGraphInstantiate(as<CUgraphExec *>(executable), as<CUgraph>(graph), flags));
}
hipError_t hipGraphExecUpdate(hipGraphExec_t executable, hipGraph_t graph, hipGraphNode_t *,
                              hipGraphExecUpdateResult *) {
  return from(cuGraphExecUpdate(as<CUgraphExec>(executable), as<CUgraph>(graph), nullptr));
}
hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream) {
  Gpu gpu;
  return from(cuGraphLaunch(as<CUgraphExec>(executable), as<CUstream>(stream)));
}
hipError_t hipGraphDestroy(hipGraph_t graph) { return from(cuGraphDestroy(as<CUgraph>(graph))); }
hipError_t hipGraphExecDestroy(hipGraphExec_t executable) {
  return from(cuGraphExecDestroy(as<CUgraphExec>(executable)));
}

} // extern "C"

// NOLINTEND(performance-no-int-to-ptr)
