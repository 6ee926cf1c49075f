//===- HipDriver.cpp - the table of GPU functions, filled for HIP ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// docs/gpu.md ("HIP") says where HIP differs from CUDA, and what follows from it.
//
//===----------------------------------------------------------------------===//

#include "CodeObject.h"
#include "HipApi.h"
#include "SharedMemory.h"

#include "../Driver.h"
#include "../DriverUsers.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <vector>

namespace tandem::gpu {

namespace {

/// hipGraphInstantiateFlagUseNodePriority of HIP 6 and later.
constexpr unsigned long long kUseNodePriority = 8;

/// Makes the GPU current and restores the thread's previous one. Calls made meanwhile do not end
/// the embedder's captures.
class Current {
public:
  Current(const HipApi &api, int device) : api(api) {
    static_cast<void>(api.hipThreadExchangeStreamCaptureMode(&mode));
    changed = api.hipGetDevice(&before) == hipSuccess && before != device &&
              api.hipSetDevice(device) == hipSuccess;
  }
  Current(const Current &) = delete;
  Current &operator=(const Current &) = delete;
  ~Current() {
    if (changed)
      static_cast<void>(api.hipSetDevice(before));
    static_cast<void>(api.hipThreadExchangeStreamCaptureMode(&mode));
  }

private:
  const HipApi &api;
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed; ///< then the thread's own
  int before = 0;
  bool changed = false;
};

// Before VendorCalls.inc.
#define TANDEM_WHERE device
#define TANDEM_NAME(name) hip##name
#define TANDEM_CURRENT Current current(api, TANDEM_WHERE)
#define TANDEM_STATUS(name, ...) api.status(api.TANDEM_NAME(name)(__VA_ARGS__), "hip" #name)
#define TANDEM_TRY(name, ...) TANDEM_RETURN_IF_ERROR(TANDEM_STATUS(name, __VA_ARGS__))
#define TANDEM_CALL(name, ...)                                                                     \
  TANDEM_CURRENT;                                                                                  \
  return TANDEM_STATUS(name, __VA_ARGS__)

class HipDriver final : public Driver {
  using Api = HipApi;
  using Stream = hipStream_t;
  using Event = hipEvent_t;
  using Graph = hipGraph_t;
  using Executable = hipGraphExec_t;
  using Uuid = hipUUID;
  using CaptureStatus = hipStreamCaptureStatus;
  using Shared = HipSharedMemory;
  static constexpr auto kSuccess = hipSuccess, kNotReady = hipErrorNotReady;
  static constexpr auto kNotCapturing = hipStreamCaptureStatusNone;
  static constexpr auto kRelaxed = hipStreamCaptureModeRelaxed;

public:
  HipDriver(const HipApi &api, int device)
      : api(api), device(device), users(DriverUsers::of(kHip, device)), shared(api, device) {
    users.join();
  }
  ~HipDriver() override {
    if (transfers)
      destroyStream(transfers).ignore();
    users.leave();
  }

  Status open() {
    hipDeviceProp_t properties;
    std::memset(&properties, 0, sizeof properties);
    TANDEM_TRY(GetDeviceProperties, &properties, device);
    description.name = fmt::format("hip:{}", device);
    description.model = properties.name;
    // "gfx942:sramecc+:xnack-": code objects that name no feature run with any.
    description.target = properties.gcnArchName;
    description.target = description.target.substr(0, description.target.find(':'));
    TANDEM_ASSIGN_OR_RETURN(description.uuid, uuidOf(device));
    description.index = static_cast<unsigned>(device);
    int processors = 0;
    TANDEM_TRY(DeviceGetAttribute, &processors, hipDeviceAttributeMultiprocessorCount, device);
    description.processors = static_cast<unsigned>(std::max(processors, 1));
    description.sharesMemory = true;
    description.sharesByBytes = true;
    description.separateSignalPad = true;
    // Stream waits need signal memory, which other processes cannot map.
    description.streamValues = false;
    StreamHandle made = nullptr;
    TANDEM_RETURN_IF_ERROR(createStream(&made, StreamPriority::Normal));
    transfers = stream(made);
    return Status();
  }

  const Vendor &vendor() const override { return kHip; }
  Status freeNow(void *memory) override { TANDEM_CALL(Free, memory); }

  Status allocate(uint64_t bytes, void **memory) override { TANDEM_CALL(Malloc, memory, bytes); }
  Status free(void *memory) override {
    return release([&api = api, memory] { return TANDEM_STATUS(Free, memory); });
  }
  Status allocateHost(uint64_t bytes, void **memory) override {
    TANDEM_CALL(HostMalloc, memory, bytes,
                hipHostMallocPortable | hipHostMallocMapped | hipHostMallocCoherent);
  }
  Status freeHost(void *memory) override {
    return release([&api = api, memory] { return TANDEM_STATUS(HostFree, memory); });
  }

