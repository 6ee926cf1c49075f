//===- CpuDevice.cpp - the host as a device ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuDevice.h"

#include "tandem/Runtime/HostOps.h"
#include "tandem/Runtime/Kernel.h"
#include "tandem/Runtime/MappedMemory.h"
#include "tandem/Runtime/StartThread.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

namespace tandem {

namespace cpu {

int setOpenMPThreads(int threads) {
  // Looked up at run time: nothing here is compiled with OpenMP.
  static const auto set =
      reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  static const auto get = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  if (!set || !get)
    return 0;
  int before = get();
  set(threads);
  return before;
}

namespace {

/// State shared by the streams and events of one device; outlives them all.
struct Shared {
  unsigned matmulThreads = 1;

  std::atomic<bool> aborted{false};
  std::mutex mutex; ///< guards reason, and the waits for events
  std::condition_variable eventReached;
  Status reason;
  std::atomic<int> waiters{0};

  void abort(const Status &why) {
    std::lock_guard<std::mutex> lock(mutex);
    if (!aborted) {
      reason = why.ok() ? Status(Code::Aborted, "the device was aborted") : why;
      aborted = true;
    }
    eventReached.notify_all();
  }

  Status abortReason() {
    std::lock_guard<std::mutex> lock(mutex);
    return reason;
  }
};

/// Counts records: `issued` when enqueued, `last` when the stream has reached them.
class CpuEvent final : public Event {
public:
  explicit CpuEvent(std::shared_ptr<Shared> shared) : shared(std::move(shared)) {}
  bool reached() override { return last.load() >= issued.load(); }
  Status synchronize() override {
    return waitFor(issued.load()) ? Status() : shared->abortReason();
  }

  void reach(uint64_t ticket) {
    // A thread that sees the ticket may destroy the event at once; the stream keeps the shared
    // state alive.
    Shared &state = *shared;
    last.store(ticket);
    // Sequentially consistent with waitFor: the waiter sees the ticket, or this thread sees the
    // waiter.
    if (state.waiters.load() > 0) {
      std::lock_guard<std::mutex> lock(state.mutex);
      state.eventReached.notify_all();
    }
  }

  /// False if the device was aborted meanwhile.
  bool waitFor(uint64_t ticket) {
    if (last.load() >= ticket)
      return true;
    std::unique_lock<std::mutex> lock(shared->mutex);
    ++shared->waiters;
    shared->eventReached.wait(lock, [&] { return shared->aborted || last.load() >= ticket; });
    --shared->waiters;
    return last.load() >= ticket;
  }

  std::atomic<uint64_t> issued{0};

private:
  std::atomic<uint64_t> last{0};
  std::shared_ptr<Shared> shared;
};

class CpuStream final : public Stream {
public:
  explicit CpuStream(std::shared_ptr<Shared> shared) : shared(std::move(shared)) {
    queue.reserve(kUsualTasks);
  }
  ~CpuStream() override {
    {
      std::lock_guard<std::mutex> lock(mutex);
      stopping = true;
      wake.notify_all();
    }
    if (worker.joinable())
      worker.join();
  }

  Status enqueueHost(HostOperation &operation, const Frame &frame) override {
    return push({&operation, nullptr, timeOf(frame.times, operation.marker), &frame, 0,
                 operation.marker, false});
  }

  Status record(Event &event, Marker marker) override {
    auto &e = static_cast<CpuEvent &>(event);
    return push({nullptr, &e, timeOf(eventTimes, marker), nullptr, ++e.issued, marker, false});
  }

  Status wait(Event &event, Marker marker) override {
    auto &e = static_cast<CpuEvent &>(event);
    uint64_t ticket = e.issued;
    if (ticket == 0)
      return Status();
    return push({nullptr, &e, timeOf(eventTimes, marker), nullptr, ticket, marker, true});
  }

  void timeEvents(CommandTime *times) override { eventTimes = times; }

  Status synchronize() override {
    std::unique_lock<std::mutex> lock(mutex);
    uint64_t target = pushed;
    drained.wait(lock, [&] { return done >= target; });
    lock.unlock();
    return shared->aborted ? shared->abortReason() : Status();
  }

