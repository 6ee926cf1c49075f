//===- GpuStream.cpp - streams and events of a GPU ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuStream.h"

#include "tandem/Runtime/StartThread.h"

#include <cstring>

namespace tandem::gpu {

using Clock = std::chrono::steady_clock;

namespace {
/// How long work may take to end after an abort before the device counts as stuck.
constexpr std::chrono::seconds kGrace{10};
/// Of GpuStream::epochWord().
constexpr uint64_t kEpochBytes = 64;

/// A range of the vendor's profiler on the calling thread while the object lives.
class ProfilerRange {
public:
  ProfilerRange(const ProfilerRange &) = delete;
  ProfilerRange &operator=(const ProfilerRange &) = delete;
  ProfilerRange(const Vendor &vendor, const char *name) : vendor(vendor) {
    vendor.beginRange(name);
  }
  ~ProfilerRange() { vendor.endRange(); }

private:
  const Vendor &vendor;
};
} // namespace

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

GpuEvent::~GpuEvent() {
  if (!state->stuck)
    state->driver->destroyEvent(handle).ignore();
}

bool GpuEvent::reached() {
  if (recorded < issued)
    return false;
  if (issued == 0)
    return true;
  bool done = false;
  return !state->driver->queryEvent(handle, &done).ok() || done;
}

Status GpuEvent::synchronize() {
  uint64_t target = issued;
  if (target == 0)
    return Status();
  if (recorded < target) {
    std::unique_lock<std::mutex> lock(state->mutex);
    state->changed.wait(lock, [&] { return state->aborted || recorded >= target; });
  }
  auto nextPoll = Clock::now() + std::chrono::milliseconds(1);
  for (Backoff backoff; !state->aborted; backoff.pause()) {
    bool done = false;
    TANDEM_RETURN_IF_ERROR(state->driver->queryEvent(handle, &done));
    if (done)
      return Status();
    if (Clock::now() >= nextPoll) {
      TANDEM_RETURN_IF_ERROR(state->poll());
      nextPoll = Clock::now() + std::chrono::milliseconds(1);
    }
  }
  return state->abortReason();
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

Status GpuOperation::enqueue(Stream &stream, const Frame &frame) {
  return static_cast<DeviceStream &>(stream).submit(*this, frame); // all of the device's are
}

Expected<std::unique_ptr<DeviceStream>> DeviceStream::create(std::shared_ptr<DeviceState> state,
                                                             StreamPriority priority) {
  Driver &driver = *state->driver;
  std::unique_ptr<DeviceStream> stream(new DeviceStream(std::move(state)));
  TANDEM_RETURN_IF_ERROR(driver.createStream(&stream->handle, priority));
  TANDEM_RETURN_IF_ERROR(stream->allocate());
  return stream;
}

Expected<std::unique_ptr<DeviceStream>> DeviceStream::wrap(std::shared_ptr<DeviceState> state,
                                                           StreamHandle native) {
  TANDEM_RETURN_IF_ERROR(state->driver->checkStream(native));
  std::unique_ptr<DeviceStream> stream(new DeviceStream(std::move(state)));
  stream->foreign = true;
  stream->handle = native;
  TANDEM_RETURN_IF_ERROR(stream->allocate());
  return stream;
}

Status DeviceStream::allocate() {
  TANDEM_ASSIGN_OR_RETURN(progress, state->takeWord());
  if (foreign)
    return Status();
  TANDEM_RETURN_IF_ERROR(state->allocate(kEpochBytes, MemoryKind::Workspace, &epochs));
  return state->driver->fill(epochWord(true), 0xff, 8);
}

Expected<void *> DeviceStream::workspace() {
  std::lock_guard<std::mutex> lock(scratchMutex);
  if (!scratch) {
    uint32_t number = workspaceNumber;
    if (number == kOwnWorkspace) {
      TANDEM_ASSIGN_OR_RETURN(Scratch made, Scratch::make(state, kWorkspaceBytes));
      scratch = std::make_shared<Scratch>(std::move(made));
    } else {
      TANDEM_ASSIGN_OR_RETURN(scratch, state->sharedWorkspace(number));
    }
  }
  return scratch->data();
}

DeviceStream::~DeviceStream() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
    wake.notify_all();
  }
  if (worker.joinable())
    worker.join();
  // An instance keeps its stream until its runs on it have ended. Later work of a foreign stream is
  // the caller's, and may take any time.
  if (!foreign)
    drain().ignore();
  if (state->stuck)
    return;
  Driver &driver = *state->driver;
  for (const Tracked &entry : tracked)
    driver.destroyEvent(entry.event).ignore();
  for (EventHandle event : spare)
    driver.destroyEvent(event).ignore();
  times.release();
  if (handle && !foreign)
    driver.destroyStream(handle).ignore();
  if (epochs)
    state->free(epochs, kEpochBytes, MemoryKind::Workspace).ignore();
  if (progress)
    state->giveWord(progress);
  for (uint64_t *word : words)
    if (!state->aborted) // else a graph may still run
      state->giveSignalWord(word);
}

