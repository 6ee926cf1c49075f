//===- CpuStream.h - a worker thread as a stream ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_CPU_CPUSTREAM_H
#define TANDEM_LIB_DEVICE_CPU_CPUSTREAM_H

#include "tandem/Runtime/Device.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem::cpu {

/// State shared by the streams and events of one device; outlives them all.
struct Shared {
  unsigned matmulThreads = 1;

  std::atomic<bool> aborted{false};
  std::mutex mutex; ///< guards reason, and the waits for events
  std::condition_variable eventReached;
  Status reason;
  std::atomic<int> waiters{0};

  void abort(const Status &why);
  Status abortReason();
};

/// Counts records: `issued` when enqueued, `last` when the stream has reached them.
class CpuEvent final : public Event {
public:
  explicit CpuEvent(std::shared_ptr<Shared> shared) : shared(std::move(shared)) {}
  bool reached() override { return last.load() >= issued.load(); }
  Status synchronize() override {
    return waitFor(issued.load()) ? Status() : shared->abortReason();
  }
  void reach(uint64_t ticket);
  /// False if the device was aborted meanwhile.
  bool waitFor(uint64_t ticket);

  std::atomic<uint64_t> issued{0};

private:
  std::atomic<uint64_t> last{0};
  std::shared_ptr<Shared> shared;
};

class CpuStream final : public Stream {
public:
  explicit CpuStream(std::shared_ptr<Shared> shared) : shared(std::move(shared)) {}
  ~CpuStream() override;

  Status enqueueHost(HostOperation &operation, const Frame &frame) override;
  Status record(Event &event, Marker marker) override;
  Status wait(Event &event, Marker marker) override;
  void timeEvents(CommandTime *times) override { eventTimes = times; }
  Status synchronize() override;
  bool idle() override;
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

  Status push(const Task &task);
  void work();
  void execute(const Task &task);
  static void run(const Task &task);
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
};

} // namespace tandem::cpu

#endif // TANDEM_LIB_DEVICE_CPU_CPUSTREAM_H