  Status allocateSignals(uint64_t bytes, void **memory) override {
    {
      TANDEM_CURRENT;
      TANDEM_RETURN_IF_ERROR(shared.allocateSignals(bytes, memory));
    }
    return fill(*memory, 0, bytes);
  }
  Status importShared(const SharedHandle &handle, uint64_t, void **memory) override {
    TANDEM_CURRENT;
    return shared.importMemory(handle, memory);
  }
  Status freeShared(void *memory) override {
    if (!shared.takeImported(memory))
      return free(memory);
    TANDEM_CALL(IpcCloseMemHandle, memory);
  }
  std::vector<std::string> atomicsOn() override {
    std::vector<std::string> all{description.uuid};
    int count = 0;
    if (api.hipGetDeviceCount(&count) != hipSuccess)
      return all;
    for (int other = 0; other < count; ++other)
      if (other != device && shared.hasAtomicsOn(other))
        if (auto uuid = uuidOf(other))
          all.push_back(std::move(*uuid));
    return all;
  }

  Status fill(void *dst, uint8_t value, uint64_t bytes) override {
    TANDEM_CURRENT;
    TANDEM_TRY(MemsetAsync, dst, value, bytes, transfers);
    return TANDEM_STATUS(StreamSynchronize, transfers);
  }

  Status createStream(StreamHandle *handle, StreamPriority priority) override {
    TANDEM_CURRENT;
    int least = 0, greatest = 0; // a smaller number is a higher priority
    TANDEM_TRY(DeviceGetStreamPriorityRange, &least, &greatest);
    return TANDEM_STATUS(StreamCreateWithPriority, Made<hipStream_t>(handle), hipStreamNonBlocking,
                         priorityOf(priority, least, greatest));
  }
  Status checkStream(StreamHandle handle) override {
    TANDEM_CURRENT;
    hipDevice_t of = device;
    if (handle && api.hipStreamGetDevice)
      TANDEM_TRY(StreamGetDevice, stream(handle), &of);
    if (of == device)
      return Status();
    return Status(Code::InvalidArgument,
                  "the stream belongs to another GPU than " + description.name);
  }
  Status createEvent(EventHandle *handle, bool timing) override {
    TANDEM_CALL(EventCreateWithFlags, Made<hipEvent_t>(handle),
                timing ? hipEventDefault : hipEventDisableTiming);
  }

  Status issueCopy(void *dst, const void *src, uint64_t bytes, StreamHandle on) override {
    TANDEM_CALL(MemcpyAsync, dst, src, bytes, hipMemcpyDefault, stream(on));
  }
  Status issueCopyRows(void *dst, uint64_t dstPitch, const void *src, uint64_t srcPitch,
                       uint64_t width, uint64_t rows, StreamHandle on) override {
    TANDEM_CALL(Memcpy2DAsync, dst, dstPitch, src, srcPitch, width, rows, hipMemcpyDefault,
                stream(on));
  }

  Status setWord(StreamHandle on, void *at, uint64_t value) override {
    TANDEM_CURRENT;
    auto *half = static_cast<uint32_t *>(at);
    TANDEM_TRY(MemsetD32Async, half, static_cast<int>(value), 1, stream(on));
    return TANDEM_STATUS(MemsetD32Async, half + 1, static_cast<int>(value >> 32), 1, stream(on));
  }
  Status waitValue(StreamHandle, void *, uint64_t) override {
    return Status(Code::Unsupported, "stream waits need signal memory, which peers cannot map");
  }