  bool idle() override {
    std::lock_guard<std::mutex> lock(mutex);
    return done == pushed;
  }

  Marker position() const override { return current.load(std::memory_order_relaxed); }

private:
  struct Task {
    HostOperation *operation; ///< or null, then:
    CpuEvent *event;          ///< an event to reach or to wait for
    CommandTime *time;        ///< where to store when it ran, or null
    const Frame *frame;
    uint64_t ticket;
    Marker marker;
    bool isWait;
  };
  /// Space for so many is there from the start, so that runs seldom allocate.
  static constexpr size_t kUsualTasks = 512;

  Status push(const Task &task) {
    if (shared->aborted)
      return shared->abortReason();
    std::lock_guard<std::mutex> lock(mutex);
    if (!worker.joinable())
      TANDEM_RETURN_IF_ERROR(startThread(worker, "a stream", [this] { work(); }));
    queue.push_back(task);
    ++pushed;
    if (sleeping)
      wake.notify_one();
    return Status();
  }

  void work() {
    setOpenMPThreads(static_cast<int>(shared->matmulThreads));
    std::vector<Task> batch;
    batch.reserve(kUsualTasks);
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      sleeping = true;
      wake.wait(lock, [&] { return stopping || !queue.empty(); });
      sleeping = false;
      if (queue.empty())
        return;
      batch.swap(queue);
      lock.unlock();
      for (const Task &task : batch)
        execute(task);
      lock.lock();
      done += batch.size();
      batch.clear();
      current.store(kNoMarker, std::memory_order_relaxed);
      drained.notify_all();
    }
  }

  void execute(const Task &task) {
    if (shared->aborted || failed)
      return;
    current.store(task.marker, std::memory_order_relaxed);
    if (!task.time)
      return run(task);
    auto now = [] {
      return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    };
    int64_t begin = now();
    // Waiting threads may read the times once the record is reached.
    if (task.event && !task.isWait)
      *task.time = {begin, begin};
    run(task);
    if (!task.event || task.isWait)
      *task.time = {begin, now()};
  }

  void run(const Task &task) {
    if (task.event) {
      if (task.isWait)
        task.event->waitFor(task.ticket);
      else
        task.event->reach(task.ticket);
      return;
    }
    Status status;
    try {
      status = task.operation->execute(*task.frame);
    } catch (const std::exception &error) { // out of memory, or from the vendor's library
      status = Status(Code::Internal, error.what());
    }
    if (!status.ok() && task.frame->errors) {
      failed = true;
      task.frame->errors->report(status, task.marker);
    }
  }

  CommandTime *timeOf(CommandTime *times, Marker marker) const {
    return times && marker != kNoMarker ? &times[static_cast<uint32_t>(marker)] : nullptr;
  }

  std::shared_ptr<Shared> shared;
  std::thread worker; ///< started by the first task
  std::mutex mutex;
  std::condition_variable wake, drained;
  std::vector<Task> queue;
  CommandTime *eventTimes = nullptr; ///< set by the thread that enqueues
  uint64_t pushed = 0, done = 0;
  bool sleeping = false, stopping = false;
  std::atomic<Marker> current{kNoMarker};
  /// Read and set by the worker. Who gets an error aborts the device, but perhaps later: if another
  /// thread is at it already, the report returns at once. Until then nothing may run, reach an
  /// event or read what the failed command would have waited for.
  bool failed = false;
};

class CpuDevice final : public Device {
public:
  explicit CpuDevice(const CpuDeviceOptions &options) : shared(std::make_shared<Shared>()) {
    shared->matmulThreads = options.matmulThreads ? options.matmulThreads : 1;
  }

  std::string_view name() const override { return "cpu"; }
  std::string description() override { return "cpu, " + matrixLibrary(); }
  bool hostMemory() const override { return true; }

