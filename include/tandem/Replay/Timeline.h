//===- Timeline.h - when every command ran ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One run of a program, simulated or measured: stored as Chrome trace JSON (for Perfetto, and read
// back for comparisons), drawn as SVG, or as a page for browsers.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REPLAY_TIMELINE_H
#define TANDEM_REPLAY_TIMELINE_H

#include "tandem/Program/Commands.h"
#include "tandem/Program/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::timeline {

inline constexpr uint32_t kNone = 0xffffffffu;

using program::Category;

/// One command's time on its stream, from reaching the stream's head to completion; a group lasts
/// as long as its longest message. Messages have no spans. Seconds from the start of the run.
struct Span {
  double begin = 0, end = 0;
  uint32_t command = 0; ///< index in its rank's list, as in dumps
  uint16_t stream = 0;
  uint8_t kind = 0; ///< sp::CommandKind
  Category category = Category::Compute;
  uint32_t name = kNone; ///< into Timeline::names
  /// What the command moves: a put or copy its data, a collective its larger operand, a group what
  /// it sends, or receives if it sends nothing. Else 0.
  uint64_t bytes = 0;
};

/// A message or a signal from one span to another.
struct Flow {
  uint32_t fromRank = 0, fromSpan = 0; ///< index in Track::spans of that rank
  uint32_t toRank = 0, toSpan = 0;
  double begin = 0, end = 0; ///< when the bytes left and arrived
};

struct Name {
  std::string text;     ///< "matmul #1"
  std::string location; ///< "file.mlir:3:5"; "" if unknown
};

struct Timeline {
  std::string program, origin; ///< "simulated on h200x8", "measured on cpu over ucx"
  double seconds = 0;          ///< from the first rank's start to the last rank's end
  std::vector<Name> names;
  std::vector<std::vector<Span>> ranks; ///< per rank, in command order
  std::vector<Flow> flows;
};

/// The category of a command kind (numbers of sp::CommandKind).
Category categoryOf(uint8_t kind);

/// A rank's time by activity, in seconds. Waiting for a signal counts as communication.
struct Shares {
  double compute = 0;       ///< at least one computation ran
  double communication = 0; ///< at least one communication ran
  double exposed = 0;       ///< communication ran and no computation
  double total = 0;         ///< until the rank's last command ended
};
Shares sharesOf(const std::vector<Span> &spans);

struct Interval {
  double begin = 0, end = 0;
};
/// The intervals of exposed communication: ascending, disjoint.
std::vector<Interval> exposedOf(const std::vector<Span> &spans);

/// Writes Chrome trace JSON: a process per rank, a track per stream, flow arrows. Member "tandem"
/// holds program, origin and seconds. Writes at most the first `maxRanks` ranks.
Status writeTrace(const Timeline &timeline, const std::string &path, uint32_t maxRanks = 1024);
/// Reads a trace of writeTrace: spans, names, totals, and flows that lead from span to span. Errors
/// name the path and the event.
Expected<Timeline> readTrace(const std::string &path);

/// SVG: the runs above each other on one time axis, ranks and streams vertically. Up to 16 ranks
/// show their streams; more ranks show one line of computation and one of communication each; above
/// 64, 64 evenly chosen ranks.
std::string svg(const std::vector<Timeline> &runs);

} // namespace tandem::timeline

#endif // TANDEM_REPLAY_TIMELINE_H
