//===- CudaDriver.cpp - the table of GPU functions, filled for CUDA ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaApi.h"
#include "Nodes.h"
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

CUstream stream(StreamHandle handle) { return static_cast<CUstream>(handle); }
CUevent event(EventHandle handle) { return static_cast<CUevent>(handle); }

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

#define TANDEM_TRY_CUDA(name, ...) TANDEM_RETURN_IF_ERROR(api.status(api.name(__VA_ARGS__), #name))
#define TANDEM_CUDA(name, ...)                                                                     \
  Current current(api, context);                                                                   \
  return api.status(api.name(__VA_ARGS__), #name)

class CudaDriver final : public Driver {
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
    TANDEM_TRY_CUDA(cuDevicePrimaryCtxRetain, &context, device);
    char name[256] = "";
    TANDEM_TRY_CUDA(cuDeviceGetName, name, sizeof name, device);
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

  const DeviceInfo &info() const override { return description; }
  const Vendor &vendor() const override { return kCuda; }
  Status runWithin(const std::function<Status()> &body) override {
    Current current(api, context);
    return body();
  }
  // The context is never released, and the table of functions is static.
  Status release(std::function<Status()> body) override {
    return users.release([&api = api, context = context, body = std::move(body)] {
      Current current(api, context);
      return body();
    });
  }

  void releasePending() override { users.releasePending().ignore(); }
  void neverRelease() override { users.neverRelease(); }
  Status freeNow(void *memory) override { TANDEM_CUDA(cuMemFree, address(memory)); }

  Status allocate(uint64_t bytes, void **memory) override {
    Current current(api, context);
    CUdeviceptr made = 0;
    Status status = api.status(api.cuMemAlloc(&made, bytes), "cuMemAlloc");
    *memory = reinterpret_cast<void *>(made); // NOLINT(performance-no-int-to-ptr): it is the API's
    return status;
  }
  Status free(void *memory) override {
    return release(
        [&api = api, memory] { return api.status(api.cuMemFree(address(memory)), "cuMemFree"); });
  }
  Status allocateHost(uint64_t bytes, void **memory) override {
    TANDEM_CUDA(cuMemHostAlloc, memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
  }
  Status freeHost(void *memory) override {
    return release(
        [&api = api, memory] { return api.status(api.cuMemFreeHost(memory), "cuMemFreeHost"); });
  }

  Status allocateShared(uint64_t bytes, void **memory) override {
    Current current(api, context);
    return shared.allocate(bytes, memory);
  }
  Status allocateSignals(uint64_t, void **) override {
    return Status(Code::Internal, "signals of CUDA lie next to the data");
  }
  Status exportShared(const void *memory, uint64_t bytes, SharedHandle *handle) override {
    Current current(api, context);
    return shared.exportMemory(memory, bytes, handle);
  }
  Status importShared(const SharedHandle &handle, uint64_t bytes, void **memory) override {
    Current current(api, context);
    return shared.importMemory(handle.descriptor, bytes, memory);
  }
  Status freeShared(void *memory) override {
    Current current(api, context);
    return shared.free(memory);
  }
  bool reaches(unsigned index) override { return shared.reaches(static_cast<int>(index)); }
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

  // The driver's blocking calls return before a small copy or a fill is done, and other streams do
  // not wait for it.
  Status copy(void *dst, const void *src, uint64_t bytes) override {
    TANDEM_RETURN_IF_ERROR(issueCopy(dst, src, bytes, transfers));
    TANDEM_CUDA(cuStreamSynchronize, transfers);
  }
  Status fill(void *dst, uint8_t value, uint64_t bytes) override {
    Current current(api, context);
    TANDEM_TRY_CUDA(cuMemsetD8Async, address(dst), value, bytes, transfers);
    return api.status(api.cuStreamSynchronize(transfers), "cuStreamSynchronize");
  }

  Status createStream(StreamHandle *handle, StreamPriority priority) override {
    Current current(api, context);
    int least = 0, greatest = 0; // a smaller number is a higher priority
    TANDEM_TRY_CUDA(cuCtxGetStreamPriorityRange, &least, &greatest);
    return api.status(api.cuStreamCreateWithPriority(Made<CUstream>(handle), CU_STREAM_NON_BLOCKING,
                                                     priorityOf(priority, least, greatest)),
                      "cuStreamCreate");
  }
  Status destroyStream(StreamHandle handle) override {
    TANDEM_CUDA(cuStreamDestroy, stream(handle));
  }
  Status checkStream(StreamHandle handle) override {
    Current current(api, context);
    CUcontext of = nullptr;
    if (handle)
      TANDEM_TRY_CUDA(cuStreamGetCtx, stream(handle), &of);
    if (!handle || of == context)
      return Status();
    return Status(Code::InvalidArgument,
                  "the stream belongs to another GPU or CUDA context than " + description.name);
  }
  Status queryStream(StreamHandle handle, bool *done) override {
    Current current(api, context);
    return query(api.cuStreamQuery(stream(handle)), "the stream has failed", done);
  }
  Status createEvent(EventHandle *handle, bool timing) override {
    Current current(api, context);
    return api.status(api.cuEventCreate(Made<CUevent>(handle),
                                        timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING),
                      "cuEventCreate");
  }
  Status destroyEvent(EventHandle handle) override { TANDEM_CUDA(cuEventDestroy, event(handle)); }
  Status record(EventHandle handle, StreamHandle on) override {
    TANDEM_CUDA(cuEventRecord, event(handle), stream(on));
  }
  Status wait(StreamHandle waiting, EventHandle handle) override {
    TANDEM_CUDA(cuStreamWaitEvent, stream(waiting), event(handle), CU_EVENT_WAIT_DEFAULT);
  }
  Status queryEvent(EventHandle handle, bool *done) override {
    Current current(api, context);
    return query(api.cuEventQuery(event(handle)), "work before an event has failed", done);
  }
  Status elapsed(EventHandle from, EventHandle to, float *milliseconds) override {
    TANDEM_CUDA(cuEventElapsedTime, milliseconds, event(from), event(to));
  }

  Status issueCopy(void *dst, const void *src, uint64_t bytes, StreamHandle on) override {
    TANDEM_CUDA(cuMemcpyAsync, address(dst), address(src), bytes, stream(on));
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
    TANDEM_CUDA(cuMemcpy2DAsync, &copy, stream(on));
  }

  Status setWord(StreamHandle on, void *at, uint64_t value) override {
    Current current(api, context);
    if (description.streamValues)
      return api.status(
          api.cuStreamWriteValue64(stream(on), address(at), value, CU_STREAM_WRITE_VALUE_DEFAULT),
          "cuStreamWriteValue64");
    TANDEM_TRY_CUDA(cuMemsetD32Async, address(at), static_cast<unsigned>(value), 1, stream(on));
    return api.status(
        api.cuMemsetD32Async(address(at) + 4, static_cast<unsigned>(value >> 32), 1, stream(on)),
        "cuMemsetD32Async");
  }
  Status waitValue(StreamHandle on, void *at, uint64_t atLeast) override {
    TANDEM_CUDA(cuStreamWaitValue64, stream(on), address(at), atLeast, CU_STREAM_WAIT_VALUE_GEQ);
  }

  // Relaxed: calls of other threads do not affect the capture.
  Status beginCapture(StreamHandle on) override {
    TANDEM_CUDA(cuStreamBeginCapture, stream(on), CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  Status endCapture(StreamHandle on, GraphHandle *graph) override {
    Current current(api, context);
    return api.status(api.cuStreamEndCapture(stream(on), Made<CUgraph>(graph)),
                      "cuStreamEndCapture");
  }
  Status isCapturing(StreamHandle on, bool *capturing) override {
    Current current(api, context);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    // The legacy default stream cannot be captured.
    if (on)
      TANDEM_TRY_CUDA(cuStreamIsCapturing, stream(on), &status);
    *capturing = status != CU_STREAM_CAPTURE_STATUS_NONE;
    return Status();
  }
  Status destroyGraph(GraphHandle graph) override {
    TANDEM_CUDA(cuGraphDestroy, static_cast<CUgraph>(graph));
  }
  Status instantiate(GraphHandle graph, ExecutableHandle *executable) override {
    Current current(api, context);
    // Kernels keep the priority of the stream that they were captured on.
    return api.status(api.cuGraphInstantiate(Made<CUgraphExec>(executable),
                                             static_cast<CUgraph>(graph),
                                             CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY),
                      "cuGraphInstantiate");
  }
  Status update(ExecutableHandle executable, GraphHandle graph, bool *done) override {
    Current current(api, context);
    CUgraphExecUpdateResultInfo why;
    std::memset(&why, 0, sizeof why);
    CUresult result = api.cuGraphExecUpdate(static_cast<CUgraphExec>(executable),
                                            static_cast<CUgraph>(graph), &why);
    *done = result == CUDA_SUCCESS;
    return result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE ? Status()
                                                          : api.status(result, "cuGraphExecUpdate");
  }
  Status frontier(StreamHandle on, std::vector<NodeHandle> &found) override {
    Current current(api, context);
    return nodes.frontier(stream(on), found);
  }
  Status dependencies(NodeHandle node, std::vector<NodeHandle> &found) override {
    Current current(api, context);
    return nodes.dependencies(static_cast<CUgraphNode>(node), found);
  }
  Status setLaunch(ExecutableHandle executable, NodeHandle node, FunctionHandle function,
                   const Grid &grid, void **with) override {
    Current current(api, context);
    return nodes.setLaunch(static_cast<CUgraphExec>(executable), static_cast<CUgraphNode>(node),
                           static_cast<CUfunction>(function), grid, with);
  }
  Status setCopy(ExecutableHandle executable, NodeHandle node, void *dst, const void *src,
                 uint64_t bytes) override {
    Current current(api, context);
    return nodes.setCopy(static_cast<CUgraphExec>(executable), static_cast<CUgraphNode>(node),
                         address(dst), address(src), bytes, context);
  }
  Status setLike(ExecutableHandle executable, NodeHandle node, NodeHandle other) override {
    Current current(api, context);
    return nodes.setLike(static_cast<CUgraphExec>(executable), static_cast<CUgraphNode>(node),
                         static_cast<CUgraphNode>(other), context);
  }
  Status launchGraph(ExecutableHandle executable, StreamHandle on) override {
    TANDEM_CUDA(cuGraphLaunch, static_cast<CUgraphExec>(executable), stream(on));
  }
  Status destroyExecutable(ExecutableHandle executable) override {
    TANDEM_CUDA(cuGraphExecDestroy, static_cast<CUgraphExec>(executable));
  }

  Status loadModule(std::string_view image, ModuleHandle *handle) override {
    Current current(api, context);
    return api.status(api.cuModuleLoadData(Made<CUmodule>(handle), image.data()),
                      "cuModuleLoadData");
  }
  Status unloadModule(ModuleHandle handle) override {
    return release([&api = api, handle] {
      return api.status(api.cuModuleUnload(static_cast<CUmodule>(handle)), "cuModuleUnload");
    });
  }
  Status function(ModuleHandle handle, const char *name, FunctionHandle *function) override {
    Current current(api, context);
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
    {
      std::lock_guard<std::mutex> lock(sizesMutex);
      arguments[made] = std::move(sizes);
    }
    // Load now: loading at the first launch would wait for running kernels, including waiting ones.
    return api.status(api.cuFuncLoad(made), "cuFuncLoad");
  }
  Status issueLaunch(FunctionHandle function, const Grid &grid, StreamHandle on,
                     void **arguments) override {
    TANDEM_CUDA(cuLaunchKernel, static_cast<CUfunction>(function), grid.x, grid.y, 1, grid.threads,
                1, 1, 0, stream(on), arguments, nullptr);
  }

  Expected<const std::vector<uint32_t> *> argumentSizes(FunctionHandle function) override {
    std::lock_guard<std::mutex> lock(sizesMutex);
    auto found = arguments.find(static_cast<CUfunction>(function));
    if (found == arguments.end() || found->second.empty())
      return Status(Code::Unsupported, "a kernel's arguments are not known");
    return &found->second;
  }

private:
  /// In hexadecimal.
  Expected<std::string> uuidOf(CUdevice of) const {
    CUuuid uuid{};
    TANDEM_TRY_CUDA(cuDeviceGetUuid, &uuid, of);
    std::string text;
    for (char byte : uuid.bytes)
      text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return text;
  }
  Expected<int> attribute(CUdevice_attribute which) {
    int value = 0;
    TANDEM_TRY_CUDA(cuDeviceGetAttribute, &value, which, device);
    return value;
  }
  Status query(CUresult result, const char *what, bool *done) const {
    *done = result == CUDA_SUCCESS;
    return result == CUDA_ERROR_NOT_READY ? Status() : api.status(result, what);
  }

  const CudaApi &api;
  CUdevice device;
  DriverUsers &users;
  CUcontext context = nullptr;
  CUstream transfers = nullptr; ///< for copy() and fill()
  SharedMemory shared;
  DeviceInfo description;
  CudaNodes nodes{api};
  std::mutex sizesMutex;
  std::map<CUfunction, std::vector<uint32_t>> arguments; ///< bytes; guarded by sizesMutex
};

#undef TANDEM_CUDA
#undef TANDEM_TRY_CUDA

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
