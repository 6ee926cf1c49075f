//===- CudaDriver.cpp - the table of GPU functions, filled for CUDA ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaApi.h"
#include "SharedMemory.h"

#include "../Driver.h"
#include "../DriverUsers.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <mutex>
#include <vector>

namespace tandem::gpu {

namespace {

/// Makes the GPU's primary context current (the embedder's libraries use it too) and restores the
/// previous context of the calling thread. Calls made meanwhile do not end the embedder's captures:
/// in CUDA's default mode, a query of any event by any thread would.
class Current {
public:
  Current(const CudaApi &api, CUcontext context) : api(api) {
    api.cuThreadExchangeStreamCaptureMode(&mode);
    CUcontext now = nullptr;
    api.cuCtxGetCurrent(&now);
    if (now != context)
      pushed = api.cuCtxPushCurrent(context) == CUDA_SUCCESS;
  }
  ~Current() {
    CUcontext ignored;
    if (pushed)
      api.cuCtxPopCurrent(&ignored);
    api.cuThreadExchangeStreamCaptureMode(&mode);
  }

private:
  const CudaApi &api;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; ///< then the thread's own
  bool pushed = false;
};

// Before VendorCalls.inc.
#define TANDEM_WHERE context
#define TANDEM_NAME(name) cu##name
#define TANDEM_CURRENT Current current(api, TANDEM_WHERE)
#define TANDEM_STATUS(name, ...) api.status(api.TANDEM_NAME(name)(__VA_ARGS__), "cu" #name)
#define TANDEM_TRY(name, ...) TANDEM_RETURN_IF_ERROR(TANDEM_STATUS(name, __VA_ARGS__))
#define TANDEM_CALL(name, ...)                                                                     \
  TANDEM_CURRENT;                                                                                  \
  return TANDEM_STATUS(name, __VA_ARGS__)

class CudaDriver final : public Driver {
  using Api = CudaApi;
  using Stream = CUstream;
  using Event = CUevent;
  using Graph = CUgraph;
  using Executable = CUgraphExec;
  using Uuid = CUuuid;
  using CaptureStatus = CUstreamCaptureStatus;
  using Shared = SharedMemory;
  static constexpr auto kSuccess = CUDA_SUCCESS, kNotReady = CUDA_ERROR_NOT_READY;
  static constexpr auto kNotCapturing = CU_STREAM_CAPTURE_STATUS_NONE;
  static constexpr auto kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

public:
  CudaDriver(const CudaApi &api, CUdevice device)
      : api(api), device(device), users(DriverUsers::of(kCuda, device)), shared(api, device) {
    users.join();
  }
  ~CudaDriver() override {
    if (transfers)
      destroyStream(transfers).ignore();
    users.leave();
  }
  Status open(unsigned index) {
    // Never released: the embedder's libraries use it too, and creating it again takes 250 ms.
    TANDEM_TRY(DevicePrimaryCtxRetain, &context, device);
    char name[256] = "";
    TANDEM_TRY(DeviceGetName, name, sizeof name, device);
    description.name = fmt::format("cuda:{}", index);
    description.model = name;
    TANDEM_ASSIGN_OR_RETURN(description.uuid, uuidOf(device));
    description.index = index;
    TANDEM_ASSIGN_OR_RETURN(int major, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
    TANDEM_ASSIGN_OR_RETURN(int minor, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
    TANDEM_ASSIGN_OR_RETURN(int processors, attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
    description.architecture = static_cast<unsigned>(major * 10 + minor);
    description.target = fmt::format("sm_{}", description.architecture);
    description.processors = static_cast<unsigned>(processors);
    TANDEM_ASSIGN_OR_RETURN(
        int maps, attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED));
    TANDEM_ASSIGN_OR_RETURN(int values,
                            attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS));
    description.sharesMemory = maps != 0;
    description.streamValues = values != 0;
    StreamHandle made = nullptr;
    TANDEM_RETURN_IF_ERROR(createStream(&made, StreamPriority::Normal));
    transfers = stream(made);
    return Status();
  }

  const Vendor &vendor() const override { return kCuda; }

  Status freeNow(void *memory) override { TANDEM_CALL(MemFree, address(memory)); }

  Status allocate(uint64_t bytes, void **memory) override {
    TANDEM_CURRENT;
    CUdeviceptr made = 0;
    Status status = api.status(api.cuMemAlloc(&made, bytes), "cuMemAlloc");
    *memory = reinterpret_cast<void *>(made); // NOLINT(performance-no-int-to-ptr): it is the API's
    return status;
  }
  Status free(void *memory) override {
    return release([&api = api, memory] { return TANDEM_STATUS(MemFree, address(memory)); });
  }
  Status allocateHost(uint64_t bytes, void **memory) override {
    TANDEM_CALL(MemHostAlloc, memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
  }
  Status freeHost(void *memory) override {
    return release([&api = api, memory] { return TANDEM_STATUS(MemFreeHost, memory); });
  }

  Status allocateSignals(uint64_t, void **) override {
    return Status(Code::Internal, "signals of CUDA lie next to the data");
  }
  Status importShared(const SharedHandle &handle, uint64_t bytes, void **memory) override {
    TANDEM_CURRENT;
    return shared.importMemory(handle.descriptor, bytes, memory);
  }
  Status freeShared(void *memory) override {
    TANDEM_CURRENT;
    return shared.free(memory);
  }
  std::vector<std::string> atomicsOn() override {
    std::vector<std::string> all{description.uuid};
    int count = 0, native = 0;
    api.cuDeviceGetCount(&count);
    for (CUdevice other = 0; other < count; ++other)
      if (other != device &&
          api.cuDeviceGetP2PAttribute(&native, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                                      device, other) == CUDA_SUCCESS &&
          native != 0)
        if (auto uuid = uuidOf(other))
          all.push_back(std::move(*uuid));
    return all;
  }

  Status fill(void *dst, uint8_t value, uint64_t bytes) override {
    TANDEM_CURRENT;
    TANDEM_TRY(MemsetD8Async, address(dst), value, bytes, transfers);
    return TANDEM_STATUS(StreamSynchronize, transfers);
  }

  Status createStream(StreamHandle *handle, StreamPriority priority) override {
    TANDEM_CURRENT;
    int least = 0, greatest = 0; // a smaller number is a higher priority
    TANDEM_TRY(CtxGetStreamPriorityRange, &least, &greatest);
    return TANDEM_STATUS(StreamCreateWithPriority, Made<CUstream>(handle), CU_STREAM_NON_BLOCKING,
                         priorityOf(priority, least, greatest));
  }
  Status checkStream(StreamHandle handle) override {
    TANDEM_CURRENT;
    CUcontext of = nullptr;
    if (handle)
      TANDEM_TRY(StreamGetCtx, stream(handle), &of);
    if (!handle || of == context)
      return Status();
    return Status(Code::InvalidArgument,
                  "the stream belongs to another GPU or CUDA context than " + description.name);
  }
  Status createEvent(EventHandle *handle, bool timing) override {
    TANDEM_CALL(EventCreate, Made<CUevent>(handle),
                timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
  }

  Status issueCopy(void *dst, const void *src, uint64_t bytes, StreamHandle on) override {
    TANDEM_CALL(MemcpyAsync, address(dst), address(src), bytes, stream(on));
  }
  Status issueCopyRows(void *dst, uint64_t dstPitch, const void *src, uint64_t srcPitch,
                       uint64_t width, uint64_t rows, StreamHandle on) override {
    CUDA_MEMCPY2D copy;
    std::memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = address(src);
    copy.srcPitch = srcPitch;
    copy.dstDevice = address(dst);
    copy.dstPitch = dstPitch;
    copy.WidthInBytes = width;
    copy.Height = rows;
    TANDEM_CALL(Memcpy2DAsync, &copy, stream(on));
  }

  Status setWord(StreamHandle on, void *at, uint64_t value) override {
    TANDEM_CURRENT;
    if (description.streamValues)
      return TANDEM_STATUS(StreamWriteValue64, stream(on), address(at), value,
                           CU_STREAM_WRITE_VALUE_DEFAULT);
    TANDEM_TRY(MemsetD32Async, address(at), static_cast<unsigned>(value), 1, stream(on));
    return TANDEM_STATUS(MemsetD32Async, address(at) + 4, static_cast<unsigned>(value >> 32), 1,
                         stream(on));
  }
  Status waitValue(StreamHandle on, void *at, uint64_t atLeast) override {
    TANDEM_CALL(StreamWaitValue64, stream(on), address(at), atLeast, CU_STREAM_WAIT_VALUE_GEQ);
  }

  Status instantiate(GraphHandle graph, ExecutableHandle *executable) override {
    TANDEM_CURRENT;
    // Kernels keep the priority of the stream that they were captured on.
    return TANDEM_STATUS(GraphInstantiate, Made<CUgraphExec>(executable),
                         static_cast<CUgraph>(graph),
                         CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
  }
  Status update(ExecutableHandle executable, GraphHandle graph, bool *done) override {
    TANDEM_CURRENT;
    CUgraphExecUpdateResultInfo why;
    std::memset(&why, 0, sizeof why);
    CUresult result = api.cuGraphExecUpdate(static_cast<CUgraphExec>(executable),
                                            static_cast<CUgraph>(graph), &why);
    *done = result == CUDA_SUCCESS;
    return result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE ? Status()
                                                          : api.status(result, "cuGraphExecUpdate");
  }
  Status frontier(StreamHandle on, std::vector<NodeHandle> &found) override {
    TANDEM_CURRENT;
    found.clear();
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphNode *nodes = nullptr;
    const CUgraphEdgeData *edges = nullptr; // else edges of a special kind are an error
    size_t count = 0;
    TANDEM_TRY(StreamGetCaptureInfo_v3, stream(on), &status, nullptr, nullptr, &nodes, &edges,
               &count);
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
      return Status(Code::Unsupported, "the stream is not being captured");
    found.assign(nodes, nodes + count);
    return Status();
  }
  Status dependencies(NodeHandle node, std::vector<NodeHandle> &found) override {
    TANDEM_CURRENT;
    found.clear();
    size_t count = 0;
    TANDEM_TRY(GraphNodeGetDependencies_v2, nodeOf(node), nullptr, nullptr, &count);
    if (count == 0)
      return Status();
    std::vector<CUgraphNode> nodes(count);
    std::vector<CUgraphEdgeData> edges(count);
    TANDEM_TRY(GraphNodeGetDependencies_v2, nodeOf(node), nodes.data(), edges.data(), &count);
    found.assign(nodes.begin(), nodes.end());
    return Status();
  }
  Status setLaunch(ExecutableHandle executable, NodeHandle node, FunctionHandle function,
                   const Grid &grid, void **with) override {
    CUDA_KERNEL_NODE_PARAMS parameters;
    std::memset(&parameters, 0, sizeof parameters);
    parameters.func = static_cast<CUfunction>(function);
    parameters.gridDimX = grid.x;
    parameters.gridDimY = grid.y;
    parameters.gridDimZ = 1;
    parameters.blockDimX = grid.threads;
    parameters.blockDimY = parameters.blockDimZ = 1;
    parameters.kernelParams = with;
    TANDEM_CALL(GraphExecKernelNodeSetParams, static_cast<CUgraphExec>(executable), nodeOf(node),
                &parameters);
  }
  Status setCopy(ExecutableHandle executable, NodeHandle node, void *dst, const void *src,
                 uint64_t bytes) override {
    TANDEM_CURRENT;
    // The types of memory must stay those of the capture.
    CUDA_MEMCPY3D parameters;
    TANDEM_TRY(GraphMemcpyNodeGetParams, nodeOf(node), &parameters);
    parameters.srcXInBytes = parameters.dstXInBytes = 0;
    parameters.srcDevice = address(src);
    parameters.dstDevice = address(dst);
    parameters.WidthInBytes = bytes;
    return TANDEM_STATUS(GraphExecMemcpyNodeSetParams, static_cast<CUgraphExec>(executable),
                         nodeOf(node), &parameters, context);
  }
  Status setLike(ExecutableHandle executable, NodeHandle node, NodeHandle like) override {
    TANDEM_CURRENT;
    auto in = static_cast<CUgraphExec>(executable);
    CUgraphNode to = nodeOf(node), from = nodeOf(like);
    CUgraphNodeType mine = CU_GRAPH_NODE_TYPE_EMPTY, theirs = CU_GRAPH_NODE_TYPE_EMPTY;
    TANDEM_TRY(GraphNodeGetType, to, &mine);
    TANDEM_TRY(GraphNodeGetType, from, &theirs);
    if (mine == theirs && mine == CU_GRAPH_NODE_TYPE_KERNEL) {
      CUDA_KERNEL_NODE_PARAMS parameters, before;
      TANDEM_TRY(GraphKernelNodeGetParams, to, &before);
      TANDEM_TRY(GraphKernelNodeGetParams, from, &parameters);
      // Attributes of a launch, such as its clusters, stay those of the captured kernel.
      if (parameters.func != before.func || parameters.kern != before.kern)
        return Status(Code::Unsupported, "a library runs another kernel at other addresses");
      return TANDEM_STATUS(GraphExecKernelNodeSetParams, in, to, &parameters);
    }
    if (mine == theirs && mine == CU_GRAPH_NODE_TYPE_MEMSET) {
      CUDA_MEMSET_NODE_PARAMS parameters;
      TANDEM_TRY(GraphMemsetNodeGetParams, from, &parameters);
      return TANDEM_STATUS(GraphExecMemsetNodeSetParams, in, to, &parameters, context);
    }
    if (mine == theirs && mine == CU_GRAPH_NODE_TYPE_MEMCPY) {
      CUDA_MEMCPY3D parameters;
      TANDEM_TRY(GraphMemcpyNodeGetParams, from, &parameters);
      return TANDEM_STATUS(GraphExecMemcpyNodeSetParams, in, to, &parameters, context);
    }
    return Status(Code::Unsupported, "a library's work has other nodes at other addresses");
  }

  Status loadModule(std::string_view image, ModuleHandle *handle) override {
    TANDEM_CALL(ModuleLoadData, Made<CUmodule>(handle), image.data());
  }
  Status unloadModule(ModuleHandle handle) override {
    return release([&api = api, handle] {
      return TANDEM_STATUS(ModuleUnload, static_cast<CUmodule>(handle));
    });
  }
  Status function(ModuleHandle handle, const char *name, FunctionHandle *function) override {
    TANDEM_CURRENT;
    CUfunction made = nullptr;
    TANDEM_RETURN_IF_ERROR(
        api.status(api.cuModuleGetFunction(&made, static_cast<CUmodule>(handle), name),
                   "cuModuleGetFunction")
            .withPrefix(fmt::format("kernel \"{}\": ", name)));
    *function = made;
    std::vector<uint32_t> sizes;
    size_t offset = 0, size = 0;
    while (api.cuFuncGetParamInfo(made, sizes.size(), &offset, &size) == CUDA_SUCCESS)
      sizes.push_back(static_cast<uint32_t>(size));
    if (!sizes.empty()) {
      std::lock_guard<std::mutex> lock(sizesMutex);
      arguments[made] = std::move(sizes);
    }
    // Load now: loading at the first launch would wait for running kernels, including waiting ones.
    return TANDEM_STATUS(FuncLoad, made);
  }
  Status issueLaunch(FunctionHandle function, const Grid &grid, StreamHandle on,
                     void **arguments) override {
    TANDEM_CALL(LaunchKernel, static_cast<CUfunction>(function), grid.x, grid.y, 1, grid.threads, 1,
                1, 0, stream(on), arguments, nullptr);
  }

private:
  static CUgraphNode nodeOf(NodeHandle handle) { return static_cast<CUgraphNode>(handle); }
  Expected<int> attribute(CUdevice_attribute which) {
    int value = 0;
    TANDEM_TRY(DeviceGetAttribute, &value, which, device);
    return value;
  }

  CUcontext context = nullptr;

#include "../VendorCalls.inc"
};

#undef TANDEM_CALL
#undef TANDEM_TRY
#undef TANDEM_STATUS
#undef TANDEM_CURRENT
#undef TANDEM_NAME
#undef TANDEM_WHERE

} // namespace

Expected<unsigned> countCudaDevices() {
  TANDEM_ASSIGN_OR_RETURN(const CudaApi *api, CudaApi::get());
  int count = 0;
  TANDEM_RETURN_IF_ERROR(api->status(api->cuDeviceGetCount(&count), "cuDeviceGetCount"));
  return static_cast<unsigned>(count);
}

Expected<std::unique_ptr<Driver>> openCuda(unsigned index) {
  TANDEM_ASSIGN_OR_RETURN(const CudaApi *api, CudaApi::get());
  CUdevice device = 0;
  TANDEM_RETURN_IF_ERROR(
      api->status(api->cuDeviceGet(&device, static_cast<int>(index)), "cuDeviceGet"));
  auto driver = std::make_unique<CudaDriver>(*api, device);
  TANDEM_RETURN_IF_ERROR(driver->open(index));
  return driver;
}

} // namespace tandem::gpu
