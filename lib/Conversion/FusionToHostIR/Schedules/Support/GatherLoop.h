//===- GatherLoop.h - loops that compute on gathered slices -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_GATHERLOOP_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_GATHERLOOP_H

#include "../../ReshardPlan.h"
#include "OwnerSlices.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// A loop that begins with gathers, or all-to-alls, its only reshards, whose slices have one owner
/// each, the same for all of them; the loop computes on what has arrived. Refers to the loop.
/// Example:
/// `[didx("x"), -]` to `[stream(4), -]` of 8 rows on 4 devices, then a matmul: slice i is rows 2i
/// and 2i+1, which device i owns. The device reads its own slice in the operand of the gather,
/// where the rows are 0 and 1.
class GatherLoop {
public:
  /// None if the loop is another one.
  static Explained<GatherLoop> match(const StreamLoop &loop);

  const StreamLoop &loop;
  fusion::SliceReshard plan; ///< of any slice of one of the gathers, without indices
  OwnerDigits digits;
  SmallVector<fusion::ReshardOp, 1> gathers;
  ArrayRef<Operation *> consumers;
  /// Whether devices get different parts of some slices: these cannot be forwarded.
  bool isPersonalized = false;

  /// Whether everything that reads gathered values reads one slice at a time, where it is: then
  /// they need no buffer as a whole.
  bool readsInPlace() const { return copied.empty() && kept.empty(); }
  /// Whether ops outside of the loop read a gathered value.
  bool isKept() const { return !kept.empty(); }
  /// Whether an op that reads a gathered value may read a local slice where it lies.
  bool mayReadOwn(Operation *reader) const;
  /// For schedules that forward slices: an obstacle if devices get different parts of them.
  Obstacle verifyForwarded() const;

  Location getLoc() const;
  /// Symmetric memory for each gathered value, where peers write. It becomes the value's buffer,
  /// unless the value is a result of the program: that is in the embedder's memory, which peers
  /// cannot access.
  SmallVector<Value> allocReceived(ProgramBuilder &program) const;
  /// Copies a slice from there to gathered values that have another buffer, on `stream`. `copies`:
  /// what only ops outside of the loop read is copied on this stream, and the loop's ops read where
  /// it has arrived until `clearPlaces`; null: none is.
  LogicalResult copyReceived(LoopEmitter &body, ArrayRef<Value> received, const SliceIndex &slice,
                             Value stream, Value copies = {}) const;
  /// Copies a local slice of all gathers into the gathered values.
  LogicalResult copyOwn(LoopEmitter &body, Value me, const SliceIndex &slice, Value stream) const;
  /// Computes on the local slices of device `me`, which need no wait, at once if it can. `copies`:
  /// as of `copyReceived`.
  LogicalResult computeOwn(LoopEmitter &body, Value me, StreamFn getStream,
                           Value copies = {}) const;
  /// Computes on the slices of another owner: each after `arrive`, which emits what brings it into
  /// the gathered values.
  LogicalResult computeFrom(LoopEmitter &body, Value owner, StreamFn getStream, TransferFn arrive,
                            SliceNumbers numbers = {}) const;

private:
  GatherLoop(const StreamLoop &loop, fusion::SliceReshard plan);
  bool computesOwnAtOnce() const;
  LogicalResult emitOwn(LoopEmitter &body, Value me, const SliceIndex &slice, Value stream,
                        Value copies) const;
  /// Whether the loop's ops read slices elsewhere than in the gathered value.
  bool readsElsewhere(fusion::ReshardOp gather, Value copies) const {
    return !copied.contains(gather) && (copies || !kept.contains(gather));
  }

  /// Gathers whose slices the loop's ops must read in the gathered value: one looks at it as a
  /// whole, or must read own and received slices alike.
  DenseSet<Operation *> copied;
  /// Gathers whose value ops outside of the loop read.
  DenseSet<Operation *> kept;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_GATHERLOOP_H
