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

/// Findings of one thread or one part; keeps the first few of each diagnosis and counts the rest.
class Findings {
public:
  explicit Findings(unsigned limit) : limit(limit) {}

  /// True if one more of them would be kept: worth wording.
  bool wants(Diagnosis diagnosis) const { return counts[index(diagnosis)] < limit; }
  void add(Finding finding) {
    if (counts[index(finding.diagnosis)]++ < limit)
      list.push_back(std::move(finding));
  }
  void count(Diagnosis diagnosis) { ++counts[index(diagnosis)]; }
  /// Appends what `other` found, which comes later.
  void merge(Findings &&other);

  const unsigned limit;
  std::vector<Finding> list;
  uint64_t counts[kNumDiagnoses] = {};

private:
  static unsigned index(Diagnosis diagnosis) { return static_cast<unsigned>(diagnosis); }
};

/// What a run of all ranks showed.
struct Execution {
  bool finished = false;
  /// Per command: its place in one execution, from 1; 0 = never began.
  std::vector<uint32_t> when;
};

/// Section 4: runs all ranks once; reports a deadlock with its cycles.
Execution checkProgress(const World &world, const CheckOptions &options, Findings &findings);

/// Section 4, queues: reports a fold that hangs; adds to `limits` where not all were tried. Only
/// for programs that end without folding.
void checkQueues(const World &world, const CheckOptions &options, Findings &findings,
                 std::vector<std::string> &limits);

/// What did not match when the world was loaded.
void reportMismatches(const World &world, Findings &findings);

/// Runs until nothing can go on; the cycles of who waits for whom (each step a line of text),
/// longest first removed, at most `most`. Empty if it ended, or if only what has no partner hangs.
struct Cycle {
  std::vector<CommandId> commands;
  std::vector<std::string> steps;
};
std::vector<Cycle> findCycles(const World &world, const replay::Walker &walker, unsigned most);

/// Completes everything at once.
class InstantDriver : public replay::Driver {
public:
  explicit InstantDriver(const World &world) : world(world) {}
  /// Runs `walker`, which was made with this driver, as far as it goes.
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