Status DeviceStream::submit(GpuOperation &operation, const Frame &frame,
                            std::shared_ptr<void> keep) {
  Task task;
  task.keep = std::move(keep);
  task.operation = &operation;
  task.frame = &frame;
  task.marker = operation.marker;
  task.time = timeOf(frame.times, operation.marker);
  return take(task);
}

Status DeviceStream::enqueueHost(HostOperation &operation, const Frame &frame) {
  Task task;
  task.host = &operation;
  task.frame = &frame;
  task.marker = operation.marker;
  task.time = timeOf(frame.times, operation.marker);
  return take(task);
}

Status DeviceStream::record(Event &event, Marker marker) {
  if (capture && capture->patches)
    return Status();
  Task task;
  task.event = static_cast<GpuEvent *>(&event);
  task.ticket = ++task.event->issued;
  task.marker = marker;
  task.time = timeOf(eventTimes, marker);
  return take(task);
}

Status DeviceStream::wait(Event &event, Marker marker) {
  if (capture && capture->patches)
    return Status();
  Task task;
  task.event = static_cast<GpuEvent *>(&event);
  task.ticket = task.event->issued;
  task.marker = marker;
  task.time = timeOf(eventTimes, marker);
  task.isWait = true;
  return task.ticket ? take(task) : Status();
}

Status DeviceStream::take(const Task &task) {
  if (state->aborted)
    return state->abortReason();
  std::lock_guard<std::mutex> lock(mutex);
  // A wait for an event whose record is still queued cannot be issued yet.
  bool possible = !task.host && !(task.isWait && task.event->recorded < task.ticket);
  if (capture)
    return possible ? issueTask(task) : Status(Code::Unsupported, "a host thread must issue it");
  if (pending == 0 && possible)
    return issueTask(task);
  return push(task);
}

Status DeviceStream::push(const Task &task) {
  if (!worker.joinable())
    TANDEM_RETURN_IF_ERROR(startThread(worker, "a stream", [this] { work(); }));
  queue.push_back(task);
  ++pending;
  wake.notify_one();
  return Status();
}

Status DeviceStream::issueTask(const Task &task) {
  Driver &driver = *state->driver;
  if (task.operation) {
    current.store(task.marker, std::memory_order_relaxed);
    ProfilerRange range(state->driver->vendor(), task.operation->name);
    afterCopy = std::exchange(copied, false);
    Status status =
        times.around(handle, task.time, [&] { return task.operation->issue(*this, *task.frame); });
    current.store(kNoMarker, std::memory_order_relaxed);
    return status;
  }
  if (task.isWait)
    return times.around(handle, task.time, [&] { return driver.wait(handle, task.event->handle); });
  TANDEM_RETURN_IF_ERROR(times.at(handle, task.time));
  TANDEM_RETURN_IF_ERROR(driver.record(task.event->handle, handle));
  std::lock_guard<std::mutex> lock(state->mutex);
  task.event->recorded = task.ticket;
  state->changed.notify_all();
  return Status();
}

void DeviceStream::work() {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    wake.wait(lock, [&] { return stopping || !queue.empty(); });
    if (queue.empty())
      return;
    Task task = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    execute(task);
    task.keep.reset();
    lock.lock();
    if (--pending == 0)
      drained.notify_all();
  }
}

void DeviceStream::execute(const Task &task) {
  if (state->aborted)
    return;
  current.store(task.marker, std::memory_order_relaxed);
  Status status;
  if (task.isWait) {
    std::unique_lock<std::mutex> lock(state->mutex);
    state->changed.wait(lock,
                        [&] { return state->aborted || task.event->recorded >= task.ticket; });
    if (state->aborted) {
      current.store(kNoMarker, std::memory_order_relaxed);
      return;
    }
  }
  if (task.host) {
    status = drain();
    try {
      if (status.ok() && !state->aborted)
        status = executeHost(task);
    } catch (const std::exception &error) {
      status = Status(Code::Internal, error.what());
    }
  } else {
    status = issueTask(task);
  }
  current.store(kNoMarker, std::memory_order_relaxed);
  if (status.ok())
    return;
  if (task.frame && task.frame->errors)
    task.frame->errors->report(status, task.marker);
  else
    state->abort(status);
}

