//===- Evaluator.h - a host program, run for one rank -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_STREAMPROGRAM_EVALUATOR_H
#define TANDEM_LIB_TARGET_STREAMPROGRAM_EVALUATOR_H

#include "Matching.h"
#include "Rank.h"
#include "tandem/Support/LLVM.h"

#include "llvm/ADT/DenseMap.h"

namespace tandem::target {

/// Evaluates a program rank by rank. What it finds goes into RankTables; what must hold between
/// ranks into a Matcher.
class Evaluator {
public:
  Evaluator(Code &code, uint64_t maxCommands, uint64_t maxSteps)
      : code(code), tables(code), maxCommands(maxCommands), maxSteps(maxSteps), sent(code.numPeers),
        received(code.numPeers) {}

  /// Evaluates one rank; `tables` then has its commands. `matcher`: null where ranks are not
  /// compared.
  LogicalResult run(uint32_t rank, Matcher *matcher);

  /// What `run` does before it walks.
  void begin(uint32_t rank, Matcher *matcher);
  /// The number in a slot, as it is now.
  int64_t valueOf(uint32_t slot) const { return ints[slot]; }

  // Of hostir::runInstrs.
  FailureOr<uint32_t> branch(uint32_t pc);
  FailureOr<bool> enterLoop(uint32_t pc);
  FailureOr<bool> nextLoop(const Instr &instr);
  LogicalResult execute(const Instr &instr);

  Code &code;
  RankTables tables;
  std::vector<uint64_t> signalSlots; ///< over all ranks run so far: the largest value of each slot
  uint64_t messages = 0;
  /// The ranks are run to see what they do with signals: `signalSlots`, and who raises which. What
  /// is run afterwards has commands that know.
  bool surveying = false;

private:
  LogicalResult command(const Instr &instr);
  LogicalResult collective(const Instr &instr);
  LogicalResult message(const Instr &instr);
  LogicalResult signal(const Instr &instr);
  LogicalResult launch(const Instr &instr);
  /// Whether nobody else raises that slot of rank `to`, and `raw`'s stream by values that grow.
  bool isExclusive(uint32_t to, const RawCommand &raw);

  InFlightDiagnostic error(const Instr &instr) const;
  /// Resolves the view in a slot as an operand of a command.
  LogicalResult operand(const Instr &instr, uint32_t slot, uint32_t &result);
  /// The channel in a slot; this rank must take part.
  const ChannelInfo *channel(const Instr &instr, uint32_t slot, uint16_t &number);
  LogicalResult peer(const Instr &instr, const ChannelInfo &channel, StringRef what, int64_t value);
  LogicalResult limits(const Instr &instr);

  uint64_t maxCommands, maxSteps, steps = 0;
  uint32_t rank = 0;
  Matcher *matcher = nullptr;
  std::vector<int64_t> ints;
  std::vector<View> views;
  std::vector<uint32_t> sent, received; ///< per channel and peer
  struct Raiser {
    uint32_t rank = 0, stream = 0;
    uint64_t value = 0; ///< the last
    bool alone = true;
  };
  llvm::DenseMap<uint64_t, Raiser> raisers; ///< by rank and slot that is raised; of the survey
  // The group that is open.
  const Instr *openGroup = nullptr;
  size_t groupCommand = 0;
};

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_EVALUATOR_H
