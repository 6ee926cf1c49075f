//===- Inquiries.h - signals that ask for a report --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_INQUIRIES_H
#define TANDEM_RUN_INQUIRIES_H

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

namespace tandem::run {

/// While it exists, signals are answered by a thread: SIGUSR1 by a call of `answer`, those that
/// would end the process by a call and then by that end. Those that the process ignores stay
/// ignored. Made before other threads, which inherit that the signals are blocked. SIGUSR1 stays
/// blocked, so one that comes late ends nothing.
class Inquiries {
public:
  explicit Inquiries(std::function<void()> answer);
  ~Inquiries();
  Inquiries(const Inquiries &) = delete;
  Inquiries &operator=(const Inquiries &) = delete;

private:
  void wait();

  const std::function<void()> answer;
  sigset_t signals{}, after{};
  std::atomic<bool> stopping{false};
  std::thread thread;
};

} // namespace tandem::run

#endif // TANDEM_RUN_INQUIRIES_H