  Expected<std::unique_ptr<Stream>> createStream(StreamPriority) override {
    return std::make_unique<CpuStream>(shared);
  }
  Expected<std::unique_ptr<Event>> createEvent() override {
    return std::make_unique<CpuEvent>(shared);
  }
  Expected<std::unique_ptr<Memory>> allocate(uint64_t bytes, MemoryKind kind) override {
    constexpr uint64_t align = 64;
    uint64_t rounded = std::max(align, (bytes + align - 1) / align * align);
    bool callers = allocator && allocator->serves(kind);
    if (kind == MemoryKind::Symmetric && mapsSymmetric && !callers && rounded >= bytes) {
      auto block = MappedMemory::allocate(rounded);
      if (block) {
        // As below: this rank has its pages, and has them now.
        std::memset((*block)->base(), 0, rounded);
        void *base = (*block)->base();
        return std::make_unique<Memory>(
            base, bytes, [block = std::shared_ptr<MappedMemory>(std::move(*block))](void *) {});
      }
      log(LogLevel::Warning, "other processes cannot store into this rank's memory, so puts take "
                             "longer: " +
                                 block.status().message());
    }
    void *memory = rounded < bytes ? nullptr
                   : callers       ? allocator->allocate(rounded, kind)
                                   : std::aligned_alloc(align, rounded);
    if (!memory)
      return Status(Code::OutOfMemory, "cannot allocate " + std::to_string(bytes) + " bytes");
    std::memset(memory, 0, rounded);
    if (callers)
      return std::make_unique<Memory>(memory, bytes, [=, allocator = allocator](void *base) {
        allocator->free(base, rounded, kind);
      });
    return std::make_unique<Memory>(memory, bytes, std::free);
  }

  Expected<std::unique_ptr<Operation>> prepareCopy(const Operand &dst,
                                                   const Operand &src) override {
    return run(dst, src, CopyPlan(dst.layout, src.layout));
  }
  Expected<std::unique_ptr<Operation>> prepareMatmul(const MatmulDesc &desc) override {
    return cpu::prepareMatmul(desc, shared->matmulThreads);
  }
  Expected<std::unique_ptr<Operation>> prepareAccumulate(const Operand &dst, const Operand &src,
                                                         ReduceOp op) override {
    return makeHostOperation(
        [to = dst.slot, from = src.slot,
         plan = CombinePlan(dst.layout, {dst.layout, src.layout}, op)](const Frame &frame) {
          plan.run(frame.pointers[to], {frame.pointers[to], frame.pointers[from]});
          return Status();
        });
  }
  Expected<std::unique_ptr<Operation>> prepareReduce(const Operand &dst, const Operand &src,
                                                     uint64_t dims, ReduceOp op,
                                                     bool ordered) override {
    return run(dst, src, ReducePlan(dst.layout, src.layout, dims, op, ordered));
  }
  Expected<std::unique_ptr<Operation>> prepareCall(const CallDesc &desc) override {
    if (desc.isBuiltin)
      return prepareBuiltin(desc, shared->matmulThreads);
    if (!desc.kernel->cpuFunction)
      return Status(Code::Unsupported, "expected a function for CPUs, found none");
    // On the stream's thread.
    return makeHostOperation([desc](const Frame &frame) {
      return callKernel(desc, desc.kernel->cpuFunction, nullptr, frame);
    });
  }
  Expected<std::unique_ptr<Operation>> prepareLaunch(const LaunchDesc &desc) override {
    return cpu::prepareLaunch(desc);
  }

  void abort(const Status &reason) override { shared->abort(reason); }

private:
  /// Runs a plan from one operand to another.
  template <typename Plan>
  static std::unique_ptr<Operation> run(const Operand &dst, const Operand &src, Plan plan) {
    return makeHostOperation(
        [to = dst.slot, from = src.slot, plan = std::move(plan)](const Frame &frame) {
          plan.run(frame.pointers[to], frame.pointers[from]);
          return Status();
        });
  }

  std::shared_ptr<Shared> shared;
};

} // namespace
} // namespace cpu

std::unique_ptr<Device> createCpuDevice(const CpuDeviceOptions &options) {
  return std::make_unique<cpu::CpuDevice>(options);
}

} // namespace tandem
