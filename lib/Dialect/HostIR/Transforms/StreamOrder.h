//===- StreamOrder.h - what happens before what -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates a program in issue order without knowing the rank: loops of known bounds run iteration
// by iteration, values that depend on the rank are unknown. Order is what streams and `hostir.sync`
// say on every rank; nothing else is assumed. Takes time linear in the commands of one rank.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_STREAMORDER_H
#define TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_STREAMORDER_H

#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"

namespace tandem::hostir {

/// Place of a command in the issue order, 1 or more; 0 is the start of the main stream, -1 is
/// nothing.
using Position = int64_t;

/// For each stream (0: main, 1 + i: worker i) the place up to which its commands are ordered before
/// something.
using Clock = SmallVector<Position, 8>;

/// Whether what `earlier` names has happened where `clock` is known.
bool isBefore(ArrayRef<Position> earlier, ArrayRef<Position> clock);

/// A worker whose number depends on the rank.
inline constexpr int kUnknownWorker = -1;
inline constexpr int kMainStream = 0;

class StreamOrder {
public:
  /// What a client sees, in issue order. Returning failure ends the walk.
  struct Listener {
    virtual ~Listener() = default;
    virtual LogicalResult onAlloc(AllocOp, int) { return success(); }
    virtual LogicalResult onDealloc(DeallocOp, int) { return success(); }
    /// `op` reads or writes a view of `root` on a stream.
    virtual LogicalResult onAccess(Operation *, Value, bool, int) { return success(); }
    /// Any command, after its accesses.
    virtual LogicalResult onCommand(Operation *, int) { return success(); }
    /// After any op, once per evaluation.
    virtual LogicalResult afterOp(Operation *) { return success(); }
  };

  explicit StreamOrder(ProgramOp program);

  /// Walks the program. Fails with a diagnostic where it cannot follow: control flow other than
  /// `scf.for` and `scf.if`, streams or buffers that come from elsewhere than their ops, or a
  /// program that does not end.
  LogicalResult run(Listener &listener);

  /// Of the last alloc or command issued.
  Position now() const { return position; }
  /// Main and workers.
  size_t numStreams() const { return clocks.size(); }
  /// Number of a stream as it is known now; none if it does not come from its op.
  std::optional<int> streamNumber(Value stream) const;
  /// What is ordered before a command issued now on `stream`. For an unknown worker: before any of
  /// them.
  Clock before(int stream) const;

private:
  LogicalResult runBlock(Block &block);
  LogicalResult runOp(Operation &op);
  LogicalResult runFor(Operation &op);
  LogicalResult runIf(Operation &op);
  LogicalResult runCommand(Operation &op);
  void runSync(SyncOp op);
  void evaluate(Operation &op);

  std::optional<int64_t> valueOf(Value value) const;
  void setValue(Value value, std::optional<int64_t> number);
  FailureOr<int> streamOf(Operation &user, Value stream) const;

  ProgramOp program;
  int64_t workers;
  Listener *listener = nullptr;
  Position position = 0;
  int64_t steps = 0;
  SmallVector<Clock> clocks;
  llvm::DenseMap<Value, int64_t> numbers;
};

} // namespace tandem::hostir

#endif // TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_STREAMORDER_H
