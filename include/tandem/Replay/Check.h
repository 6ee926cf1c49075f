//===- Check.h - proofs about stream programs -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Says before a run whether a program can hang or race, from the command lists of all its ranks.
// What is proven, and under which assumptions, stands in docs/semantics.md. Needs no device.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REPLAY_CHECK_H
#define TANDEM_REPLAY_CHECK_H

#include "tandem/Replay/World.h"

#include <string>
#include <vector>

namespace tandem::check {

/// See docs/semantics.md, section 6.
enum class Diagnosis : uint8_t {
  Deadlock,
  QueueDeadlock,
  UnmatchedSend,
  UnmatchedRecv,
  MessageSize,
  MessageType,
  GroupMismatch,
  CollectiveMismatch,
  SignalMissing,
  SignalWrongRun,
  Race,
  NotJoined,
  UninitializedRead,
  Lifetime,
  ResultIncomplete,
  WrongResult,
  CopiesDiffer,
  OverwrittenEarly,
  PutOutside,
  // lint
  SerialStream,
  RedundantSync,
  CopyView,
  UnreadData
};
inline constexpr unsigned kNumDiagnoses = 23;
/// "deadlock", "queue-deadlock", ...
std::string_view toString(Diagnosis diagnosis);
/// Legal, but it costs.
bool isLint(Diagnosis diagnosis);

/// One thing that is wrong.
struct Finding {
  Diagnosis diagnosis = Diagnosis::Deadlock;
  /// What was found: lower case, no final period.
  std::string message;
  /// The commands that take part, the guilty one first; into World::commands. May be empty.
  std::vector<replay::CommandId> commands;
  /// One line each: the steps of a cycle, the other write of a race, ...
  std::vector<std::string> notes;
};

struct CheckOptions {
  /// Sends complete without their receives (else they may block).
  bool bufferedSends = false;
  /// Hardware queues that a rank's streams share; 0: each stream has its own.
  unsigned queues = 0;
  bool lint = false;
  /// Of each diagnosis; what comes after is counted only.
  unsigned maxFindings = 8;
  unsigned threads = 0; ///< 0: one a core, at most 8
  /// Results are compared with the oracle's at all indices if that takes at most so many steps
  /// (multiply-adds and elements, one or two nanoseconds each), else at some (section 5).
  uint64_t dataSteps = 50'000'000;
  /// If they are not, or if some commands are not looked at, that is a limit of the report.
  bool dataWanted = false;
};

struct Report {
  std::vector<Finding> findings; ///< errors first, by diagnosis, then by rank and command
  uint64_t counts[kNumDiagnoses] = {};
  uint32_t numRanks = 0;
  uint64_t numCommands = 0, numMessages = 0, numOverlaps = 0;
  /// What the check could not decide, or did not look at, in words; empty: everything is proven.
  std::vector<std::string> limits;
  /// Whether results were compared with the oracle's, in words: "checked, ...", "sampled at ...",
  /// "not checked: ...".
  /// Empty: other errors came first.
  std::string data;

  bool hasErrors() const;
  uint64_t numErrors() const;
};

/// The queues that a target's streams share: 8 for GPUs, 0 for hosts. `target` as in the program.
unsigned defaultQueues(std::string_view target);

Report check(const replay::World &world, const CheckOptions &options = {});

/// For people: a paragraph per finding, then a line with the counts.
std::string toText(const replay::World &world, const Report &report);
/// One JSON object: {"ok", "program", "ranks", "commands", "findings": [{"diagnosis", "severity",
/// "message", "commands": [{"rank", "stream", "command", "kind", "name", "location"}], "notes"}],
/// "counts", "limits", "data"}.
std::string toJson(const replay::World &world, const Report &report);

} // namespace tandem::check

#endif // TANDEM_REPLAY_CHECK_H
