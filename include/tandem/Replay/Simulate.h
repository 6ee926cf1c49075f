//===- Simulate.h - what a run would take -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A discrete-event simulation of one run of all ranks on a machine file. docs/simulator.md says
// what the model holds and what it leaves out. Deterministic: equal input, equal output.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REPLAY_SIMULATE_H
#define TANDEM_REPLAY_SIMULATE_H

#include "tandem/Replay/Machine.h"
#include "tandem/Replay/Timeline.h"
#include "tandem/Replay/World.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tandem::simulate {

inline constexpr size_t kNumKinds = 14; ///< of replay::Kind

struct Options {
  /// Commands are enqueued one by one also where the machine could replay a graph.
  bool noGraph = false;
  /// Of the result, `seconds` is enough.
  bool totalOnly = false;
};

/// Where the time of a path went: command kinds, and the host's issuing of commands.
struct PathTime {
  std::array<double, kNumKinds> byKind{};
  double issue = 0;   ///< waiting for the host
  double latency = 0; ///< between the end of one command and the begin of the next
};

/// One step of a critical path.
struct PathStep {
  replay::CommandId command = replay::kNone;
  double begin = 0, end = 0; ///< s
};

struct RankResult {
  timeline::Shares shares;
  /// The same commands one after the other, each alone on the machine.
  double sequential = 0;
  PathTime path; ///< back from this rank's last command, also through other ranks
};

/// Part of the time that an engine was used, over all devices, and on the one that used it most.
struct Utilisation {
  std::string engine;
  double average = 0, most = 0;
};

struct Result {
  double seconds = 0;
  uint32_t slowestRank = 0;
  double sequential = 0; ///< of the rank for which it is longest
  std::vector<RankResult> ranks;
  std::vector<Utilisation> utilisation;
  /// The critical path of the slowest rank, from the start of the run on.
  std::vector<PathStep> path;
  /// By replay::CommandId: begin (work has started; of a wait: it stands at the stream's head) and
  /// end.
  std::vector<double> begin, end;
};

/// An error if the program does not fit on the machine, or does not come to its end (the message
/// says where it stands: tandem-check says why).
Expected<Result> simulate(const replay::World &world, const machine::Machine &machine,
                          const Options &options = {});

/// The run as a timeline, of at most the first `maxRanks` ranks.
timeline::Timeline makeTimeline(const replay::World &world, const Result &result,
                                const std::string &origin, uint32_t maxRanks);

/// Readable text.
std::string report(const replay::World &world, const machine::Machine &machine,
                   const Result &result);
/// Keys: program, machine, ranks, seconds, sequential_seconds, speedup, slowest_rank,
/// exposed_seconds, utilisation [{engine, average, most}], critical_path [{rank, command, kind,
/// name, location, begin, end}], per_rank [{seconds, compute_seconds, communication_seconds,
/// exposed_seconds, sequential_seconds, path {kind: seconds}}].
std::string reportJson(const replay::World &world, const machine::Machine &machine,
                       const Result &result);

/// How a simulation's times relate to a measurement's: commands of the two are paired by rank and
/// number.
struct Comparison {
  struct Row {
    std::string what; ///< a command kind, or "rank 3"
    size_t commands = 0;
    double measured = 0, simulated = 0; ///< s, sums
    /// Median over the commands of |simulated - measured| / measured; of a rank, of its total time;
    /// of waits, of those that had to wait in one of the two, relative to the longer.
    double medianError = 0;
  };
  double measured = 0, simulated = 0; ///< s, of the whole run
  std::vector<Row> kinds, ranks;
};
/// An error if the two are not runs of one program.
Expected<Comparison> compare(const timeline::Timeline &measured,
                             const timeline::Timeline &simulated);
std::string report(const Comparison &comparison);

} // namespace tandem::simulate

#endif // TANDEM_REPLAY_SIMULATE_H
