//===- StreamGroups.h - which ops run in one stream loop -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_STREAMGROUPS_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_STREAMGROUPS_H

#include "SlicePlaces.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Ops that one stream loop runs, slice by slice, or a single op that is not streamed.
struct StreamGroup {
  SmallVector<Operation *> ops;     ///< in an order that respects data flow
  SmallVector<int64_t> streamSizes; ///< the loop's digits; empty: not streamed
  /// Numbers of the loop's ragged digits: their last slice is shorter.
  SmallVector<unsigned> raggedDigits;
  /// Ops that combine over some of the loop's digits (a matmul over slices of K, a reduction), and
  /// the operand whose stream digits are those of the loop. Also a reshard that hands each slice to
  /// its owner (see getScatteredDigit). Their results are whole behind the loop only; the results
  /// of all others have the loop's digits.
  DenseMap<Operation *, unsigned> accumulators;
  /// Of ops whose results have other stream digits than the loop: those digits as the loop's. What
  /// is none of the loop's is gone through inside of an iteration.
  DenseMap<Operation *, DigitMap> digitMaps;

  SmallVector<fusion::ReshardOp> reshards() const;
  int64_t numSlices() const;
  /// The stream digits of a value that the group makes or reads slice by slice as the loop's; those
  /// of others are the loop's digits themselves.
  DigitMap getDigitMap(Operation *producer) const;
  /// The schedule that the reshards of the group name; `pipeline` if there is none.
  fusion::ScheduleAttr schedule;
  /// Whether a user has named it: then it must be kept.
  bool scheduleIsNamed = false;
};

/// Groups the ops of `func` by data flow: an op joins the group of an operand if both are streamed
/// alike (the slice that an iteration reads is the slice that the same iteration of the producer
/// wrote; its result may have more stream digits, on dimensions that the operand does not have) and
/// if nothing outside of the group stands between them. An op that combines over a dimension joins
/// too if the loop runs over that dimension: it accumulates. Groups come in an order in which they
/// can be emitted. Every op is in one group; constants and the terminator are in none.
FailureOr<SmallVector<StreamGroup>> getStreamGroups(func::FuncOp func);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_STREAMGROUPS_H
