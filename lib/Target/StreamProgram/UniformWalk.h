//===- UniformWalk.h - one evaluation for all ranks -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_STREAMPROGRAM_UNIFORMWALK_H
#define TANDEM_LIB_TARGET_STREAMPROGRAM_UNIFORMWALK_H

#include "Evaluator.h"
#include "tandem/Dialect/HostIR/Evaluate/RankNumbers.h"
#include "tandem/Program/UniformRanks.h"

#include <map>

namespace tandem::target {

/// Evaluates rank 0 together with the numbers of all ranks. Stops if ranks differ in more than
/// peers, slots and addresses, for example in a branch or a stream.
class UniformWalk {
public:
  UniformWalk(Evaluator &evaluator, UniformRanks &result);

  /// Whether the ranks are uniform. Then `result` holds their differences, and the evaluator the
  /// commands of rank 0. Failure if rank 0 has an error.
  FailureOr<bool> run();

  // Callbacks of hostir::runInstrs.
  FailureOr<uint32_t> branch(uint32_t pc);
  FailureOr<bool> enterLoop(uint32_t pc);
  FailureOr<bool> nextLoop(const Instr &instr);
  LogicalResult execute(const Instr &instr);

private:
  using Number = hostir::Number;

  /// Whether an instruction is equal on all ranks except for peers, slots and addresses.
  bool isUniform(const Instr &instr) const;
  bool isConstant(uint32_t slot) const { return numbers[slot].getConstant().has_value(); }
  /// Whether the channel in a slot is the same on all ranks, and all are members.
  bool isChannelOfAll(uint32_t slot) const;
  Number evaluate(const Instr &instr);
  LogicalResult communicate(const Instr &instr);
  /// The messages of the last command, an exchange.
  void communicateParts();
  uint32_t peersTable(uint16_t channel, Number peer);
  uint32_t slotsTable(Number slot);
  template <typename Function> Number tabulate(Function entryOf);
  template <typename Function> uint32_t table(int channel, Number number, Function entryOf);
  LogicalResult differ() {
    uniform = false;
    return failure();
  }

  Evaluator &evaluator;
  Code &code;
  UniformRanks &result;
  hostir::RankNumbers arithmetic;
  std::vector<Number> numbers;                       ///< per slot
  std::map<std::pair<int, Number>, uint32_t> tables; ///< by channel (slots: -1) and number
  bool uniform = true;
};

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_UNIFORMWALK_H
