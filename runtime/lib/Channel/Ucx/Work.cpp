//===- Work.cpp - requests to the progress thread ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Work.h"

#include "Worker.h"

using namespace tandem;
using namespace tandem::ucx;

Work::~Work() = default;

void Work::arm(uint32_t parts) {
  open = parts;
  kept.clear();
  result = Status::success();
  done.store(false, std::memory_order_relaxed);
}

void Work::finishPart(Worker &worker, const Status &status) {
  --open;
  if (left)
    return;
  if (result.ok())
    result = status;
  if (open == 0) {
    std::shared_ptr<Work> keep = worker.forget(*this);
    wake(result);
  }
}

void Work::abandon(const Status &status) {
  left = true;
  wake(status);
}

void Work::wake(const Status &status) {
  std::lock_guard<std::mutex> lock(mutex);
  result = status;
  done.store(true, std::memory_order_release);
  condition.notify_all();
}

Status Work::wait(std::chrono::microseconds spin) {
  if (spin.count() > 0) {
    auto until = std::chrono::steady_clock::now() + spin;
    while (!done.load(std::memory_order_acquire) && std::chrono::steady_clock::now() < until)
      pauseBriefly();
  }
  // Lock even when done: wake() may still hold the lock.
  std::unique_lock<std::mutex> lock(mutex);
  condition.wait(lock, [&] { return done.load(std::memory_order_relaxed); });
  return result;
}

bool Work::waitUntil(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock<std::mutex> lock(mutex);
  return condition.wait_until(lock, deadline, [&] { return done.load(std::memory_order_relaxed); });
}
