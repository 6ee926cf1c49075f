//===- Work.h - what streams ask of the progress thread ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHANNEL_UCX_WORK_H
#define TANDEM_CHANNEL_UCX_WORK_H

#include "Api.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem::ucx {

class Worker;

/// What a spinning thread does between two looks.
inline void pauseBriefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// A piece of communication: a thread submits it to the worker and waits; the progress thread
/// starts it and finishes its parts. May be used again once wait() has returned success. Shared,
/// because UCX may still know it after the waiting thread has gone (after an abort).
class Work : public std::enable_shared_from_this<Work> {
public:
  virtual ~Work();

  /// Progress thread. Posts everything; each posted part ends in finishPart.
  virtual void start(Worker &worker) = 0;
  /// Progress thread. Asks UCX to end what can be ended (receives that have not matched).
  virtual void cancel(Worker &) {}

  /// Before submitting: how many parts there are (at least one).
  void arm(uint32_t parts);
  /// Progress thread. The first error stays; the last part wakes the waiting thread.
  void finishPart(Worker &worker, const Status &status);
  /// Progress thread. Ends the wait although parts are still open; they must not touch what the
  /// waiting thread owns.
  void abandon(const Status &status);
  /// Polls for `spin`, then sleeps.
  Status wait(std::chrono::microseconds spin);
  /// Sleeps until done or `deadline`; false: not done yet.
  bool waitUntil(std::chrono::steady_clock::time_point deadline);

  /// Progress thread. Keeps what UCX refers to until arm().
  void keep(std::shared_ptr<void> object) { kept.push_back(std::move(object)); }

protected:
  /// Started even if the worker has failed: for what touches no peer.
  bool evenAfterFailure = false;

private:
  friend class Worker;
  void wake(const Status &status);

  std::vector<std::shared_ptr<void>> kept;
  uint32_t open = 0; ///< progress thread only
  Status result;     ///< progress thread until done
  bool left = false; ///< progress thread only
  size_t place = 0;  ///< in the worker's list of what is in flight
  std::atomic<bool> done{false};
  std::mutex mutex;
  std::condition_variable condition;
};

/// One part that a function posts, for what is done once and need not be fast.
class Task : public Work {
public:
  using Function = std::function<void(Worker &, Task &)>;
  /// `function` runs on the progress thread and must lead to finishPart once.
  explicit Task(Function function, bool evenAfterFailure = false) : function(std::move(function)) {
    this->evenAfterFailure = evenAfterFailure;
    arm(1);
  }
  void start(Worker &worker) override { function(worker, *this); }

private:
  Function function;
};

} // namespace tandem::ucx

#endif // TANDEM_CHANNEL_UCX_WORK_H
