//===- GpuStream.h - streams and events of a GPU ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A stream issues work in one of two modes. *Direct*: work goes to the vendor's stream at once, as
// long as it is all GPU work. *Queued*: from the first host function on (a channel of host memory,
// which may wait for a peer), work waits in a queue that a thread issues in order, until the queue
// is empty. The GPU itself never waits for the host: streams share few hardware queues, and a wait
// in one of them could block work that another rank needs.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GPUSTREAM_H
#define TANDEM_LIB_DEVICE_GPU_GPUSTREAM_H

#include "ChannelInterface.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem::gpu {

class GpuEvent final : public Event {
public:
  GpuEvent(std::shared_ptr<DeviceState> state, EventHandle handle)
      : state(std::move(state)), handle(handle) {}
  ~GpuEvent() override;
  bool reached() override;
  Status synchronize() override;

private:
  friend class DeviceStream;
  const std::shared_ptr<DeviceState> state;
  const EventHandle handle;
  /// Number of records enqueued, and number passed to the vendor's stream.
  std::atomic<uint64_t> issued{0}, recorded{0};
};

/// The streams of the device: work is issued in the calling thread, or by one of the stream's own
/// where something before it cannot be issued yet.
class DeviceStream final : public GpuStream {
public:
  static Expected<std::unique_ptr<DeviceStream>> create(std::shared_ptr<DeviceState> state,
                                                        StreamPriority priority);
  /// Over a stream of the caller; null: the legacy default stream.
  static Expected<std::unique_ptr<DeviceStream>> wrap(std::shared_ptr<DeviceState> state,
                                                      StreamHandle native);
  ~DeviceStream() override;

  /// `keep`: kept alive until the work is issued, for objects that the caller does not own.
  Status submit(GpuOperation &operation, const Frame &frame, std::shared_ptr<void> keep = nullptr);
  Status enqueueHost(HostOperation &operation, const Frame &frame) override;
  Status record(Event &event, Marker marker) override;
  Status wait(Event &event, Marker marker) override;
  Status synchronize() override;
  Status awaitIssue() override;
  bool idle() override;
  Marker position() const override;
  std::vector<Marker> capturedWaits() const override;
  Status track(Marker marker) override;
  void shareWorkspace(uint32_t number) override { workspaceNumber = number; }
  Status allocateWorkspace() override { return workspace().status(); }
  Expected<void *> workspace() override;
  bool isCapturing() override;
  static constexpr uint64_t kNotCounted = ~uint64_t(1); ///< value before the first run
  void timeEvents(CommandTime *into) override { eventTimes = into; }
  Status noteTimes() override { return times.note(); }

  /// Records later work into the vendor stream's capture; work that cannot be captured is an
  /// Unsupported error. Waits until the queue is empty.
  void beginCapture(Capture &into);
  void endCapture() { capture = nullptr; }
  /// Device words that the graphs captured on this stream first copy signals from. All of them are
  /// of one instance, whose runs are in order, so they share the words.
  std::vector<uint64_t *> &signalWords() { return words; }
  /// The value of epochWord() after all enqueued replays; kNotCounted at first.
  std::shared_ptr<std::atomic<uint64_t>> counted() const { return runsCounted; }

private:
  struct Task {
    GpuOperation *operation = nullptr;
    HostOperation *host = nullptr;
    GpuEvent *event = nullptr;
    const Frame *frame = nullptr;
    uint64_t ticket = 0;
    Marker marker = kNoMarker;
    bool isWait = false;
    CommandTime *time = nullptr; ///< where to store when it ran
    std::shared_ptr<void> keep;
  };
  struct Tracked {
    Marker marker;
    EventHandle event;
  };

  explicit DeviceStream(std::shared_ptr<DeviceState> state)
      : state(std::move(state)), times(*this->state->driver, this->state->clock) {}
  static CommandTime *timeOf(CommandTime *times, Marker marker) {
    return times && marker != kNoMarker ? &times[static_cast<uint32_t>(marker)] : nullptr;
  }
  /// Memory that every stream needs.
  Status allocate();
  /// Issues the task now if the stream is direct and the task allows it; else queues it.
  Status take(const Task &task);
  Status issueTask(const Task &task);
  Status push(const Task &task);
  void work();
  void execute(const Task &task);
  Status executeHost(const Task &task);
  /// Waits until the vendor's stream is idle or the device was aborted.
  Status drain();

  const std::shared_ptr<DeviceState> state;
  bool foreign = false; ///< `handle` is the caller's
  static constexpr uint32_t kOwnWorkspace = ~uint32_t(0);
  std::atomic<uint32_t> workspaceNumber{kOwnWorkspace};
  std::mutex scratchMutex;          ///< guards `scratch`: allocated by any thread, used by a worker
  std::shared_ptr<Scratch> scratch; ///< the workspace; null until it is needed
  StreamTimes times;
  CommandTime *eventTimes = nullptr; ///< set by the thread that enqueues
  const std::shared_ptr<std::atomic<uint64_t>> runsCounted =
      std::make_shared<std::atomic<uint64_t>>(kNotCounted);

  std::mutex mutex; ///< held while a task is issued directly
  std::condition_variable wake, drained;
  std::deque<Task> queue;
  uint64_t pending = 0; ///< tasks queued or being issued by the thread
  bool stopping = false;
  std::thread worker; ///< started by the first queued task
  std::atomic<Marker> current{kNoMarker};

  mutable std::mutex trackedMutex;      ///< never held during a blocking call
  mutable std::vector<Tracked> tracked; ///< in order
  mutable std::vector<EventHandle> spare;
  std::vector<Marker> captured;  ///< markers of the last capture
  std::vector<uint64_t *> words; ///< see signalWords()
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_GPUSTREAM_H
