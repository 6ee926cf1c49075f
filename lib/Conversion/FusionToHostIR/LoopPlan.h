//===- LoopPlan.h - the plan of a stream loop -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOOPPLAN_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOOPPLAN_H

#include "Schedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <mutex>

namespace tandem {

/// What a stream loop slices, and how its schedule lowers it: reshards, owners of slices, compute.
/// It refers to the loop op and the ops of its body, which must live as long and stay as they are.
struct LoopPlan {
  const StreamLoop loop;
  SchedulePlan plan;

  /// Of the schedule that the op has.
  static Explained<std::unique_ptr<LoopPlan>> make(fusion::StreamLoopOp op);
  /// Of another schedule for what `loop` slices.
  static Explained<std::unique_ptr<LoopPlan>> make(StreamLoop loop, fusion::ScheduleAttr schedule);
};

/// Of what a loop gets that has neither an annotation nor a price, or why no schedule matches.
Explained<std::unique_ptr<LoopPlan>> planFallback(const StreamLoop &loop);

/// The plans of a module's loops, an analysis: fusion-select-schedule makes them and
/// convert-fusion-to-hostir lowers the loops by them. Several threads may use it.
class LoopPlans {
public:
  explicit LoopPlans(Operation *module) {}

  /// The plan of the schedule that the op has; made now if it is not known.
  Explained<const LoopPlan *> get(fusion::StreamLoopOp op);
  void set(fusion::StreamLoopOp op, std::unique_ptr<LoopPlan> plan);

private:
  std::mutex mutex; ///< guards `plans`
  DenseMap<Operation *, std::unique_ptr<LoopPlan>> plans;
};

/// A copy of a loop with a candidate, in a function of its own, and its plan.
struct Trial {
  OwningOpRef<func::FuncOp> func;
  std::unique_ptr<LoopPlan> plan;

  /// Copies the loop. `returned`: the numbers of results that the whole function returns.
  /// `deterministic`: the attribute of the whole function, or null. There is no plan yet.
  Trial(fusion::StreamLoopOp loop, ArrayRef<unsigned> returned, StringAttr deterministic);

  fusion::StreamLoopOp getLoop() const;
  /// Host IR of the function, which stays as it is; null if an op has no lowering.
  OwningOpRef<ModuleOp> lower(int64_t workers) const;
  /// Puts the copy in the place of `op`, and returns it.
  fusion::StreamLoopOp replace(fusion::StreamLoopOp op);
};

/// A copy of the loop with slices of a reshard, by its number. If other gathers cannot be cut
/// alike, they stay whole, and `slices` then says so. Null if the loop cannot have the slices.
OwningOpRef<fusion::StreamLoopOp> makeCut(fusion::StreamLoopOp loop,
                                          std::pair<unsigned, fusion::StreamFactor> &slices);

/// By which reports and measured choices name a candidate.
fusion::CandidateAttr
getCandidateAttr(fusion::ScheduleAttr schedule,
                 const std::optional<std::pair<unsigned, fusion::StreamFactor>> &slices);

/// The numbers of the loop's results that the function returns, also in a reshape or concat.
SmallVector<unsigned> findReturned(fusion::StreamLoopOp loop);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOOPPLAN_H
