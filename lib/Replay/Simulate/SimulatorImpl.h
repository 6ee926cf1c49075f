//===- SimulatorImpl.h - parts of the simulator -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SIMULATE_SIMULATORIMPL_H
#define TANDEM_LIB_SIMULATE_SIMULATORIMPL_H

#include "CommandCosts.h"

#include "tandem/Replay/Simulate.h"

namespace tandem::simulate {

/// When a rank's host has issued each command: in order, without waiting.
class IssueTimes {
public:
  IssueTimes(const replay::World &world, const CommandCosts &costs,
             const machine::Launching &launching);
  double at(replay::CommandId command) const { return times.empty() ? start : times[command]; }
  /// Seconds from the start of the run until its first command is issued, besides that one's cost.
  double first() const { return start; }
  /// All of them come later.
  void delay(double seconds) {
    start += seconds;
    for (double &time : times)
      time += seconds;
  }

private:
  double start;
  std::vector<double> times; ///< empty: all at `start`
};

/// Per command: the previous one on its stream; kNone for the first, and for messages.
std::vector<replay::CommandId> predecessors(const replay::World &world);

/// The spans of a rank's commands except messages, in issue order. Names are World's.
std::vector<timeline::Span> spansOf(const replay::World &world, const Result &result,
                                    const std::vector<replay::CommandId> &previous, uint32_t rank);

/// Walks back from a rank's last command to the start of the run.
class PathFinder {
public:
  PathFinder(const replay::World &world, const Result &result, const IssueTimes &issue,
             const std::vector<replay::CommandId> &previous)
      : world(world), result(result), issue(issue), previous(previous) {}

  PathTime walk(uint32_t rank, std::vector<PathStep> *steps) const;

private:
  /// The cause of a command's end. Its last phase began at `begin`, enabled by `cause`, after
  /// `gate` (a command whose issue it may have waited for).
  struct Origin {
    double begin;
    replay::CommandId cause, gate;
  };
  Origin originOf(replay::CommandId command) const;
  Origin originOfGroup(replay::CommandId command) const;
  replay::CommandId later(replay::CommandId a, replay::CommandId b) const;

  const replay::World &world;
  const Result &result;
  const IssueTimes &issue;
  const std::vector<replay::CommandId> &previous;
};

} // namespace tandem::simulate

#endif // TANDEM_LIB_SIMULATE_SIMULATORIMPL_H
