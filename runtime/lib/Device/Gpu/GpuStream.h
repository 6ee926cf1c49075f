//===- GpuStream.h - streams and events of a GPU ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A stream has two ways to take work. *Direct*: the vendor's stream gets it at once; so it is as
// long as everything is work of the GPU. *Queued*: a host function (a channel of host memory) must
// run in stream order and may wait for a peer; from there on the work waits in a queue of the
// stream, and a thread issues it, one piece after the other, until the queue is empty. The GPU
// itself never waits for the host: streams share few hardware queues, and a wait in one of them can
// stand in front of what another rank needs.
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

/// What streams, events, memory and channels of one device share; outlives them all.
struct DeviceState {
  explicit DeviceState(std::unique_ptr<Driver> driver) : driver(std::move(driver)) {}

  const std::unique_ptr<Driver> driver;
  HostClock clock{*driver};
  std::atomic<bool> aborted{false};
  /// Work did not end after an abort: what it uses cannot be given back.
  std::atomic<bool> stuck{false};
  std::mutex mutex; ///< guards what follows
  std::condition_variable changed;

  void abort(const Status &why);
  Status abortReason();

  /// Asked now and then by whoever waits for the GPU: errors of channels that nobody else would see
  /// (a communication library's own). Any thread.
  void addPoller(const void *owner, std::function<Status()> poller);
  void removePoller(const void *owner);
  Status poll();

  /// Eight bytes of the host, all ones, for a stream; taken back with giveWord().
  Expected<void *> takeWord();
  void giveWord(void *word);
  /// Eight bytes of the device, zero until an abort lets go of what waits for a peer: what signals
  /// a peer reads it first, and then does nothing. Made when first asked for.
  Expected<void *> releaseWord();
  /// Words of the device that signals are copied from, zero at first: an abort clears them once
  /// releaseWord() is set. Taken back with giveSignalWord(), when nothing reads it any more; null
  /// where there are no more.
  uint64_t *takeSignalWord();
  void giveSignalWord(uint64_t *word);
  static constexpr uint64_t kSignalWords = 254; ///< of a device
  /// All of them; null until releaseWord() was asked for.
  void *signalWords();
  /// Eight bytes of the device, zero until an abort has cleared the signals' words: what waits for
  /// a peer may go on only then, as a signal may be copied behind it. Null until releaseWord() was
  /// asked for.
  void *letGoWord();
  ~DeviceState();

private:
  std::mutex wordMutex;
  std::vector<void *> pages, words;
  std::vector<uint64_t *> freeSignalWords;
  uint64_t *release = nullptr; ///< and the signals' words behind it
  Status reason;
  std::mutex pollerMutex;
  std::map<const void *, std::function<Status()>> pollers;
};

/// Memory of the GPU that a plan owns.
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

/// Sleeps a little, longer the longer it has waited: GPU work is short, failures are not.
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
  /// Records enqueued, and records that the vendor's stream has been given.
  std::atomic<uint64_t> issued{0}, recorded{0};
};

/// What the streams of a capture share while it lasts.
struct Capture {
  /// In device memory: the number of the run, once the graph runs. Who reads it sets countRun.
  void *epoch = nullptr;
  /// An executable graph can be given other arguments. Not so where a library keeps books of what
  /// it has put into a graph.
  bool updatable = true;

  /// A word of the device that holds epoch * perRun + value while the graph runs, zero once this
  /// rank has let go of its waits. Null where there is none to be had.
  uint64_t *signalWord(uint64_t perRun, uint64_t value);

  DeviceState *state = nullptr;
  /// The kernel run_words, where something reads the run's number: what a graph begins with.
  FunctionHandle countRun = nullptr;
  std::vector<SignalWord> signalWords;
  bool closed = false;           ///< there are no others than these: somebody writes them already
  std::vector<uint64_t *> taken; ///< the first are those of signalWords
};

