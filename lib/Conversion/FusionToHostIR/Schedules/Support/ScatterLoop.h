//===- ScatterLoop.h - loops that hand slices to their owners -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_SCATTERLOOP_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_SCATTERLOOP_H

#include "../../ReshardPlan.h"
#include "OwnerSlices.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Where the slices of one device arrive: in a slot of the receive memory, or in the result.
struct ReceiveSlot {
  ReceiveSlot(Value buffer, Value source = {}) : buffer(buffer), source(source) {}
  Value buffer; ///< of a reduction: the device's piece of the receive memory; else all of it
  Value source; ///< of an all-to-all: the device's number
  Value term;   ///< of the buffer's shape, added to what a matmul computes; null: none
};

/// A loop whose last op, a reduction or an all-to-all, hands each slice of what the others compute
/// to its owner. Of a reduction, the owner receives the slices of all devices next to each other,
/// in receive memory of the shape [device, own piece...], and combines them when it has all. Of an
/// all-to-all, slices come to their place in the result. Refers to the loop. Example: a matmul
/// whose result is `[stream(4), -]`, partial over x, then the reduce-scatter to `[didx("x"), -]`.
class ScatterLoop {
public:
  /// Whether the loop's one reshard is such a reduction or all-to-all.
  static bool isScatterLoop(const StreamLoop &loop);
  /// Of a loop that is one. None if another op reads what is
  /// reduced or combines slices.
  static Explained<ScatterLoop> match(const StreamLoop &loop);

  const StreamLoop &loop;
  mutable fusion::ReshardOp scatter; ///< mutable, as accessors of ops are not const
  ScatteredDigit scattered;
  OwnerDigits digits;
  SmallVector<Operation *> producers;

  /// For schedules that add up on the way: an obstacle if this is an
  /// all-to-all.
  Obstacle verifyReduces() const;

  Location getLoc() const;
  bool reduces() const { return scattered.plan.reduces(); }
  /// The shape of a reduction's receive memory: [device, own piece...].
  SmallVector<int64_t> getReceivedShape() const;
  /// Receive memory; `symmetric`: that peers may write. It is the result's buffer, if it can be.
  Value allocReceived(ProgramBuilder &program, bool symmetric) const;
  /// The device's slot in the receive memory.
  ReceiveSlot getSlot(ProgramBuilder &program, Value received, Value device) const;
  /// Buffers for all that the loop makes.
  LogicalResult prepare(LoopEmitter &body) const;
  /// Computes a slice on `stream`.
  LogicalResult emitProducers(LoopEmitter &body, const SliceIndex &slice, Value stream) const;
  /// The slice where it is computed, and in its owner's piece.
  Value getComputed(ProgramBuilder &program, const SliceIndex &slice) const;
  Value getTarget(ProgramBuilder &program, ReceiveSlot slot, const SliceIndex &slice) const;
  /// Computes the slices of device `me` into its `slot`. With `adds`, adds them to what is there:
  /// only if `canAdd`.
  LogicalResult computeOwn(LoopEmitter &body, Value me, ReceiveSlot slot, StreamFn getStream,
                           SliceNumbers numbers = {}, bool adds = false) const;
  /// Whether partial sums in f32 are computed by a matmul, which can add to what is there and
  /// rounds nothing that a separate addition would not round.
  bool canAdd() const;
  /// Computes the slices of another owner; after each, `deliver` emits what takes it there.
  LogicalResult computeFor(LoopEmitter &body, Value owner, StreamFn getStream, TransferFn deliver,
                           SliceNumbers numbers = {}) const;
  /// Makes the result of what has been received, on the main stream: combines it, or, if it is in
  /// another buffer than the result, copies it.
  void finish(ProgramBuilder &program, Value received) const;

private:
  ScatterLoop(const StreamLoop &loop, ScatteredDigit scattered);
  LocalDims getTargetDims(ProgramBuilder &program, ReceiveSlot slot, const SliceIndex &slice) const;
  LogicalResult emitOwn(LoopEmitter &body, ReceiveSlot slot, const SliceIndex &slice, Value stream,
                        bool adds) const;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_SCATTERLOOP_H
