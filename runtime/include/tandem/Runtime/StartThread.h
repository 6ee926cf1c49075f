//===- StartThread.h - threads, if the system has any -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_STARTTHREAD_H
#define TANDEM_RUNTIME_STARTTHREAD_H

#include "tandem/Program/Status.h"

#include <exception>
#include <fmt/format.h>
#include <thread>
#include <utility>

namespace tandem {

/// Starts `body` on `thread`. If the system has no more threads, the error says what this one was
/// to be for.
template <typename Body> Status startThread(std::thread &thread, const char *purpose, Body &&body) {
  try {
    thread = std::thread(std::forward<Body>(body));
    return Status();
  } catch (const std::exception &error) { // no thread, or no memory
    return Status(Code::Internal,
                  fmt::format("cannot start a thread for {}: {}", purpose, error.what()));
  }
}

} // namespace tandem

#endif // TANDEM_RUNTIME_STARTTHREAD_H