  Status instantiate(GraphHandle graph, ExecutableHandle *executable) override {
    TANDEM_CURRENT;
    hipGraphExec_t made = nullptr;
    auto from = static_cast<hipGraph_t>(graph);
    hipError_t result = api.hipGraphInstantiateWithFlags(&made, from, kUseNodePriority);
    if (result == hipErrorInvalidValue)
      result = api.hipGraphInstantiateWithFlags(&made, from, 0);
    *executable = made;
    return api.status(result, "hipGraphInstantiateWithFlags");
  }
  Status update(ExecutableHandle executable, GraphHandle graph, bool *done) override {
    TANDEM_CURRENT;
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult why = hipGraphExecUpdateSuccess;
    hipError_t result = api.hipGraphExecUpdate(static_cast<hipGraphExec_t>(executable),
                                               static_cast<hipGraph_t>(graph), &node, &why);
    *done = result == hipSuccess;
    return result == hipErrorGraphExecUpdateFailure ? Status()
                                                    : api.status(result, "hipGraphExecUpdate");
  }
  Status frontier(StreamHandle on, std::vector<NodeHandle> &found) override {
    TANDEM_CURRENT;
    found.clear();
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    const hipGraphNode_t *nodes = nullptr;
    size_t count = 0;
    TANDEM_TRY(StreamGetCaptureInfo_v2, stream(on), &status, nullptr, nullptr, &nodes, &count);
    if (status != hipStreamCaptureStatusActive)
      return Status(Code::Unsupported, "the stream is not being captured");
    found.assign(nodes, nodes + count);
    return Status();
  }
  Status dependencies(NodeHandle node, std::vector<NodeHandle> &found) override {
    TANDEM_CURRENT;
    found.clear();
    size_t count = 0;
    auto of = static_cast<hipGraphNode_t>(node);
    TANDEM_TRY(GraphNodeGetDependencies, of, nullptr, &count);
    if (count == 0)
      return Status();
    std::vector<hipGraphNode_t> nodes(count);
    TANDEM_TRY(GraphNodeGetDependencies, of, nodes.data(), &count);
    found.assign(nodes.begin(), nodes.end());
    return Status();
  }
  Status setLaunch(ExecutableHandle executable, NodeHandle node, FunctionHandle function,
                   const Grid &grid, void **with) override {
    TANDEM_CURRENT;
    hipKernelNodeParams parameters;
    std::memset(static_cast<void *>(&parameters), 0, sizeof parameters);
    parameters.func = function; // a hipFunction_t is accepted, as in captures
    parameters.gridDim = dim3(grid.x, grid.y, 1);
    parameters.blockDim = dim3(grid.threads, 1, 1);
    parameters.kernelParams = with;
    return TANDEM_STATUS(GraphExecKernelNodeSetParams, static_cast<hipGraphExec_t>(executable),
                         static_cast<hipGraphNode_t>(node), &parameters);
  }
  Status setCopy(ExecutableHandle executable, NodeHandle node, void *dst, const void *src,
                 uint64_t bytes) override {
    TANDEM_CALL(GraphExecMemcpyNodeSetParams1D, static_cast<hipGraphExec_t>(executable),
                static_cast<hipGraphNode_t>(node), dst, src, bytes, hipMemcpyDefault);
  }
  /// HIP's functions that read a node's parameters trust the caller's idea of its kind, and the
  /// numbers of the kinds have changed with HIP 6. So the run is captured again.
  Status setLike(ExecutableHandle, NodeHandle, NodeHandle) override {
    return Status(Code::Unsupported, "nodes of a library's work are not changed on HIP");
  }

  Status loadModule(std::string_view image, ModuleHandle *handle) override {
    TANDEM_ASSIGN_OR_RETURN(std::string_view object, selectCodeObject(image, description.target));
    TANDEM_ASSIGN_OR_RETURN(KernelParameters kernels, readKernelParameters(object));
    TANDEM_CURRENT;
    hipModule_t made = nullptr;
    TANDEM_TRY(ModuleLoadData, &made, object.data());
    *handle = made;
    std::lock_guard<std::mutex> lock(sizesMutex);
    modules[made] = std::move(kernels);
    return Status();
  }
  Status unloadModule(ModuleHandle handle) override {
    {
      std::lock_guard<std::mutex> lock(sizesMutex);
      modules.erase(handle);
    }
    return release([&api = api, handle] {
      return TANDEM_STATUS(ModuleUnload, static_cast<hipModule_t>(handle));
    });
  }
  Status function(ModuleHandle handle, const char *name, FunctionHandle *function) override {
    TANDEM_CURRENT;
    hipFunction_t made = nullptr;
    TANDEM_RETURN_IF_ERROR(
        api.status(api.hipModuleGetFunction(&made, static_cast<hipModule_t>(handle), name),
                   "hipModuleGetFunction")
            .withPrefix(fmt::format("kernel \"{}\": ", name)));
    *function = made;
    std::lock_guard<std::mutex> lock(sizesMutex);
    const KernelParameters &kernels = modules[handle];
    if (auto found = kernels.find(name); found != kernels.end())
      arguments[made] = found->second;
    return Status();
  }
  Status issueLaunch(FunctionHandle function, const Grid &grid, StreamHandle on,
                     void **with) override {
    TANDEM_CALL(ModuleLaunchKernel, static_cast<hipFunction_t>(function), grid.x, grid.y, 1,
                grid.threads, 1, 1, 0, stream(on), with, nullptr);
  }

private:
  std::map<ModuleHandle, KernelParameters> modules; ///< guarded by sizesMutex

#include "../VendorCalls.inc"
};

#undef TANDEM_CALL
#undef TANDEM_TRY
#undef TANDEM_STATUS
#undef TANDEM_CURRENT
#undef TANDEM_NAME
#undef TANDEM_WHERE

} // namespace

Expected<unsigned> countHipDevices() {
  TANDEM_ASSIGN_OR_RETURN(const HipApi *api, HipApi::get());
  int count = 0;
  TANDEM_RETURN_IF_ERROR(api->status(api->hipGetDeviceCount(&count), "hipGetDeviceCount"));
  return static_cast<unsigned>(count);
}

Expected<std::unique_ptr<Driver>> openHip(unsigned index) {
  TANDEM_ASSIGN_OR_RETURN(const HipApi *api, HipApi::get());
  auto driver = std::make_unique<HipDriver>(*api, static_cast<int>(index));
  TANDEM_RETURN_IF_ERROR(driver->open());
  return driver;
}

} // namespace tandem::gpu