Status DeviceStream::executeHost(const Task &task) {
  auto now = [] { return Clock::now().time_since_epoch() / std::chrono::nanoseconds(1); };
  ProfilerRange range(state->driver->vendor(), task.host->name);
  int64_t begin = task.time ? now() : 0;
  Status status = task.host->execute(*task.frame);
  if (task.time)
    *task.time = {begin, now()};
  return status;
}

Status DeviceStream::drain() {
  Clock::time_point giveUp = Clock::time_point::max();
  for (Backoff backoff; !state->stuck; backoff.pause()) {
    bool done = false;
    TANDEM_RETURN_IF_ERROR(state->driver->queryStream(handle, &done));
    if (done)
      return Status();
    if (state->aborted && giveUp == Clock::time_point::max())
      giveUp = Clock::now() + kGrace;
    if (Clock::now() > giveUp)
      state->stuck = true;
  }
  return state->abortReason();
}

Status DeviceStream::awaitIssue() {
  if (!foreign)
    return Status();
  std::unique_lock<std::mutex> lock(mutex);
  drained.wait(lock, [&] { return pending == 0; });
  return state->aborted ? state->abortReason() : Status();
}

Status DeviceStream::synchronize() {
  {
    std::unique_lock<std::mutex> lock(mutex);
    drained.wait(lock, [&] { return pending == 0; });
  }
  Status status = drain();
  return state->aborted ? state->abortReason() : status;
}

bool DeviceStream::isCapturing() {
  bool capturing = false;
  return foreign && state->driver->isCapturing(handle, &capturing).ok() && capturing;
}

bool DeviceStream::idle() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (pending)
      return false;
  }
  bool done = false;
  return !state->driver->queryStream(handle, &done).ok() || done;
}

Status DeviceStream::track(Marker marker) {
  if (marker == kNoMarker)
    return Status();
  std::lock_guard<std::mutex> lock(trackedMutex);
  if (capture) {
    if (!capture->patches && !capture->foreign)
      captured.push_back(marker);
    return Status();
  }
  size_t ended = 0;
  for (bool done = true; ended + 1 < tracked.size(); ++ended) {
    if (!state->driver->queryEvent(tracked[ended].event, &done).ok() || !done)
      break;
    spare.push_back(tracked[ended].event);
  }
  tracked.erase(tracked.begin(), tracked.begin() + static_cast<std::ptrdiff_t>(ended));
  EventHandle event = nullptr;
  if (spare.empty()) {
    TANDEM_RETURN_IF_ERROR(state->driver->createEvent(&event, false));
  } else {
    event = spare.back();
    spare.pop_back();
  }
  tracked.push_back({marker, event});
  return state->driver->record(event, handle);
}

void DeviceStream::beginCapture(Capture &into) {
  std::unique_lock<std::mutex> lock(mutex);
  drained.wait(lock, [&] { return pending == 0; });
  capture = &into;
  copied = false; // by an earlier operation
  std::lock_guard<std::mutex> trackedLock(trackedMutex);
  if (!into.patches && !into.foreign)
    captured.clear();
}

std::vector<Marker> DeviceStream::capturedWaits() const {
  std::lock_guard<std::mutex> lock(trackedMutex);
  return captured;
}

Marker DeviceStream::position() const {
  Marker now = current.load(std::memory_order_relaxed);
  if (now != kNoMarker)
    return now;
  if (Marker waiting = __atomic_load_n(static_cast<const Marker *>(progress), __ATOMIC_RELAXED);
      waiting != kNoMarker)
    return waiting;
  // Not with the lock in a call of the driver, which may block. An event may be in use for a later
  // marker by then, and `tracked` shorter: that position is as good.
  for (size_t i = 0;; ++i) {
    Tracked entry;
    {
      std::lock_guard<std::mutex> lock(trackedMutex);
      if (i >= tracked.size())
        return kNoMarker;
      entry = tracked[i];
    }
    bool done = false;
    if (state->driver->queryEvent(entry.event, &done).ok() && !done)
      return entry.marker;
  }
}

} // namespace tandem::gpu
