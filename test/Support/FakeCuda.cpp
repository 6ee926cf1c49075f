//===- FakeCuda.cpp - a driver of GPUs that are threads ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What device cuda asks of libcuda.so.1, over host memory: streams are threads, graphs are lists of
// their work, memory that is shared has a file descriptor. Of the kernels it knows copies and
// signals. So the host's side of the device and of channel peer (order, capture, handles, aborts)
// is tested where no GPU is; it says nothing of what a GPU computes.
//
//===----------------------------------------------------------------------===//

// NOLINTBEGIN(performance-no-int-to-ptr): addresses and handles are integers in the driver's API

#include "FakeCupti.h"
#include "FakeQueue.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using tandem::fake::add;
using tandem::fake::currentGpu;
using tandem::fake::Event;
using tandem::fake::knownKernels;
using tandem::fake::load;
using tandem::fake::lockOf;
using tandem::fake::meetsFault;
using tandem::fake::nap;
using tandem::fake::Node;
using tandem::fake::number;
using tandem::fake::Queue;
using tandem::fake::queueOf;
using tandem::fake::waitForGpu;
using tandem::fake::Work;

/// The GPU, from 1, that is current.
thread_local std::vector<CUcontext> contexts;

/// Physical memory: a file.
struct Physical {
  int fd;
};
/// What is mapped: the end of its addresses, and its file. By where they begin.
std::mutex mappedMutex;
std::map<CUdeviceptr, std::pair<CUdeviceptr, int>> mapped; ///< guarded by mappedMutex

/// The mapping that an address is in, or the end; with the lock.
auto mappingOf(CUdeviceptr at) {
  auto next = mapped.upper_bound(at);
  if (next == mapped.begin() || at >= std::prev(next)->second.first)
    return mapped.end();
  return std::prev(next);
}

int deviceCount() {
  const char *count = std::getenv("TANDEM_FAKE_GPUS");
  return count ? static_cast<int>(std::strtol(count, nullptr, 10)) : 2;
}

/// Queries do so on GPUs, too, now and then.
void passLock() {
  if (number("queries-lock"))
    std::shared_lock<std::shared_mutex> shared(lockOf(currentGpu()));
}

int processors() {
  auto given = static_cast<int>(number("processors"));
  return given ? given : 132;
}

/// With knob processors: a kernel that waits has an SM for each of its blocks until it ends, and
/// gets them one by one, as they become free. Of others, one block runs after the other.
Work onProcessors(const std::string &kernel, unsigned blocks, Work work) {
  if (number("processors") == 0)
    return work;
  bool waits =
      kernel == "signal_wait" || kernel.rfind("exchange_", 0) == 0 || kernel.rfind("ll_", 0) == 0;
  std::atomic<int64_t> &busy = number("busy-" + std::to_string(currentGpu()));
  return [&busy, needed = waits ? blocks : 1, work = std::move(work)] {
    for (unsigned has = 0; has < needed;) {
      int64_t now = busy;
      if (now < processors() && busy.compare_exchange_strong(now, now + 1))
        ++has;
      else
        nap();
    }
    work();
    busy -= needed;
  };
}

void *pointer(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

} // namespace

int64_t tandem::fake::currentGpu() {
  return contexts.empty() ? 0 : static_cast<int64_t>(reinterpret_cast<uintptr_t>(contexts.back()));
}

std::shared_mutex &tandem::fake::lockOf(int64_t gpu) {
  static std::mutex mutex;
  static std::map<int64_t, std::shared_mutex> locks; // stay where they are
  std::lock_guard<std::mutex> lock(mutex);
  return locks[gpu];
}

void tandem::fake::waitForGpu(int64_t gpu) {
  while (!Queue::allIdle(gpu))
    nap();
}

void tandem::fake::pass(CUstream stream, std::chrono::nanoseconds time) {
  queueOf(stream)->passed += time.count();
}

