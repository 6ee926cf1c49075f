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

#include "KernelArguments.h"
#include "StreamTimes.h"

#include "tandem/Runtime/Device.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem::gpu {

class GpuStream;

/// State shared by the streams, events, memory and channels of one device; outlives them all.
struct DeviceState {
  explicit DeviceState(std::unique_ptr<Driver> driver) : driver(std::move(driver)) {}

  const std::unique_ptr<Driver> driver;
  HostClock clock{*driver};
  std::atomic<bool> aborted{false};
  /// Work did not end after an abort: its memory cannot be freed.
  std::atomic<bool> stuck{false};
  std::mutex mutex; ///< guards the fields below
  std::condition_variable changed;

  void abort(const Status &why);
  Status abortReason();

  /// Registers a function that threads waiting for the GPU call now and then; it reports
  /// asynchronous errors, for example of a communication library. Any thread.
  void addPoller(const void *owner, std::function<Status()> poller);
  void removePoller(const void *owner);
  Status poll();

  /// Eight bytes of host memory for a stream, initially all ones; return with giveWord().
  Expected<void *> takeWord();
  void giveWord(void *word);
  /// Eight bytes of device memory, zero until an abort. Kernels that signal a peer read it first
  /// and do nothing if it is set. Allocated at first use.
  Expected<void *> releaseWord();
  /// A device word that signals are copied from, initially zero. An abort clears these words after
  /// setting releaseWord(). Return with giveSignalWord() when it is unused; null if none is left.
  uint64_t *takeSignalWord();
  void giveSignalWord(uint64_t *word);
  static constexpr uint64_t kSignalWords = 254; ///< per device
  /// The array of all signal words; null before the first releaseWord().
  void *signalWords();
  /// Eight bytes of device memory, zero until an abort has cleared the signal words. Waits for a
  /// peer may end only then, because a later command may copy a signal. Null before the first
  /// releaseWord().
  void *letGoWord();
  ~DeviceState();

private:
  std::mutex wordMutex;
  std::vector<void *> pages, words;
  std::vector<uint64_t *> freeSignalWords;
  uint64_t *release = nullptr; ///< followed by the signal words
  Status reason;
  std::mutex pollerMutex;
  std::map<const void *, std::function<Status()>> pollers;
};

/// GPU memory owned by a plan.
class Scratch {
public:
  Scratch() = default;
  Scratch(Scratch &&other) noexcept { *this = std::move(other); }
  Scratch &operator=(Scratch &&other) noexcept;
  ~Scratch();
  /// Not initialised.
  static Expected<Scratch> make(std::shared_ptr<DeviceState> state, uint64_t bytes);
  void *data() const { return memory; }
  uint64_t size() const { return bytes; }

private:
  std::shared_ptr<DeviceState> state;
  void *memory = nullptr;
  uint64_t bytes = 0;
};

/// Sleeps between polls, longer the longer it has waited: GPU work is short, failures are not.
class Backoff {
public:
  void pause();

private:
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

class GpuEvent final : public Event {
public:
  GpuEvent(std::shared_ptr<DeviceState> state, EventHandle handle)
      : state(std::move(state)), handle(handle) {}
  ~GpuEvent() override;
  bool reached() override;
  Status synchronize() override;

private:
  friend class GpuStream;
  const std::shared_ptr<DeviceState> state;
  const EventHandle handle;
  /// Number of records enqueued, and number passed to the vendor's stream.
  std::atomic<uint64_t> issued{0}, recorded{0};
};

/// What the streams of a capture share while it lasts.
struct Capture {
  /// Device memory that holds the run number while the graph runs. Readers set countRun.
  void *epoch = nullptr;
  /// Whether an executable graph may be updated. False if a library tracks its nodes in a graph.
  bool updatable = true;

  /// A device word that holds epoch * perRun + value while the graph runs, and zero after an abort
  /// has released this rank's waits. Null if none is available.
  uint64_t *signalWord(uint64_t perRun, uint64_t value);

