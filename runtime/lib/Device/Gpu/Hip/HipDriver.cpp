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

hipStream_t stream(StreamHandle handle) { return static_cast<hipStream_t>(handle); }
hipEvent_t event(EventHandle handle) { return static_cast<hipEvent_t>(handle); }

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

#define TANDEM_TRY_HIP(name, ...) TANDEM_RETURN_IF_ERROR(api.status(api.name(__VA_ARGS__), #name))
#define TANDEM_HIP(name, ...)                                                                      \
  Current current(api, device);                                                                    \
  return api.status(api.name(__VA_ARGS__), #name)

class HipDriver final : public Driver {
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
    TANDEM_TRY_HIP(hipGetDeviceProperties, &properties, device);
    description.name = fmt::format("hip:{}", device);
    description.model = properties.name;
    // "gfx942:sramecc+:xnack-": code objects that name no feature run with any.
    description.target = properties.gcnArchName;
    description.target = description.target.substr(0, description.target.find(':'));
    TANDEM_ASSIGN_OR_RETURN(description.uuid, uuidOf(device));
    description.index = static_cast<unsigned>(device);
    int processors = 0;
    TANDEM_TRY_HIP(hipDeviceGetAttribute, &processors, hipDeviceAttributeMultiprocessorCount,
                   device);
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

  const DeviceInfo &info() const override { return description; }
  const Vendor &vendor() const override { return kHip; }
  Status runWithin(const std::function<Status()> &body) override {
    Current current(api, device);
    return body();
  }
  Status release(std::function<Status()> body) override {
    return users.release([&api = api, device = device, body = std::move(body)] {
      Current current(api, device);
      return body();
    });
  }
  void releasePending() override { users.releasePending().ignore(); }
  void neverRelease() override { users.neverRelease(); }
  Status freeNow(void *memory) override { TANDEM_HIP(hipFree, memory); }

  Status allocate(uint64_t bytes, void **memory) override { TANDEM_HIP(hipMalloc, memory, bytes); }
  Status free(void *memory) override {
    return release([&api = api, memory] { return api.status(api.hipFree(memory), "hipFree"); });
  }
  Status allocateHost(uint64_t bytes, void **memory) override {
    TANDEM_HIP(hipHostMalloc, memory, bytes,
               hipHostMallocPortable | hipHostMallocMapped | hipHostMallocCoherent);
  }
  Status freeHost(void *memory) override {
    return release(
        [&api = api, memory] { return api.status(api.hipHostFree(memory), "hipHostFree"); });
  }

  Status allocateShared(uint64_t bytes, void **memory) override {
    Current current(api, device);
    return shared.allocate(bytes, memory);
  }
  Status allocateSignals(uint64_t bytes, void **memory) override {
    {
      Current current(api, device);
      TANDEM_RETURN_IF_ERROR(shared.allocateSignals(bytes, memory));
    }
    return fill(*memory, 0, bytes);
  }
  Status exportShared(const void *memory, uint64_t bytes, SharedHandle *handle) override {
    Current current(api, device);
    return shared.exportMemory(memory, bytes, handle);
  }
  Status importShared(const SharedHandle &handle, uint64_t, void **memory) override {
    Current current(api, device);
    return shared.importMemory(handle, memory);
  }
  Status freeShared(void *memory) override {
    if (!shared.takeImported(memory))
      return free(memory);
    TANDEM_HIP(hipIpcCloseMemHandle, memory);
  }
  bool reaches(unsigned index) override { return shared.reaches(static_cast<int>(index)); }
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

  Status copy(void *dst, const void *src, uint64_t bytes) override {
    TANDEM_RETURN_IF_ERROR(issueCopy(dst, src, bytes, transfers));
    TANDEM_HIP(hipStreamSynchronize, transfers);
  }
  Status fill(void *dst, uint8_t value, uint64_t bytes) override {
    Current current(api, device);
    TANDEM_TRY_HIP(hipMemsetAsync, dst, value, bytes, transfers);
    return api.status(api.hipStreamSynchronize(transfers), "hipStreamSynchronize");
  }

  Status createStream(StreamHandle *handle, StreamPriority priority) override {
    Current current(api, device);
    int least = 0, greatest = 0; // a smaller number is a higher priority
    TANDEM_TRY_HIP(hipDeviceGetStreamPriorityRange, &least, &greatest);
    return api.status(api.hipStreamCreateWithPriority(Made<hipStream_t>(handle),
                                                      hipStreamNonBlocking,
                                                      priorityOf(priority, least, greatest)),
                      "hipStreamCreateWithPriority");
  }
  Status destroyStream(StreamHandle handle) override {
    TANDEM_HIP(hipStreamDestroy, stream(handle));
  }
  Status checkStream(StreamHandle handle) override {
    Current current(api, device);
    hipDevice_t of = device;
    if (handle && api.hipStreamGetDevice)
      TANDEM_TRY_HIP(hipStreamGetDevice, stream(handle), &of);
    if (of == device)
      return Status();
    return Status(Code::InvalidArgument,
                  "the stream belongs to another GPU than " + description.name);
  }
  Status queryStream(StreamHandle handle, bool *done) override {
    Current current(api, device);
    return query(api.hipStreamQuery(stream(handle)), "the stream has failed", done);
  }
  Status createEvent(EventHandle *handle, bool timing) override {
    Current current(api, device);
    return api.status(api.hipEventCreateWithFlags(Made<hipEvent_t>(handle),
                                                  timing ? hipEventDefault : hipEventDisableTiming),
                      "hipEventCreateWithFlags");
  }
  Status destroyEvent(EventHandle handle) override { TANDEM_HIP(hipEventDestroy, event(handle)); }
  Status record(EventHandle handle, StreamHandle on) override {
    TANDEM_HIP(hipEventRecord, event(handle), stream(on));
  }
  Status wait(StreamHandle waiting, EventHandle handle) override {
    TANDEM_HIP(hipStreamWaitEvent, stream(waiting), event(handle), 0);
  }
  Status queryEvent(EventHandle handle, bool *done) override {
    Current current(api, device);
    return query(api.hipEventQuery(event(handle)), "work before an event has failed", done);
  }
  Status elapsed(EventHandle from, EventHandle to, float *milliseconds) override {
    TANDEM_HIP(hipEventElapsedTime, milliseconds, event(from), event(to));
  }

  Status issueCopy(void *dst, const void *src, uint64_t bytes, StreamHandle on) override {
    TANDEM_HIP(hipMemcpyAsync, dst, src, bytes, hipMemcpyDefault, stream(on));
  }
  Status issueCopyRows(void *dst, uint64_t dstPitch, const void *src, uint64_t srcPitch,
                       uint64_t width, uint64_t rows, StreamHandle on) override {
    TANDEM_HIP(hipMemcpy2DAsync, dst, dstPitch, src, srcPitch, width, rows, hipMemcpyDefault,
               stream(on));
  }

  Status setWord(StreamHandle on, void *at, uint64_t value) override {
    Current current(api, device);
    auto *half = static_cast<uint32_t *>(at);
    TANDEM_TRY_HIP(hipMemsetD32Async, half, static_cast<int>(value), 1, stream(on));
    return api.status(api.hipMemsetD32Async(half + 1, static_cast<int>(value >> 32), 1, stream(on)),
                      "hipMemsetD32Async");
  }
  Status waitValue(StreamHandle, void *, uint64_t) override {
    return Status(Code::Unsupported, "stream waits need signal memory, which peers cannot map");
  }

  Status beginCapture(StreamHandle on) override {
    TANDEM_HIP(hipStreamBeginCapture, stream(on), hipStreamCaptureModeRelaxed);
  }
  Status endCapture(StreamHandle on, GraphHandle *graph) override {
    Current current(api, device);
    return api.status(api.hipStreamEndCapture(stream(on), Made<hipGraph_t>(graph)),
                      "hipStreamEndCapture");
  }
  Status isCapturing(StreamHandle on, bool *capturing) override {
    Current current(api, device);
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    // The legacy default stream cannot be captured.
    if (on)
      TANDEM_TRY_HIP(hipStreamIsCapturing, stream(on), &status);
    *capturing = status != hipStreamCaptureStatusNone;
    return Status();
  }
  Status destroyGraph(GraphHandle graph) override {
    TANDEM_HIP(hipGraphDestroy, static_cast<hipGraph_t>(graph));
  }
  Status instantiate(GraphHandle graph, ExecutableHandle *executable) override {
    Current current(api, device);
    hipGraphExec_t made = nullptr;
    auto from = static_cast<hipGraph_t>(graph);
    hipError_t result = api.hipGraphInstantiateWithFlags(&made, from, kUseNodePriority);
    if (result == hipErrorInvalidValue)
      result = api.hipGraphInstantiateWithFlags(&made, from, 0);
    *executable = made;
    return api.status(result, "hipGraphInstantiateWithFlags");
  }
  Status update(ExecutableHandle executable, GraphHandle graph, bool *done) override {
    Current current(api, device);
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult why = hipGraphExecUpdateSuccess;
    hipError_t result = api.hipGraphExecUpdate(static_cast<hipGraphExec_t>(executable),
                                               static_cast<hipGraph_t>(graph), &node, &why);
    *done = result == hipSuccess;
    return result == hipErrorGraphExecUpdateFailure ? Status()
                                                    : api.status(result, "hipGraphExecUpdate");
  }
  Status frontier(StreamHandle on, std::vector<NodeHandle> &found) override {
    Current current(api, device);
    found.clear();
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    const hipGraphNode_t *nodes = nullptr;
    size_t count = 0;
    TANDEM_RETURN_IF_ERROR(api.status(
        api.hipStreamGetCaptureInfo_v2(stream(on), &status, nullptr, nullptr, &nodes, &count),
        "hipStreamGetCaptureInfo"));
    if (status != hipStreamCaptureStatusActive)
      return Status(Code::Unsupported, "the stream is not being captured");
    found.assign(nodes, nodes + count);
    return Status();
  }
  Status dependencies(NodeHandle node, std::vector<NodeHandle> &found) override {
    Current current(api, device);
    found.clear();
    size_t count = 0;
    auto of = static_cast<hipGraphNode_t>(node);
    TANDEM_TRY_HIP(hipGraphNodeGetDependencies, of, nullptr, &count);
    if (count == 0)
      return Status();
    std::vector<hipGraphNode_t> nodes(count);
    TANDEM_TRY_HIP(hipGraphNodeGetDependencies, of, nodes.data(), &count);
    found.assign(nodes.begin(), nodes.end());
    return Status();
  }
  Status setLaunch(ExecutableHandle executable, NodeHandle node, FunctionHandle function,
                   const Grid &grid, void **with) override {
    Current current(api, device);
    hipKernelNodeParams parameters;
    std::memset(static_cast<void *>(&parameters), 0, sizeof parameters);
    parameters.func = function; // a hipFunction_t is accepted, as in captures
    parameters.gridDim = dim3(grid.x, grid.y, 1);
    parameters.blockDim = dim3(grid.threads, 1, 1);
    parameters.kernelParams = with;
    return api.status(api.hipGraphExecKernelNodeSetParams(static_cast<hipGraphExec_t>(executable),
                                                          static_cast<hipGraphNode_t>(node),
                                                          &parameters),
                      "hipGraphExecKernelNodeSetParams");
  }
  Status setCopy(ExecutableHandle executable, NodeHandle node, void *dst, const void *src,
                 uint64_t bytes) override {
    TANDEM_HIP(hipGraphExecMemcpyNodeSetParams1D, static_cast<hipGraphExec_t>(executable),
               static_cast<hipGraphNode_t>(node), dst, src, bytes, hipMemcpyDefault);
  }
  /// HIP's functions that read a node's parameters trust the caller's idea of its kind, and the
  /// numbers of the kinds have changed with HIP 6. So the run is captured again.
  Status setLike(ExecutableHandle, NodeHandle, NodeHandle) override {
    return Status(Code::Unsupported, "nodes of a library's work are not changed on HIP");
  }
  Status launchGraph(ExecutableHandle executable, StreamHandle on) override {
    TANDEM_HIP(hipGraphLaunch, static_cast<hipGraphExec_t>(executable), stream(on));
  }
  Status destroyExecutable(ExecutableHandle executable) override {
    TANDEM_HIP(hipGraphExecDestroy, static_cast<hipGraphExec_t>(executable));
  }

  Status loadModule(std::string_view image, ModuleHandle *handle) override {
    TANDEM_ASSIGN_OR_RETURN(std::string_view object, selectCodeObject(image, description.target));
    TANDEM_ASSIGN_OR_RETURN(KernelParameters kernels, readKernelParameters(object));
    Current current(api, device);
    hipModule_t made = nullptr;
    TANDEM_TRY_HIP(hipModuleLoadData, &made, object.data());
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
      return api.status(api.hipModuleUnload(static_cast<hipModule_t>(handle)), "hipModuleUnload");
    });
  }
  Status function(ModuleHandle handle, const char *name, FunctionHandle *function) override {
    Current current(api, device);
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
    TANDEM_HIP(hipModuleLaunchKernel, static_cast<hipFunction_t>(function), grid.x, grid.y, 1,
               grid.threads, 1, 1, 0, stream(on), with, nullptr);
  }
  Expected<const std::vector<uint32_t> *> argumentSizes(FunctionHandle function) override {
    std::lock_guard<std::mutex> lock(sizesMutex);
    auto found = arguments.find(function);
    if (found == arguments.end())
      return Status(Code::Unsupported, "a kernel's arguments are not known");
    return &found->second;
  }

private:
  /// In hexadecimal.
  Expected<std::string> uuidOf(int of) const {
    hipUUID uuid{};
    TANDEM_TRY_HIP(hipDeviceGetUuid, &uuid, of);
    std::string text;
    for (char byte : uuid.bytes)
      text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return text;
  }
  Status query(hipError_t result, const char *what, bool *done) const {
    *done = result == hipSuccess;
    return result == hipErrorNotReady ? Status() : api.status(result, what);
  }

  const HipApi &api;
  const int device;
  DriverUsers &users;
  hipStream_t transfers = nullptr; ///< for copy() and fill()
  HipSharedMemory shared;
  DeviceInfo description;
  std::mutex sizesMutex; ///< guards the fields below
  std::map<ModuleHandle, KernelParameters> modules;
  std::map<FunctionHandle, std::vector<uint32_t>> arguments; ///< bytes
};

#undef TANDEM_HIP
#undef TANDEM_TRY_HIP

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
