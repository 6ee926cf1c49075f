//===- Work.h - requests to the progress thread -----------------*- C++ -*-===//
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

/// The pause between two polls of a spinning thread.
inline void pauseBriefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// A piece of communication. A thread submits it to the worker and waits; the progress thread
/// starts it and finishes its parts. Reusable after wait() has returned success. Shared ownership,
/// because UCX may still use it after an abort ended the wait.
class Work : public std::enable_shared_from_this<Work> {
public:
  virtual ~Work();

  /// Progress thread. Posts all parts; each ends in finishPart.
  virtual void start(Worker &worker) = 0;
  /// Progress thread. Cancels the parts that UCX can cancel (receives that have not matched).
  virtual void cancel(Worker &) {}

  /// Before submitting: sets the number of parts (at least one).
  void arm(uint32_t parts);
  /// Progress thread. Keeps the first error; the last part wakes the waiting thread.
  void finishPart(Worker &worker, const Status &status);
  /// Progress thread. Ends the wait although parts are open; these must not touch objects of the
  /// waiting thread.
  void abandon(const Status &status);
  /// Polls for `spin`, then sleeps.
  Status wait(std::chrono::microseconds spin);
  /// Sleeps until done or `deadline`; false: not done yet.
  bool waitUntil(std::chrono::steady_clock::time_point deadline);

  /// Progress thread. Keeps objects that UCX refers to alive until arm().
  void keep(std::shared_ptr<void> object) { kept.push_back(std::move(object)); }

protected:
  /// Runs even if the worker has failed: for work without peers.
  bool evenAfterFailure = false;

private:
  friend class Worker;
  void wake(const Status &status);

  std::vector<std::shared_ptr<void>> kept;
  uint32_t open = 0; ///< progress thread only
  Status result;     ///< progress thread until done
  bool left = false; ///< progress thread only
  size_t place = 0;  ///< in the worker's list of work in flight
  std::atomic<bool> done{false};
  std::mutex mutex;
  std::condition_variable condition;
};

/// Work of one part, posted by a function: for rare operations.
class Task : public Work {
public:
  using Function = std::function<void(Worker &, Task &)>;
  /// `function` runs on the progress thread and must lead to one finishPart.
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
