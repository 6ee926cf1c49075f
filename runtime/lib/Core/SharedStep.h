//===- SharedStep.h - waits for other ranks while channels are made ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CORE_SHAREDSTEP_H
#define TANDEM_LIB_CORE_SHAREDSTEP_H

#include "tandem/Program/Status.h"

#include <chrono>
#include <functional>
#include <string>

namespace tandem::core {

/// What ends a step in which ranks wait for each other outside of the bootstrap's exchanges.
struct WaitLimit {
  /// How long a step may take while all ranks send heartbeats.
  std::chrono::milliseconds timeout;
  /// Bootstrap::health(): its error ends a step at once. Null: nothing is known of the others.
  std::function<Status()> health = {};
};

/// One such step. It begins when it is constructed.
class SharedStep {
public:
  /// `what`: begins the message if a rank is lost. `late`: the message of a timeout, up to "within
  /// 200 ms".
  SharedStep(const WaitLimit &limit, std::string what, std::string late)
      : limit(limit), what(std::move(what)), late(std::move(late)),
        deadline(std::chrono::steady_clock::now() + limit.timeout) {}
  /// An error once the wait must end. Ask it at each pause; it does not block.
  Status goOn() const;
  const std::string &name() const { return what; }

private:
  const WaitLimit limit;
  const std::string what, late;
  const std::chrono::steady_clock::time_point deadline;
};

} // namespace tandem::core

#endif // TANDEM_LIB_CORE_SHAREDSTEP_H
