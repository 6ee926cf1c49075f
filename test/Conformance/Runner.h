//===- Runner.h - a scenario on threads or processes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_CONFORMANCE_RUNNER_H
#define TANDEM_TEST_CONFORMANCE_RUNNER_H

#include "Scenario.h"

#include "tandem/Runtime/Channel.h"

namespace tandem::test {

/// createTransport, and the channel of docs/contribute.md.
Expected<std::unique_ptr<Transport>> makeTransport(const std::string &name);

/// One rank's part, on the calling thread.
RankResult runRank(const Backend &backend, const Scenario &scenario, const std::string &file,
                   std::unique_ptr<Bootstrap> bootstrap, std::unique_ptr<Transport> transport);

/// A process per rank, forked here; results come back through pipes.
std::vector<RankResult> runProcesses(const Backend &backend, const Scenario &scenario);

/// Empty if the transport can be made here, else why not. Asked in a process of its own: threads
/// and libraries that it brings must not be there when the ranks are forked.
std::string probeTransport(const std::string &name);

/// How many GPUs there are, and why there are none. In a process of its own, too: a driver that was
/// started does not survive a fork.
struct Probe {
  unsigned count = 0;
  std::string why;
};
Probe probeGpus(const std::string &kind);

} // namespace tandem::test

#endif // TANDEM_TEST_CONFORMANCE_RUNNER_H
