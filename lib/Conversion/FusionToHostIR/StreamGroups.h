//===- StreamGroups.h - which ops run in one stream loop -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_STREAMGROUPS_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_STREAMGROUPS_H

#include "SlicePlaces.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/LLVM.h"
#include <vector>

namespace tandem {

/// Ops that one stream loop runs, slice by slice, or, without stream digits, one after another.
struct StreamGroup {
  SmallVector<Operation *> ops;     ///< in an order that respects data flow
  SmallVector<int64_t> streamSizes; ///< the loop's digits; empty: not streamed
  /// Numbers of the loop's ragged digits: their last slice is shorter.
  SmallVector<unsigned, 2> raggedDigits;
  /// Ops that combine over some of the loop's digits (a matmul over slices of K, a reduction), and
  /// the operand whose stream digits are those of the loop. Also a reshard that hands each slice to
  /// its owner (see getScatteredDigit). Their results are whole behind the loop only; the results
  /// of all others have the loop's digits.
  DenseMap<Operation *, unsigned> accumulators;
  /// Of ops whose results have other stream digits than the loop: those digits as the loop's. What
  /// is none of the loop's is gone through inside of an iteration.
  DenseMap<Operation *, DigitMap> digitMaps;
  /// Of a loop op: ops of its body that run whole, before the loop and behind it.
  SmallVector<Operation *, 0> before, after;

  SmallVector<fusion::ReshardOp> reshards() const;
  int64_t numSlices() const;
  /// The stream digits of a value that the group makes or reads slice by slice as the loop's; those
  /// of others are the loop's digits themselves.
  DigitMap getDigitMap(Operation *producer) const;

  /// Of a loop op: its schedule. While loops are formed: the one that a reshard is annotated with.
  fusion::ScheduleAttr schedule;
  /// Whether a user has named it: then it must be kept.
  bool scheduleIsNamed = false;
  /// The op at which errors are reported.
  Operation *place = nullptr;
};

/// What runs together in a block, by data flow alone: no schedule is asked.
///
/// - Streamed ops: an op joins the group of an operand if both are streamed alike (the slice that
///   an iteration reads is the slice that the same iteration of the producer wrote; its result may
///   have more stream digits, on dimensions that the operand does not have) and if no op outside of
///   the group is between them. An op that combines over a dimension joins too if the loop runs
///   over that dimension: it accumulates. A reduction whose operand is sliced by receiver joins
///   what computes its operand. Gathers that meet at an op are one group if the same devices own
///   their slices, or if no slice has an owner.
/// - Ops without stream digits: a gather with the compute that could be sliced with it; a reduction
///   with the compute that makes its operand. These are the loops that slices can be chosen for. An
///   annotated reshard stays alone: its slices are the user's choice.
///
/// Two reshards with different annotations are never in one group. Groups come in an order in which
/// they can run. Every op is in one group; constants and the terminator are in none.
FailureOr<std::vector<StreamGroup>> getStreamGroups(Block &block);

/// The loop op as its types say: what is sliced, by which digits, and what runs whole before and
/// behind. Failure if its ops do not run in one loop; the reason goes through `why`.
FailureOr<StreamGroup> getStreamGroup(fusion::StreamLoopOp loop,
                                      function_ref<InFlightDiagnostic()> why);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_STREAMGROUPS_H
