//===- ProgramWalk.h - one walk of a host program for all ranks -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates a program in issue order, once for all ranks. Loops of known bounds run iteration by
// iteration. Order is what streams and `hostir.sync` say on every rank; nothing else is assumed.
// The time is linear in the commands of one rank.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_HOSTIR_EVALUATE_PROGRAMWALK_H
#define TANDEM_DIALECT_HOSTIR_EVALUATE_PROGRAMWALK_H

#include "tandem/Dialect/HostIR/Evaluate/Groups.h"
#include "tandem/Dialect/HostIR/Evaluate/NumberedProgram.h"
#include "tandem/Dialect/HostIR/Evaluate/RankNumbers.h"

namespace tandem::hostir {

/// Place of a command in the issue order, 1 or more; 0 is the start of the main stream, -1 is
/// nothing.
using Position = int64_t;

/// A vector clock. For each stream (0: main, 1 + i: worker i), the place up to which its commands
/// are ordered before something.
using Clock = SmallVector<Position, 8>;

/// Whether all that `earlier` names is ordered before what `clock` belongs to.
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
  /// What a client sees, in issue order. Returning failure ends the walk.
  struct Listener {
    virtual ~Listener() = default;
    virtual LogicalResult onAlloc(AllocOp, int) { return success(); }
    virtual LogicalResult onDealloc(DeallocOp, int) { return success(); }
    /// `op` reads or writes a view of `root` on a stream. A put accesses its target too: the
    /// buffer whose place at the peer it writes must be alive here.
    virtual LogicalResult onAccess(Operation *, Value, bool, int) { return success(); }
    /// Any command, after its accesses.
    virtual LogicalResult onCommand(Operation *, int) { return success(); }
    /// After any op, once per evaluation.
    virtual LogicalResult afterOp(Operation *) { return success(); }
  };

  /// `ranks`: how many ranks numbers are tabulated for; 0: what depends on the rank is unknown.
  explicit ProgramWalk(ProgramOp program, uint32_t ranks = 0);

  /// Walks the program once for all listeners, which are told in their order. Fails with a
  /// diagnostic where it cannot follow: control flow other than
  /// `scf.for` and `scf.if`, streams or buffers that come from elsewhere than their ops, or a
  /// program that does not end.
  LogicalResult run(ArrayRef<Listener *> listeners);

  /// Of the last alloc or command issued.
  Position now() const { return position; }
  /// Main and workers.
  size_t numStreams() const { return clocks.size(); }
  /// Number of a stream as it is known now; none if it does not come from its op.
  std::optional<int> streamNumber(Value stream) const;
  /// What is ordered before a command issued now on `stream`. For an unknown worker: before any of
  /// them.
  Clock before(int stream) const;

  /// An index as it is known now.
  Number valueOf(Value value) const;
  /// Which ranks issue the present op, as truth values. Unknown inside of what may run any number
  /// of times.
  Number issuers() const { return mask; }
  RankNumbers &arithmetic() { return tables; }
  const MeshRanks &ranksOf(MeshAttr mesh);

  // Of runInstrs.
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
