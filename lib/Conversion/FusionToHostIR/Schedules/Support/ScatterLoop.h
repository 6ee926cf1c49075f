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

/// A loop whose last op, a reduction, hands each slice of what the others compute to its owner. The
/// owner receives the slices of all devices next to each other, in receive memory of the shape
/// [device, own piece...], and combines them when it has all. Refers to the loop. Example: a matmul
/// whose result is `[stream(4), -]`, partial over x, then the reduce-scatter to `[didx("x"), -]`.
class ScatterLoop {
public:
  /// Whether the loop's one reshard is such a reduction.
  static bool isScatterLoop(const StreamLoop &loop);
  /// Of a loop that is one. Failure, with the reason through `why`, if another op reads what is
  /// reduced or combines slices.
  static FailureOr<ScatterLoop> match(const StreamLoop &loop,
                                      function_ref<InFlightDiagnostic()> why);

  const StreamLoop &loop;
  fusion::ReshardOp scatter;
  ScatteredDigit scattered;
  OwnerDigits digits;
  SmallVector<Operation *> producers;

  Location getLoc() const;
  /// The shape of the receive memory: [device, own piece...].
  SmallVector<int64_t> getReceivedShape() const;
  /// The piece of one device in receive memory.
  Value getPlace(ProgramBuilder &program, Value received, Value device) const;
  /// Buffers for all that the loop makes.
  LogicalResult prepare(LoopEmitter &body) const;
  /// Computes a slice on `stream`.
  LogicalResult emitProducers(LoopEmitter &body, const SliceIndex &slice, Value stream) const;
  /// The slice where it is computed, and in its owner's piece.
  Value getComputed(ProgramBuilder &program, const SliceIndex &slice) const;
  Value getTarget(ProgramBuilder &program, Value place, const SliceIndex &slice) const;
  /// Computes the slices of device `me` into its `place`.
  LogicalResult computeOwn(LoopEmitter &body, Value me, Value place, StreamFn getStream,
                           SliceNumbers numbers = {}) const;
  /// Computes the slices of another owner; after each, `deliver` emits what takes it there.
  LogicalResult computeFor(LoopEmitter &body, Value owner, StreamFn getStream, TransferFn deliver,
                           SliceNumbers numbers = {}) const;
  /// Combines what has been received, on the main stream.
  void reduce(ProgramBuilder &program, Value received) const;

private:
  ScatterLoop(const StreamLoop &loop, ScatteredDigit scattered);
  LocalDims getTargetDims(ProgramBuilder &program, const SliceIndex &slice) const;
  LogicalResult emitOwn(LoopEmitter &body, Value place, const SliceIndex &slice,
                        Value stream) const;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_SCATTERLOOP_H
