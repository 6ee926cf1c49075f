//===- ProgramWalk.h - one walk of a host program for all ranks -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates a program in issue order, once for all ranks. Loops of known bounds run iteration by
// iteration. Only streams and `hostir.sync` order commands. Time is linear in the commands of one
// rank.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_HOSTIR_EVALUATE_PROGRAMWALK_H
#define TANDEM_DIALECT_HOSTIR_EVALUATE_PROGRAMWALK_H

#include "tandem/Dialect/HostIR/Evaluate/Groups.h"
#include "tandem/Dialect/HostIR/Evaluate/NumberedProgram.h"
#include "tandem/Dialect/HostIR/Evaluate/RankNumbers.h"

namespace tandem::hostir {

/// A command's index in issue order, from 1; 0: the start of the main stream; -1: none.
using Position = int64_t;

/// A vector clock: per stream (0: main, 1 + i: worker i), the position up to which its commands are
/// ordered before a point.
using Clock = SmallVector<Position, 8>;

/// Whether everything before `earlier` is also before `clock`.
bool isBefore(ArrayRef<Position> earlier, ArrayRef<Position> clock);
/// clock = max(clock, other) for each stream.
void joinClock(MutableArrayRef<Position> clock, ArrayRef<Position> other);
/// clock = min(clock, other) for each stream.
void meetClock(MutableArrayRef<Position> clock, ArrayRef<Position> other);

/// A worker whose number depends on the rank.
inline constexpr int kUnknownWorker = -1;
inline constexpr int kMainStream = 0;

class ProgramWalk {
public:
  /// Observes the walk, in issue order. Failure ends the walk.
  struct Listener {
    virtual ~Listener() = default;
    virtual LogicalResult onAlloc(AllocOp, int) { return success(); }
    virtual LogicalResult onDealloc(DeallocOp, int) { return success(); }
    /// `op` reads or writes a view of `root` on a stream. A put also accesses its target: the local
    /// counterpart of the peer's buffer must be live.
    virtual LogicalResult onAccess(Operation *, Value, bool, int) { return success(); }
    /// A command, after its accesses.
    virtual LogicalResult onCommand(Operation *, int) { return success(); }
    /// An op, once per evaluation.
    virtual LogicalResult afterOp(Operation *) { return success(); }
  };

  /// `ranks`: number of ranks to tabulate numbers for; 0: rank-dependent numbers are unknown.
  explicit ProgramWalk(ProgramOp program, uint32_t ranks = 0);

  /// Walks the program once, calling all listeners in order. Fails with a diagnostic on control
  /// flow other than `scf.for` and `scf.if`, on streams or buffers that do not come from their ops,
  /// and on a program that does not end.
  LogicalResult run(ArrayRef<Listener *> listeners);

  /// Position of the last alloc or command.
  Position now() const { return position; }
  /// Number of streams: main and workers.
  size_t numStreams() const { return clocks.size(); }
  /// Number of a stream in the current iteration; none if it does not come from its op.
  std::optional<int> streamNumber(Value stream) const;
  /// The clock of a command issued now on `stream`. For an unknown worker: the minimum over all
  /// workers.
  Clock before(int stream) const;

  /// An index in the current iteration.
  Number valueOf(Value value) const;
  /// The ranks that execute the current op, as truth values. Unknown inside code that may run any
  /// number of times.
  Number issuers() const { return mask; }
  RankNumbers &arithmetic() { return tables; }
  const MeshRanks &ranksOf(MeshAttr mesh);

  // Callbacks of runInstrs.
  FailureOr<uint32_t> branch(uint32_t pc);
  FailureOr<bool> enterLoop(uint32_t pc);
  FailureOr<bool> nextLoop(const Instr &instr);
  LogicalResult execute(const Instr &instr);

private:
  class Builder;
  LogicalResult runRange(uint32_t begin, uint32_t end);
  LogicalResult issue(Operation &op, const Instr &instr);
  LogicalResult runCommand(Operation &op);
  LogicalResult access(Operation &op, Value buffer, bool writes, int stream);
  LogicalResult tell(function_ref<LogicalResult(Listener &)> event);
  LogicalResult runSync(SyncOp op);
  Number evaluateMeshOp(Operation &op);
  Number tabulate(function_ref<int64_t(uint32_t)> numberOf);
  void forget(ValueRange values);
  FailureOr<int> streamOf(Operation &user, Value stream) const;

  ProgramOp program;
  int64_t workers;
  ArrayRef<Listener *> listeners;
  Position position = 0;
  int64_t steps = 0;
  Number mask = Number::constant(1);
  SmallVector<Clock> clocks;
  RankNumbers tables;
  NumberedProgram code;
  std::unique_ptr<Numbering> numbering;
  std::vector<Number> numbers; ///< per slot
  llvm::DenseMap<Attribute, MeshRanks> meshes;
};

} // namespace tandem::hostir

#endif // TANDEM_DIALECT_HOSTIR_EVALUATE_PROGRAMWALK_H
