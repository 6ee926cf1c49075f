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

#include "FakeCuda.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <condition_variable>
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
using tandem::fake::knownKernels;
using tandem::fake::number;
using tandem::fake::Work;

struct Graph {
  std::mutex mutex;
  std::vector<Work> work; ///< in the order of issue
  bool open = true;       ///< streams that have joined leave it when it is closed
};

/// The GPU, from 1, that is current.
thread_local std::vector<CUcontext> contexts;
int64_t currentGpu() {
  return contexts.empty() ? 0 : static_cast<int64_t>(reinterpret_cast<uintptr_t>(contexts.back()));
}

/// Everything that is given to a GPU shares its lock. A driver that makes a graph has it for itself
/// until the GPU is idle, so that what would make it so, an abort too, waits for ever: not always,
/// on GPUs, but what relies on the contrary hangs there one day.
std::shared_mutex &lockOf(int64_t gpu) {
  static std::mutex mutex;
  static std::map<int64_t, std::shared_mutex> locks; // stay where they are
  std::lock_guard<std::mutex> lock(mutex);
  return locks[gpu];
}

struct {
  std::mutex mutex;
  std::set<class Queue *> all;
} queues;

/// One thread that does what it is given in order.
class Queue {
public:
  Queue() : gpu(currentGpu()), thread([this] { run(); }) {
    std::lock_guard<std::mutex> lock(queues.mutex);
    queues.all.insert(this);
  }
  const int64_t gpu;
  std::atomic<int64_t> passed{0}; ///< nanoseconds that have passed for events alone
  ~Queue() {
    {
      std::lock_guard<std::mutex> lock(queues.mutex);
      queues.all.erase(this);
    }
    push([this] { stop = true; });
    thread.join();
  }
  void push(Work work) {
    std::lock_guard<std::mutex> lock(mutex);
    queue.push_back(std::move(work));
    changed.notify_all();
  }
  bool idle() {
    std::lock_guard<std::mutex> lock(mutex);
    return queue.empty();
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return queue.empty(); });
  }

  /// Where work goes instead, or null.
  std::shared_ptr<Graph> capturing() const { return capture && capture->open ? capture : nullptr; }
  std::shared_ptr<Graph> capture;

private:
  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    while (!stop) {
      changed.wait(lock, [&] { return !queue.empty(); });
      Work work = queue.front();
      lock.unlock();
      work();
      lock.lock();
      queue.pop_front();
      changed.notify_all();
    }
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> queue;
  bool stop = false;
  std::thread thread;
};

/// Null is the legacy default stream of the current GPU, which lasts as long as the process.
Queue *queueOf(CUstream stream) {
  if (stream)
    return reinterpret_cast<Queue *>(stream);
  static std::mutex mutex;
  static std::map<int64_t, Queue *> legacy;
  std::lock_guard<std::mutex> lock(mutex);
  Queue *&queue = legacy[currentGpu()];
  if (!queue)
    queue = new Queue;
  return queue;
}

struct Event {
  std::atomic<uint64_t> recorded{0}, reached{0};
  std::atomic<int64_t> time{0}; ///< of the latest that was reached, in nanoseconds
  bool timed = true;

  /// The graph it has been recorded in, if any; asked while another thread records.
  std::shared_ptr<Graph> captured() {
    std::lock_guard<std::mutex> lock(mutex);
    return capture;
  }
  std::shared_ptr<Graph> captureIn(std::shared_ptr<Graph> graph) {
    std::lock_guard<std::mutex> lock(mutex);
    return capture = std::move(graph);
  }

private:
  std::mutex mutex;
  std::shared_ptr<Graph> capture;
};

void nap() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

uint64_t load(const void *at) {
  return __atomic_load_n(static_cast<const uint64_t *>(at), __ATOMIC_ACQUIRE);
}

/// Physical memory: a file.
struct Physical {
  int fd;
};

struct {
  std::mutex mutex;
  std::set<CUgraphExec> live;
} executables;

/// Until it has nothing to do.
void waitForGpu(int64_t gpu) {
  auto isIdle = [&] {
    std::lock_guard<std::mutex> lock(queues.mutex);
    return std::all_of(queues.all.begin(), queues.all.end(),
                       [&](Queue *queue) { return queue->gpu != gpu || queue->idle(); });
  };
  while (!isIdle())
    nap();
}

int deviceCount() {
  const char *count = std::getenv("TANDEM_FAKE_GPUS");
  return count ? static_cast<int>(std::strtol(count, nullptr, 10)) : 2;
}

void *pointer(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

} // namespace

void tandem::fake::add(CUstream stream, Work work) {
  auto *queue = queueOf(stream);
  std::shared_ptr<Graph> capture = queue->capturing();
  if (!capture) {
    std::shared_lock<std::shared_mutex> shared(lockOf(queue->gpu));
    return queue->push(std::move(work));
  }
  std::lock_guard<std::mutex> lock(capture->mutex);
  capture->work.push_back(std::move(work));
}

void tandem::fake::pass(CUstream stream, std::chrono::nanoseconds time) {
  queueOf(stream)->passed += time.count();
}

