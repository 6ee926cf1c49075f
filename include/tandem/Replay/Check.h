//===- Check.h - proofs about stream programs -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Proves before a run that a program cannot hang or race, from the command lists of all ranks.
// docs/semantics.md states what is proven, under which assumptions. Needs no device.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REPLAY_CHECK_H
#define TANDEM_REPLAY_CHECK_H

#include "tandem/Replay/Walker.h"
#include "tandem/Replay/World.h"

#include <string>
#include <vector>

namespace tandem::check {

/// See docs/semantics.md, section 6.
enum class Diagnosis : uint8_t {
  Deadlock,
  QueueDeadlock,
  SmDeadlock,
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
  BitsDiffer,
  OrderNotFixed,
  OverwrittenEarly,
  PutOutside,
  // lint
  SerialStream,
  RedundantSync,
  CopyView,
  UnreadData
};
inline constexpr unsigned kNumDiagnoses = 26;
/// "deadlock", "queue-deadlock", ...
std::string_view toString(Diagnosis diagnosis);
/// True for findings that are legal but cost time.
bool isLint(Diagnosis diagnosis);

/// One finding of the check.
struct Finding {
  Diagnosis diagnosis = Diagnosis::Deadlock;
  /// What was found: lower case, no final period.
  std::string message;
  /// The commands involved, the one at fault first; indices into World::commands. May be empty.
  std::vector<replay::CommandId> commands;
  /// One line each: the steps of a cycle, the other write of a race, ...
  std::vector<std::string> notes;
};

struct CheckOptions {
  /// Sends complete without their receives (else they may block).
  bool bufferedSends = false;
  /// Hardware queues that a rank's streams share; 0: each stream has its own.
  unsigned queues = 0;
  /// The SMs of a rank's GPU; none by default.
  replay::SmLimits sms;
  bool lint = false;
  /// Findings listed per diagnosis; more are only counted.
  unsigned maxFindings = 8;
  unsigned threads = 0; ///< 0: one per core, at most 8
  /// Results are compared with the unsharded reference at all indices if this takes at most so many
  /// steps (multiply-adds and elements, 1 to 2 ns each), else at some indices (section 5).
  uint64_t dataSteps = 50'000'000;
  /// Report results that were not compared, or commands that were skipped, as a limit.
  bool dataWanted = false;
  /// Another program with the same arguments and number of ranks, whose results must be the same
  /// bits. If it is another one, or has errors, that is a limit. Null: none. Lives as long as the
  /// check.
  const replay::World *sameBits = nullptr;
};

struct Report {
  std::vector<Finding> findings; ///< errors first, by diagnosis, then by rank and command
  uint64_t counts[kNumDiagnoses] = {};
  uint32_t numRanks = 0;
  uint64_t numCommands = 0, numMessages = 0, numOverlaps = 0;
  /// What the check could not decide or skipped, as text; empty: everything is proven.
  std::vector<std::string> limits;
  /// The comparison with the unsharded reference, as text: "checked, ...", "sampled at ...", "not
  /// checked: ...". Empty if there were other errors.
  std::string data;
  /// All results have the bits of CheckOptions::sameBits.
  bool hasSameBits = false;

  bool hasErrors() const;
  uint64_t numErrors() const;
};

/// The hardware queues that a target's streams share: 8 for GPUs, 0 for hosts.
unsigned defaultQueues(std::string_view target);

/// The SMs of a target's GPU: 132, as H100 and H200 have; for AMD 96, the fewest compute units of
/// the GPUs that kernels are compiled for (gfx1100); none for hosts.
replay::SmLimits defaultSMs(std::string_view target);

Report check(const replay::World &world, const CheckOptions &options = {});

/// A paragraph per finding, then a line of counts.
std::string toText(const replay::World &world, const Report &report);
/// One JSON object: {"ok", "program", "ranks", "commands", "findings": [{"diagnosis", "severity",
/// "message", "commands": [{"rank", "stream", "command", "kind", "name", "location"}], "notes"}],
/// "counts", "limits", "data"}.
std::string toJson(const replay::World &world, const Report &report);

} // namespace tandem::check

#endif // TANDEM_REPLAY_CHECK_H