std::atomic<int64_t> &tandem::fake::number(const std::string &name) {
  static std::mutex mutex;
  // They stay where they are, also for threads that hang when the process exits.
  static auto &numbers = *new std::map<std::string, std::atomic<int64_t>>;
  std::lock_guard<std::mutex> lock(mutex);
  auto [found, added] = numbers.try_emplace(name, 0);
  std::string variable = "TANDEM_FAKE_" + name;
  std::transform(variable.begin(), variable.end(), variable.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  if (const char *given = added ? std::getenv(variable.c_str()) : nullptr)
    found->second = std::strtol(given, nullptr, 10);
  return found->second;
}

bool tandem::fake::meetsFault(const std::string &call, int64_t who) {
  if (who <= 0)
    return false;
  if (number("stop-" + call) == who)
    ::raise(SIGSTOP);
  if (number("kill-" + call) == who)
    ::raise(SIGKILL);
  for (std::atomic<int64_t> &hangs = number("hang-" + call); hangs == who; nap()) {
  }
  return number("fail-" + call) == who;
}

extern "C" {

std::atomic<int64_t> *tandemFakeNumber(const char *name) { return &number(name); }

CUresult cuInit(unsigned) {
  tandem::fake::loadInjection();
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *version) { return *version = 13000, CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult, const char **name) { return *name = "FAKE", CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult, const char **text) {
  return *text = "the fake driver refuses", CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *count) { return *count = deviceCount(), CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice *device, int index) { return *device = index, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char *name, int size, CUdevice) {
  return std::strncpy(name, "fake", static_cast<size_t>(size)), CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  std::memset(uuid, device + 1, sizeof *uuid);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice) {
  *value = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR        ? 9
           : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR      ? 0
           : which == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT          ? processors()
           : which == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS ? number("no-values") == 0
                                                                        : 1;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  *context = reinterpret_cast<CUcontext>(static_cast<uintptr_t>(device + 1));
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = contexts.empty() ? nullptr : contexts.back();
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) { return contexts.push_back(context), CUDA_SUCCESS; }
CUresult cuCtxPopCurrent(CUcontext *context) {
  *context = contexts.back();
  contexts.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *at, size_t bytes) {
  tandem::fake::disturb();
  if (number("memory") && bytes > static_cast<size_t>(number("memory")))
    return CUDA_ERROR_OUT_OF_MEMORY;
  void *memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  *at = reinterpret_cast<CUdeviceptr>(memory);
  return memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
// The driver has the GPU for itself until it is idle.
CUresult cuMemFree(CUdeviceptr at) {
  tandem::fake::disturb();
  std::unique_lock<std::shared_mutex> alone(lockOf(currentGpu()));
  waitForGpu(currentGpu());
  return std::free(pointer(at)), CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  tandem::fake::disturb();
  if (bytes < 4096 && number("no-small-host-memory-on") == currentGpu())
    return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemFreeHost(void *memory) {
  (void)meetsFault("host", currentGpu());
  std::unique_lock<std::shared_mutex> alone(lockOf(currentGpu()));
  waitForGpu(currentGpu());
  return std::free(memory), CUDA_SUCCESS;
}
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  if (number("fail-on") == currentGpu() && ++number("failed-copies") > number("fail-after"))
    return CUDA_ERROR_LAUNCH_FAILED;
  if (bytes > 1024 && bytes <= 2048)
    std::this_thread::sleep_for(std::chrono::milliseconds(number("late-copies")));
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = src;
  copy.dstDevice = dst;
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  add(stream, tandem::fake::nodeOf(copy));
  return CUDA_SUCCESS;
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *given, CUstream stream) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = given->srcDevice;
  copy.srcPitch = given->srcPitch;
  copy.dstDevice = given->dstDevice;
  copy.dstPitch = given->dstPitch;
  copy.WidthInBytes = given->WidthInBytes;
  copy.Height = given->Height;
  copy.Depth = 1;
  add(stream, tandem::fake::nodeOf(copy));
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream) {
  add(stream, [=] { std::memset(pointer(at), value, bytes); });
  return CUDA_SUCCESS;
}

CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, size_t words, CUstream stream) {
  add(stream, [=] { std::fill_n(static_cast<unsigned *>(pointer(at)), words, value); });
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  return *least = 0, *greatest = -5, CUDA_SUCCESS;
}
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned, int priority) {
  number("high-streams") += priority == -5;
  number("low-streams") += priority == 0;
  return *stream = reinterpret_cast<CUstream>(new Queue), CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) {
  return delete reinterpret_cast<Queue *>(stream), CUDA_SUCCESS;
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
  return *context = reinterpret_cast<CUcontext>(static_cast<uintptr_t>(queueOf(stream)->gpu)),
         CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream stream) {
  tandem::fake::disturb();
  passLock();
  return queueOf(stream)->idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuStreamSynchronize(CUstream stream) {
  tandem::fake::disturb();
  return queueOf(stream)->wait(), CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent handle, unsigned) {
  auto *event = reinterpret_cast<Event *>(handle);
  auto *queue = queueOf(stream);
  if (event->captured()) {
    queue->join(*event);
    return CUDA_SUCCESS;
  }
  if (queue->capturing())
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  uint64_t target = event->recorded;
  add(stream, [=] {
    while (event->reached < target)
      nap();
  });
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent *event, unsigned flags) {
  auto *made = new Event;
  made->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  ++number("events");
  return *event = reinterpret_cast<CUevent>(made), CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event) {
  --number("events");
  return delete reinterpret_cast<Event *>(event), CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent handle, CUstream stream) {
  auto *event = reinterpret_cast<Event *>(handle);
  if (event->captureOn(*queueOf(stream)))
    return CUDA_SUCCESS;
  uint64_t ticket = ++event->recorded;
  add(stream, [=] {
    event->time =
        std::chrono::steady_clock::now().time_since_epoch().count() + queueOf(stream)->passed;
    event->reached = ticket;
  });
  return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent handle) {
  tandem::fake::disturb();
  passLock();
  auto *event = reinterpret_cast<Event *>(handle);
  if (event->captured())
    return CUDA_ERROR_CAPTURED_EVENT;
  return event->reached >= event->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuEventElapsedTime(float *time, CUevent from, CUevent to) {
  auto &first = *reinterpret_cast<Event *>(from), &last = *reinterpret_cast<Event *>(to);
  if (!first.timed || !last.timed || first.reached == 0 || last.reached == 0)
    return CUDA_ERROR_INVALID_HANDLE;
  if (first.reached < first.recorded || last.reached < last.recorded)
    return CUDA_ERROR_NOT_READY;
  *time = static_cast<float>(static_cast<double>(last.time - first.time) * 1e-6);
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  static std::mutex mutex;
  static std::map<std::string, int> texts; // stay where they are
  std::lock_guard<std::mutex> lock(mutex);
  auto *text = static_cast<const char *>(image);
  bool isText = std::isgraph(static_cast<unsigned char>(*text)) != 0; // else a file of machine code
  auto known = texts.emplace(isText ? text : "", 0).first;
  *module = reinterpret_cast<CUmodule>(const_cast<std::string *>(&known->first));
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  auto *text = reinterpret_cast<const std::string *>(module);
  *function = tandem::fake::functionOf(name, tandem::fake::declaredSizes(*text, name));
  return CUDA_SUCCESS;
}
CUresult cuFuncLoad(CUfunction) { return CUDA_SUCCESS; }
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
  const std::vector<size_t> &sizes = tandem::fake::argumentSizes(function);
  if (index >= sizes.size())
    return CUDA_ERROR_INVALID_VALUE;
  *offset = 0; // not used by the runtime
  return *size = sizes[index], CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned blocks, unsigned, unsigned, unsigned,
                        unsigned, unsigned, unsigned, CUstream stream, void **arguments, void **) {
  const auto &kernels = knownKernels();
  auto found = kernels.find(tandem::fake::nameOf(function));
  if (found == kernels.end())
    return CUDA_ERROR_NOT_SUPPORTED;
  ++number("launches." + found->first);
  number("blocks." + found->first) = blocks; // of the last launch
  Node node;
  node.work = onProcessors(found->first, blocks, found->second(arguments));
  node.function = function;
  add(stream, std::move(node));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute, CUdevice, CUdevice) {
  return *value = number("no-atomics") == 0, CUDA_SUCCESS;
}
CUresult cuDeviceCanAccessPeer(int *can, CUdevice, CUdevice) { return *can = 1, CUDA_SUCCESS; }
CUresult cuMemGetAllocationGranularity(size_t *size, const CUmemAllocationProp *,
                                       CUmemAllocationGranularity_flags) {
  return *size = 65536, CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *, unsigned long long) {
  int fd = ::memfd_create("fake-gpu", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = reinterpret_cast<uintptr_t>(new Physical{fd});
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  auto *physical = reinterpret_cast<Physical *>(handle);
  ::close(physical->fd);
  delete physical;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr *at, size_t bytes, size_t, CUdeviceptr,
                             unsigned long long) {
  void *memory = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *at = reinterpret_cast<CUdeviceptr>(memory);
  return memory == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes) {
  return ::munmap(pointer(at), bytes), CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  void *memory = ::mmap(pointer(at), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                        reinterpret_cast<Physical *>(handle)->fd, 0);
  if (memory == MAP_FAILED)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> lock(mappedMutex);
  mapped[at] = {at + bytes, ::dup(reinterpret_cast<Physical *>(handle)->fd)};
  return CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  if (meetsFault("unmap", currentGpu()))
    return CUDA_ERROR_INVALID_VALUE;
  {
    std::lock_guard<std::mutex> lock(mappedMutex);
    if (auto found = mapped.find(at); found != mapped.end()) {
      ::close(found->second.second);
      mapped.erase(found);
    }
  }
  void *memory =
      ::mmap(pointer(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return memory == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t count) {
  return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *memory) {
  std::lock_guard<std::mutex> lock(mappedMutex);
  auto found = mappingOf(reinterpret_cast<CUdeviceptr>(memory));
  if (found == mapped.end())
    return CUDA_ERROR_INVALID_VALUE;
  *handle = reinterpret_cast<uintptr_t>(new Physical{::dup(found->second.second)});
  return CUDA_SUCCESS;
}
CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr at) {
  std::lock_guard<std::mutex> lock(mappedMutex);
  auto found = mappingOf(at);
  if (found == mapped.end())
    return CUDA_ERROR_INVALID_VALUE;
  *base = found->first;
  return *bytes = found->second.first - found->first, CUDA_SUCCESS;
}
CUresult cuMemExportToShareableHandle(void *descriptor, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType, unsigned long long) {
  if (number("no-export-on") == currentGpu())
    return CUDA_ERROR_NOT_SUPPORTED;
  *static_cast<int *>(descriptor) = ::dup(reinterpret_cast<Physical *>(handle)->fd);
  return CUDA_SUCCESS;
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *descriptor,
                                        CUmemAllocationHandleType) {
  if (number("no-import-on") == currentGpu())
    return CUDA_ERROR_NOT_SUPPORTED;
  int fd = ::dup(static_cast<int>(reinterpret_cast<intptr_t>(descriptor)));
  *handle = reinterpret_cast<uintptr_t>(new Physical{fd});
  return fd < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned) {
  if (number("no-values") != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  add(stream,
      [=] { __atomic_store_n(static_cast<uint64_t *>(pointer(at)), value, __ATOMIC_RELEASE); });
  return CUDA_SUCCESS;
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned) {
  if (number("no-values") != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  add(stream, [=] {
    while (static_cast<int64_t>(load(pointer(at)) - value) < 0)
      nap();
  });
  return CUDA_SUCCESS;
}

} // extern "C"

// NOLINTEND(performance-no-int-to-ptr)