std::atomic<int64_t> &tandem::fake::number(const std::string &name) {
  static std::mutex mutex;
  static std::map<std::string, std::atomic<int64_t>> numbers; // stay where they are
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

extern "C" {

std::atomic<int64_t> *tandemFakeNumber(const char *name) { return &number(name); }

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
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
  void *memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  *at = reinterpret_cast<CUdeviceptr>(memory);
  return memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
// The driver has the GPU for itself until it is idle.
CUresult cuMemFree(CUdeviceptr at) {
  std::unique_lock<std::shared_mutex> alone(lockOf(currentGpu()));
  waitForGpu(currentGpu());
  return std::free(pointer(at)), CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  if (bytes < 4096 && number("no-small-host-memory-on") == currentGpu())
    return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemFreeHost(void *memory) {
  std::unique_lock<std::shared_mutex> alone(lockOf(currentGpu()));
  waitForGpu(currentGpu());
  return std::free(memory), CUDA_SUCCESS;
}
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  if (bytes > 1024 && bytes <= 2048)
    std::this_thread::sleep_for(std::chrono::milliseconds(number("late-copies")));
  add(stream, [=] {
    if (bytes % 8 != 0 || bytes > 2048 || (dst | src) % 8 != 0) {
      std::memcpy(pointer(dst), pointer(src), bytes);
      return;
    }
    for (size_t at = 0; at < bytes; at += 8) // may be signals
      __atomic_store_n(static_cast<uint64_t *>(pointer(dst + at)), load(pointer(src + at)),
                       __ATOMIC_RELEASE);
  });
  return CUDA_SUCCESS;
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *given, CUstream stream) {
  add(stream, [copy = *given] {
    for (size_t row = 0; row < copy.Height; ++row)
      std::memcpy(pointer(copy.dstDevice + row * copy.dstPitch),
                  pointer(copy.srcDevice + row * copy.srcPitch), copy.WidthInBytes);
  });
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
  return queueOf(stream)->idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuStreamSynchronize(CUstream stream) { return queueOf(stream)->wait(), CUDA_SUCCESS; }
CUresult cuStreamWaitEvent(CUstream stream, CUevent handle, unsigned) {
  auto *event = reinterpret_cast<Event *>(handle);
  auto *queue = queueOf(stream);
  if (std::shared_ptr<Graph> graph = event->captured()) { // the order of issue is kept anyway
    queue->capture = std::move(graph);
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
  if (event->captureIn(queueOf(stream)->capturing()))
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

CUresult cuModuleLoadData(CUmodule *module, const void *) {
  static int any;
  return *module = reinterpret_cast<CUmodule>(&any), CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *name) {
  static std::mutex mutex;
  static std::map<std::string, int> names; // stay where they are
  std::lock_guard<std::mutex> lock(mutex);
  *function =
      reinterpret_cast<CUfunction>(const_cast<char *>(names.emplace(name, 0).first->first.c_str()));
  return CUDA_SUCCESS;
}
CUresult cuFuncLoad(CUfunction) { return CUDA_SUCCESS; }
CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, unsigned, CUstream stream, void **arguments, void **) {
  static const auto kernels = knownKernels();
  auto found = kernels.find(reinterpret_cast<const char *>(function));
  if (found == kernels.end())
    return CUDA_ERROR_NOT_SUPPORTED;
  ++number("launches." + found->first);
  add(stream, found->second(arguments));
  return CUDA_SUCCESS;
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
  return memory == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  void *memory =
      ::mmap(pointer(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return memory == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t count) {
  return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  auto *queue = queueOf(stream);
  if (number("no-capture-on") == queue->gpu)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  queue->capture = std::make_shared<Graph>();
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  auto *queue = queueOf(stream);
  *graph = reinterpret_cast<CUgraph>(new std::shared_ptr<Graph>(queue->capture));
  queue->capture->open = false;
  queue->capture = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, unsigned long long) {
  std::unique_lock<std::shared_mutex> alone(lockOf(currentGpu()));
  waitForGpu(currentGpu());
  auto &made = *reinterpret_cast<std::shared_ptr<Graph> *>(graph);
  *executable = reinterpret_cast<CUgraphExec>(new std::shared_ptr<Graph>(made));
  std::lock_guard<std::mutex> lock(executables.mutex);
  executables.live.insert(*executable);
  return CUDA_SUCCESS;
}
CUresult cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *) {
  if (number("no-update") != 0)
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  *reinterpret_cast<std::shared_ptr<Graph> *>(executable) =
      *reinterpret_cast<std::shared_ptr<Graph> *>(graph);
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  std::shared_ptr<Graph> graph;
  {
    std::lock_guard<std::mutex> lock(executables.mutex);
    if (executables.live.count(executable) == 0) // an address that is gone
      return CUDA_ERROR_INVALID_VALUE;
    graph = *reinterpret_cast<std::shared_ptr<Graph> *>(executable);
  }
  ++number("graph-launches");
  add(stream, [graph] {
    for (const Work &work : graph->work)
      work();
  });
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  return delete reinterpret_cast<std::shared_ptr<Graph> *>(graph), CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  std::lock_guard<std::mutex> lock(executables.mutex);
  executables.live.erase(executable);
  return delete reinterpret_cast<std::shared_ptr<Graph> *>(executable), CUDA_SUCCESS;
}

} // extern "C"

// NOLINTEND(performance-no-int-to-ptr)
