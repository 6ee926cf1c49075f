//===- CheckImpl.h - inside of the checker ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHECK_CHECKIMPL_H
#define TANDEM_CHECK_CHECKIMPL_H

#include "tandem/Replay/Check.h"
#include "tandem/Replay/Walker.h"

#include <fmt/format.h>
#include <string>
#include <vector>

namespace tandem::check {

using replay::CommandId;
using replay::kNone;
using replay::World;

/// Findings of one thread or part: keeps the first of each diagnosis, counts the rest.
class Findings {
public:
  explicit Findings(unsigned limit) : limit(limit) {}

  /// True if another finding of this kind would be kept.
  bool wants(Diagnosis diagnosis) const { return counts[index(diagnosis)] < limit; }
  void add(Finding finding) {
    if (counts[index(finding.diagnosis)]++ < limit)
      list.push_back(std::move(finding));
  }
  void count(Diagnosis diagnosis) { ++counts[index(diagnosis)]; }
  /// Appends later findings.
  void merge(Findings &&other);

  const unsigned limit;
  std::vector<Finding> list;
  uint64_t counts[kNumDiagnoses] = {};

private:
  static unsigned index(Diagnosis diagnosis) { return static_cast<unsigned>(diagnosis); }
};

/// The result of running all ranks.
struct Execution {
  bool finished = false;
  /// Per command: its position in one execution, from 1; 0: never began.
  std::vector<uint32_t> when;
};

/// Section 4: runs all ranks once; reports deadlocks with their cycles.
Execution checkProgress(const World &world, const CheckOptions &options, Findings &findings);

/// Section 4, queues: reports a mapping of streams to queues that deadlocks; extends `limits` if
/// not all mappings were tried. Only for programs that finish with one queue per stream.
void checkQueues(const World &world, const CheckOptions &options, Findings &findings,
                 std::vector<std::string> &limits);

/// Section 4, SMs: reports a run in which kernels that wait hold the SMs that others need; extends
/// `limits` if that is neither excluded nor found. Only for programs that finish.
void checkResidency(const World &world, const CheckOptions &options, Findings &findings,
                    std::vector<std::string> &limits);

/// Reports the mismatches found while the world was loaded.
void reportMismatches(const World &world, Findings &findings);

/// Runs `walker` until it is stuck; returns at most `most` cycles of waits, each step as a line of
/// text. Empty if it finished, or if only commands without partner are stuck.
struct Cycle {
  std::vector<CommandId> commands;
  std::vector<std::string> steps;
};
std::vector<Cycle> findCycles(const World &world, const replay::Walker &walker, unsigned most);

/// Completes every command at once.
class InstantDriver : public replay::Driver {
public:
  explicit InstantDriver(const World &world) : world(world) {}
  /// Runs `walker`, which was created with this driver, as far as possible.
  void run(replay::Walker &walker);

  void begin(CommandId command) override;
  void beginTransfer(CommandId send, CommandId recv) override;
  void beginCollective(uint32_t collective) override;
  void end(CommandId command) override {}

protected:
  const World &world;
  replay::Walker *walker = nullptr;
};

} // namespace tandem::check

#endif // TANDEM_CHECK_CHECKIMPL_H
