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

/// Evaluates a program rank by rank into RankTables; a Matcher compares ranks.
class Evaluator {
public:
  Evaluator(Code &code, uint64_t maxCommands, uint64_t maxSteps)
      : code(code), tables(code), maxCommands(maxCommands), maxSteps(maxSteps), sent(code.numPeers),
        received(code.numPeers) {}

  /// Evaluates one rank; `tables` then has its commands. `matcher`: null to skip the comparison of
  /// ranks.
  LogicalResult run(uint32_t rank, Matcher *matcher);

  /// The start of `run`, before the walk.
  void begin(uint32_t rank, Matcher *matcher);
  /// The current number in a slot.
  int64_t valueOf(uint32_t slot) const { return ints[slot]; }

  // Callbacks of hostir::runInstrs.
  FailureOr<uint32_t> branch(uint32_t pc);
  FailureOr<bool> enterLoop(uint32_t pc);
  FailureOr<bool> nextLoop(const Instr &instr);
  LogicalResult execute(const Instr &instr);

  Code &code;
  RankTables tables;
  std::vector<uint64_t> signalSlots; ///< over all ranks so far: the largest value of each slot
  uint64_t messages = 0;
  /// The first pass over all ranks collects `signalSlots` and the ranks that raise each slot.
  /// Commands of later passes use both.
  bool surveying = false;

private:
  LogicalResult command(const Instr &instr);
  LogicalResult collective(const Instr &instr);
  LogicalResult endGated(const Instr &instr);
  LogicalResult exchange(const Instr &instr);
  LogicalResult message(const Instr &instr);
  LogicalResult signal(const Instr &instr);
  LogicalResult launch(const Instr &instr);
  /// Whether only the stream of `raw` raises that slot of rank `to`, with ascending values.
  bool isExclusive(uint32_t to, const RawCommand &raw);

  InFlightDiagnostic error(const Instr &instr) const;
  /// Resolves the view in a slot to a command's operand.
  LogicalResult operand(const Instr &instr, uint32_t slot, uint32_t &result);
  /// The channel in a slot; this rank must be a member.
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
  llvm::DenseMap<uint64_t, Raiser> raisers; ///< of the first pass: by rank and slot raised
  // The open group.
  const Instr *openGroup = nullptr;
  size_t groupCommand = 0;
  size_t gatedCommand = 0; ///< the open gated matmul
};

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_EVALUATOR_H