  DeviceState *state = nullptr;
  /// The kernel run_words, the graph's first node, if a command reads the run number.
  FunctionHandle countRun = nullptr;
  std::vector<SignalWord> signalWords;
  bool closed = false;           ///< signalWords is final: the graph's first node already writes it
  std::vector<uint64_t *> taken; ///< begins with the words of signalWords
};

/// GPU work, issued to the vendor's stream in order.
class GpuOperation : public Operation {
public:
  Status enqueue(Stream &stream, const Frame &frame) final;
  /// Issues the work on the vendor's stream; any thread, one at a time per stream.
  virtual Status issue(GpuStream &stream, const Frame &frame) = 0;
};

class GpuStream final : public Stream {
public:
  static Expected<std::unique_ptr<GpuStream>> create(std::shared_ptr<DeviceState> state,
                                                     StreamPriority priority);
  ~GpuStream() override;

  /// `keep`: kept alive until the work is issued, for objects that the caller does not own.
  Status submit(GpuOperation &operation, const Frame &frame, std::shared_ptr<void> keep = nullptr);
  Status enqueueHost(HostOperation &operation, const Frame &frame) override;
  Status record(Event &event, Marker marker) override;
  Status wait(Event &event, Marker marker) override;
  Status synchronize() override;
  bool idle() override;
  Marker position() const override;
  std::vector<Marker> capturedWaits() const override;
  static constexpr uint64_t kNotCounted = ~uint64_t(1); ///< value before the first run
  void *native() override { return handle; }
  void timeEvents(CommandTime *into) override { eventTimes = into; }
  Status noteTimes() override { return times.note(); }

  /// Records later work into the vendor stream's capture; work that cannot be captured is an
  /// Unsupported error. Waits until the queue is empty.
  void beginCapture(Capture &into);
  void endCapture() { capture = nullptr; }
  /// Null outside a capture.
  Capture *capturing() const { return capture; }
  /// Eight bytes of device memory for the run number.
  void *epochWord() const { return static_cast<std::byte *>(scratch) + kWorkspaceBytes; }
  /// The value of epochWord() after all enqueued replays; kNotCounted at first.
  std::shared_ptr<std::atomic<uint64_t>> counted() const { return runsCounted; }
  /// The last issued work was a copy by the copy engines. A second such copy starts at once; a
  /// kernel starts some microseconds later.
  bool followsCopy() const { return afterCopy; }
  void noteCopy() { copied = true; }
  /// Eight bytes of host memory where a waiting kernel on this stream writes its command's number.
  void *progressWord() const { return progress; }

  /// kWorkspaceBytes of device memory.
  void *workspace() const { return scratch; }
  /// For operations whose work may wait for a peer: position() reports `marker` until it ends.
  Status track(Marker marker);

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

  explicit GpuStream(std::shared_ptr<DeviceState> state)
      : state(std::move(state)), times(*this->state->driver, this->state->clock) {}
  static CommandTime *timeOf(CommandTime *times, Marker marker) {
    return times && marker != kNoMarker ? &times[static_cast<uint32_t>(marker)] : nullptr;
  }
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
  StreamTimes times;
  CommandTime *eventTimes = nullptr; ///< set by the thread that enqueues
  StreamHandle handle = nullptr;
  void *scratch = nullptr; ///< workspace, then the epoch
  const std::shared_ptr<std::atomic<uint64_t>> runsCounted =
      std::make_shared<std::atomic<uint64_t>>(kNotCounted);
  void *progress = nullptr; ///< host memory
  Capture *capture = nullptr;
  bool copied = false, afterCopy = false; ///< the operation being issued, and the previous one

  std::mutex mutex; ///< held while a task is issued directly
  std::condition_variable wake, drained;
  std::deque<Task> queue;
  uint64_t pending = 0; ///< tasks queued or being issued by the thread
  bool stopping = false;
  std::thread worker; ///< started by the first queued task
  std::atomic<Marker> current{kNoMarker};

  mutable std::mutex trackedMutex; ///< never held during a blocking call
  mutable std::deque<Tracked> tracked;
  mutable std::vector<EventHandle> spare;
  std::vector<Marker> captured; ///< markers of the last capture
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_GPUSTREAM_H
