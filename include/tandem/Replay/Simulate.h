//===- Simulate.h - what a run would take -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Discrete-event simulation of one run of all ranks on a machine file. docs/simulator.md describes
// the model and its limits. Deterministic.
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

inline constexpr size_t kNumKinds =
    static_cast<size_t>(replay::Kind::FusedExchange) + 1; // the last one

struct Options {
  /// Enqueue commands one by one even if the machine can replay a graph.
  bool noGraph = false;
  /// Of the result, `seconds` is enough.
  bool totalOnly = false;
};

/// Where a path's time went: command kinds, and issuing by the host.
struct PathTime {
  std::array<double, kNumKinds> byKind{};
  double issue = 0;   ///< waiting for the host
  double latency = 0; ///< between the end of one command and the start of the next
};

/// One step of a critical path.
struct PathStep {
  replay::CommandId command = replay::kNone;
  double begin = 0, end = 0; ///< s
};

struct RankResult {
  timeline::Shares shares;
  /// All commands one after the other, each alone on the machine.
  double sequential = 0;
  PathTime path; ///< back from this rank's last command, across ranks
};

/// Fraction of time that an engine was busy: average over devices, and on the busiest device.
struct Utilisation {
  std::string engine;
  double average = 0, most = 0;
};

struct Result {
  double seconds = 0;
  uint32_t slowestRank = 0;
  double sequential = 0; ///< of the rank with the largest value
  std::vector<RankResult> ranks;
  std::vector<Utilisation> utilisation;
  /// The critical path of the slowest rank, from the start of the run.
  std::vector<PathStep> path;
  /// Begin and end by replay::CommandId. Begin is when work starts; for a wait, when it reaches the
  /// head of its stream.
  std::vector<double> begin, end;
  /// The first put to another node, if the machine's copy engines do the puts: they reach only the
  /// own node, so the machine cannot run the program. kNone: there is none.
  replay::CommandId outOfReach = replay::kNone;
  /// The first gated matmul, if the machine has no kernels for them: it runs the parts one by one.
  replay::CommandId ungated = replay::kNone;
  /// The first fused exchange that is not one kernel on the machine.
  replay::CommandId unfused = replay::kNone;
};

/// An error if the program does not fit the machine, or does not finish. The message says where it
/// stops; tandem-check explains why.
Expected<Result> simulate(const replay::World &world, const machine::Machine &machine,
                          const Options &options = {});

/// The run as a timeline of at most the first `maxRanks` ranks.
timeline::Timeline makeTimeline(const replay::World &world, const Result &result,
                                const std::string &origin, uint32_t maxRanks);

/// Readable text.
std::string report(const replay::World &world, const machine::Machine &machine,
                   const Result &result);
/// Keys: program, machine, ranks, seconds, sequential_seconds, speedup, slowest_rank,
/// exposed_seconds, utilisation [{engine, average, most}], critical_path [{rank, command, kind,
/// name, location, begin, end}], per_rank [{seconds, compute_seconds, communication_seconds,
/// exposed_seconds, sequential_seconds, bytes_sent (in messages), bytes_collective (payload), path
/// {kind: seconds}}].
std::string reportJson(const replay::World &world, const machine::Machine &machine,
                       const Result &result);

/// Compares simulated with measured times; commands are paired by rank and number.
struct Comparison {
  struct Row {
    std::string what; ///< a command kind, or "rank 3"
    size_t commands = 0;
    double measured = 0, simulated = 0; ///< sums, in seconds
    /// Median over the commands of |simulated - measured| / measured. For a rank: of its total
    /// time. For waits: only those that waited in either run, relative to the longer.
    double medianError = 0;
  };
  double measured = 0, simulated = 0; ///< s, of the whole run
  std::vector<Row> kinds, ranks;
};
/// An error if the timelines are not of the same program.
Expected<Comparison> compare(const timeline::Timeline &measured,
                             const timeline::Timeline &simulated);
std::string report(const Comparison &comparison);

} // namespace tandem::simulate

#endif // TANDEM_REPLAY_SIMULATE_H
