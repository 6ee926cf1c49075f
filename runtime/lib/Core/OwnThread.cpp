//===- OwnThread.cpp - calls that may never return --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OwnThread.h"

#include <algorithm>
#include <exception>
#include <thread>

using namespace tandem::core;

OwnThread::OwnThread(std::function<void()> body)
    : done(std::make_shared<std::atomic<bool>>(false)) {
  auto work = [done = done, body = std::move(body)]() mutable {
    body();
    // It lets go of the device first: who sees that it is done may end the process.
    body = nullptr;
    *done = true;
  };
  try {
    std::thread(work).detach();
  } catch (const std::exception &) {
    work();
  }
}

bool OwnThread::isDone(std::chrono::milliseconds limit) const {
  using namespace std::chrono_literals;
  auto giveUp = std::chrono::steady_clock::now() + limit;
  for (std::chrono::microseconds pause = 20us; !*done && std::chrono::steady_clock::now() < giveUp;
       pause = std::min(2 * pause, {1ms}))
    std::this_thread::sleep_for(pause);
  return *done;
}