/// Work of the GPU: issued to the vendor's stream in its turn.
class GpuOperation : public Operation {
public:
  Status enqueue(Stream &stream, const Frame &frame) final;
  /// Gives the work to the vendor's stream; any thread, one at a time per stream.
  virtual Status issue(GpuStream &stream, const Frame &frame) = 0;
};

class GpuStream final : public Stream {
public:
  static Expected<std::unique_ptr<GpuStream>> create(std::shared_ptr<DeviceState> state,
                                                     StreamPriority priority);
  ~GpuStream() override;

  /// `keep`: what must live until the work was issued, where that is not the caller's promise.
  Status submit(GpuOperation &operation, const Frame &frame, std::shared_ptr<void> keep = nullptr);
  Status enqueueHost(HostOperation &operation, const Frame &frame) override;
  Status record(Event &event, Marker marker) override;
  Status wait(Event &event, Marker marker) override;
  Status synchronize() override;
  bool idle() override;
  Marker position() const override;
  std::vector<Marker> capturedWaits() const override;
  static constexpr uint64_t kNotCounted = ~uint64_t(1); ///< before no run
  void *native() override { return handle; }
  void timeEvents(CommandTime *into) override { eventTimes = into; }
  Status noteTimes() override { return times.note(); }

  /// From here on all work goes into the capture that the vendor's stream takes part in; what
  /// cannot is an Unsupported error. Waits until nothing is queued.
  void beginCapture(Capture &into);
  void endCapture() { capture = nullptr; }
  /// Null: work runs at once.
  Capture *capturing() const { return capture; }
  /// Eight bytes of the device for the number of a run.
  void *epochWord() const { return static_cast<std::byte *>(scratch) + kWorkspaceBytes; }
  /// What epochWord() holds once all replays that were enqueued are over; kNotCounted before.
  std::shared_ptr<std::atomic<uint64_t>> counted() const { return runsCounted; }
  /// What was issued last is a copy by the copy engines (which has said so): one that follows it
  /// there starts at once, a kernel some microseconds later.
  bool followsCopy() const { return afterCopy; }
  void noteCopy() { copied = true; }
  /// Eight bytes of the host where a kernel on this stream says in which command it waits.
  void *progressWord() const { return progress; }

  /// Of kWorkspaceBytes.
  void *workspace() const { return scratch; }
  /// To be called by an operation that has issued something that may wait for a peer: position()
  /// shows it until it is over.
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
    CommandTime *time = nullptr; ///< where to note when it ran
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
  /// Issues now if the stream is direct and the task can be; else queues it.
  Status take(const Task &task);
  Status issueTask(const Task &task);
  Status push(const Task &task);
  void work();
  void execute(const Task &task);
  Status executeHost(const Task &task);
  /// Until the vendor's stream has nothing left, or the device was aborted.
  Status drain();

  const std::shared_ptr<DeviceState> state;
  StreamTimes times;
  CommandTime *eventTimes = nullptr; ///< of the thread that enqueues
  StreamHandle handle = nullptr;
  void *scratch = nullptr; ///< workspace, then the epoch
  const std::shared_ptr<std::atomic<uint64_t>> runsCounted =
      std::make_shared<std::atomic<uint64_t>>(kNotCounted);
  void *progress = nullptr; ///< of the host
  Capture *capture = nullptr;
  bool copied = false, afterCopy = false; ///< of the operation that is issued, and the one before

  std::mutex mutex; ///< held while a task is issued directly
  std::condition_variable wake, drained;
  std::deque<Task> queue;
  uint64_t pending = 0; ///< tasks queued or in execution by the thread
  bool stopping = false;
  std::thread worker; ///< started by the first task that is queued
  std::atomic<Marker> current{kNoMarker};

  mutable std::mutex trackedMutex; ///< never held while something may block
  mutable std::deque<Tracked> tracked;
  mutable std::vector<EventHandle> spare;
  std::vector<Marker> captured; ///< what track() was told during the last capture
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_GPUSTREAM_H
