//===- CpuStream.cpp - a worker thread as a stream ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuStream.h"

#include "CpuDevice.h"

#include <chrono>
#include <dlfcn.h>
#include <exception>

namespace tandem::cpu {

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

void Shared::abort(const Status &why) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!aborted) {
    reason = why.ok() ? Status(Code::Aborted, "the device was aborted") : why;
    aborted = true;
  }
  eventReached.notify_all();
}

Status Shared::abortReason() {
  std::lock_guard<std::mutex> lock(mutex);
  return reason;
}

void CpuEvent::reach(uint64_t ticket) {
  // A thread that sees the ticket may destroy the event at once; the stream keeps the shared state
  // alive.
  Shared &state = *shared;
  last.store(ticket);
  // Sequentially consistent with waitFor: the waiter sees the ticket, or this thread sees the
  // waiter.
  if (state.waiters.load() > 0) {
    std::lock_guard<std::mutex> lock(state.mutex);
    state.eventReached.notify_all();
  }
}

bool CpuEvent::waitFor(uint64_t ticket) {
  if (last.load() >= ticket)
    return true;
  std::unique_lock<std::mutex> lock(shared->mutex);
  ++shared->waiters;
  shared->eventReached.wait(lock, [&] { return shared->aborted || last.load() >= ticket; });
  --shared->waiters;
  return last.load() >= ticket;
}

CpuStream::~CpuStream() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
    wake.notify_all();
  }
  if (worker.joinable())
    worker.join();
}

Status CpuStream::push(const Task &task) {
  if (shared->aborted)
    return shared->abortReason();
  std::lock_guard<std::mutex> lock(mutex);
  if (!worker.joinable()) {
    try {
      worker = std::thread([this] { work(); });
    } catch (const std::exception &error) {
      return Status(Code::Internal,
                    std::string("cannot start a thread for a stream: ") + error.what());
    }
  }
  queue.push_back(task);
  ++pushed;
  if (sleeping)
    wake.notify_one();
  return Status();
}

Status CpuStream::enqueueHost(HostOperation &operation, const Frame &frame) {
  return push({&operation, nullptr, timeOf(frame.times, operation.marker), &frame, 0,
               operation.marker, false});
}

Status CpuStream::record(Event &event, Marker marker) {
  auto &e = static_cast<CpuEvent &>(event);
  return push({nullptr, &e, timeOf(eventTimes, marker), nullptr, ++e.issued, marker, false});
}

Status CpuStream::wait(Event &event, Marker marker) {
  auto &e = static_cast<CpuEvent &>(event);
  uint64_t ticket = e.issued;
  if (ticket == 0)
    return Status();
  return push({nullptr, &e, timeOf(eventTimes, marker), nullptr, ticket, marker, true});
}

Status CpuStream::synchronize() {
  std::unique_lock<std::mutex> lock(mutex);
  uint64_t target = pushed;
  drained.wait(lock, [&] { return done >= target; });
  lock.unlock();
  return shared->aborted ? shared->abortReason() : Status();
}

bool CpuStream::idle() {
  std::lock_guard<std::mutex> lock(mutex);
  return done == pushed;
}

void CpuStream::work() {
  setOpenMPThreads(static_cast<int>(shared->matmulThreads));
  std::vector<Task> batch;
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

void CpuStream::execute(const Task &task) {
  if (shared->aborted)
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

void CpuStream::run(const Task &task) {
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
  if (!status.ok() && task.frame->errors)
    task.frame->errors->report(status, task.marker);
}

} // namespace tandem::cpu
