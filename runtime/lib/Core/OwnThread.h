//===- OwnThread.h - calls that may never return ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CORE_OWNTHREAD_H
#define TANDEM_LIB_CORE_OWNTHREAD_H

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

namespace tandem::core {

/// A call of a library of the device or the network that may never return, on a thread of its own.
/// The object may go before the call has returned. Copies are the same call.
class OwnThread {
public:
  /// No call.
  OwnThread() = default;
  /// Starts `body`, which owns what it needs. If there are no more threads, it runs on this one.
  explicit OwnThread(std::function<void()> body);
  explicit operator bool() const { return done != nullptr; }
  /// Whether the call has returned and its `body` is gone.
  bool isDone() const { return *done; }
  /// The same, after a wait of at most `limit`.
  bool isDone(std::chrono::milliseconds limit) const;

private:
  std::shared_ptr<std::atomic<bool>> done;
};

} // namespace tandem::core

#endif // TANDEM_LIB_CORE_OWNTHREAD_H
