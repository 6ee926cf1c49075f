//===- StreamLoop.h - what a stream loop op slices -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_STREAMLOOP_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_STREAMLOOP_H

#include "SlicePlaces.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Program/Capabilities.h"
#include "tandem/Support/Explained.h"

namespace tandem {

/// How an op takes part in a stream loop.
struct LoopMember {
  /// It combines over the digits of this operand. See StreamLoop::accumulators.
  std::optional<unsigned> accumulated;
  /// Its result's stream digits as the loop's. See StreamLoop::digitMaps.
  DigitMap map;
};

/// Ops that one stream loop runs, slice by slice, or, without stream digits, one after another.
struct StreamLoop {
  SmallVector<Operation *> ops;     ///< in an order that respects data flow
  SmallVector<int64_t> streamSizes; ///< the loop's digits; empty: not streamed
  /// Numbers of the loop's ragged digits: their last slice is shorter.
  SmallVector<unsigned, 2> raggedDigits;
  /// Ops that combine over some of the loop's digits (a matmul over slices of K, a reduction), and
  /// the operand whose stream digits are those of the loop. Also a reshard that hands each slice to
  /// its owner (see getScatteredDigit). Their results are whole after the loop only; the results
  /// of all others have the loop's digits.
  DenseMap<Operation *, unsigned> accumulators;
  /// Of ops whose results have other stream digits than the loop: those digits as the loop's. What
  /// is none of the loop's is gone through inside of an iteration.
  DenseMap<Operation *, DigitMap> digitMaps;
  /// Of a loop op: ops of its body that run whole, before the loop and after it.
  SmallVector<Operation *> before, after;
  /// The schedule of a loop op, or the annotation of its reshards while loops are formed.
  fusion::ScheduleAttr schedule;
  program::Thresholds thresholds; ///< of the machine
  /// The loop op; while loops are formed, the op at which errors are reported.
  Operation *op = nullptr;

  /// Begins why something is impossible for the loop.
  Explanation explain() const { return tandem::explain(op); }
  SmallVector<fusion::ReshardOp> reshards() const;
  int64_t numSlices() const;
  bool contains(Operation *op) const { return op && llvm::is_contained(ops, op); }
  /// The matmuls of the loop that a value is the sum of, in the loop's order: see
  /// `getSummedProducts`. None if one of them combines slices.
  SmallVector<fusion::MatmulOp> getProducts(Value value) const;
  /// Whether some op combines slices of what the loop makes, slice by slice or after it.
  bool combinesSlices() const;
  /// The other ops of the loop: those that `op` needs, and the rest, each in order.
  std::pair<SmallVector<Operation *>, SmallVector<Operation *>> splitAround(Operation *op) const;
  /// The stream digits of a value that the loop makes or reads slice by slice as the loop's; those
  /// of others are the loop's digits themselves.
  DigitMap getDigitMap(Operation *producer) const;

  /// Begins the loop with an op: its digits are those of the op's result.
  void begin(Operation *op, ArrayRef<int64_t> sizes);
  /// How `op` may run in the loop, which makes `operand`: of what the loop makes, the op reads the
  /// slice of its own iteration, or all slices if it combines over them. Ops for which `isLater`
  /// holds run after the loop: then `op` may not read them. `isStreamed`: the op's result has
  /// stream digits. Nothing if it may not.
  std::optional<LoopMember> getMember(Operation *op, OpOperand &operand, bool isStreamed,
                                      function_ref<bool(Operation *)> isLater) const;
  /// Appends an op that may run in the loop.
  void add(Operation *op, const LoopMember &member);
  /// Reshards of what is there before the loop come first, whatever stood before them in the text.
  void moveReshardsFirst();

  /// Whether `op` can be run slice by slice of `operand`, whose stream digits stand on dimensions
  /// that the op combines over, and else on those of the result's stream digits.
  bool isAccumulated(Operation *op, unsigned operand) const;

private:
  std::optional<DigitMap> getMapThrough(Operation *op, OpOperand &operand) const;
};

/// The matmuls without bias whose sum a value is: it itself, or several of the same type that only
/// additions read. They can be computed one after another into one buffer, all but the first added
/// to it. None for other values.
SmallVector<fusion::MatmulOp> getSummedProducts(Value value);

/// Whether `op` is a reduction whose operand is sliced by the device that gets each slice.
bool isScatter(Operation *op);

/// The sizes of the stream digits of the op's result, which must have axes of known sizes.
Explained<SmallVector<int64_t>> getStreamDigits(Operation *op);

/// The loop op as its types and its schedule say: what is sliced, by which digits, and what runs
/// whole before and after. None if its ops do not run in one loop.
Explained<StreamLoop> getStreamLoop(fusion::StreamLoopOp loop);

/// Keeps the machine's thresholds with the loop, unless they are the usual ones.
void setThresholds(fusion::StreamLoopOp loop, const program::Thresholds &thresholds);

/// The kinds of a loop's reshards, for people: "all-gather and all-gather"; "" if it has none.
std::string describeReshards(fusion::StreamLoopOp loop);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_STREAMLOOP_H
