//===- LoopCosts.h - what stream loops would take on a machine -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOOPCOSTS_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOOPCOSTS_H

#include "StreamGroups.h"
#include "tandem/Analysis/CostModel.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// A schedule and the seconds that it would take.
struct PricedSchedule {
  fusion::ScheduleAttr schedule;
  double seconds = 0;
};

/// Prices the stream loops of a function. Elementwise ops that will be one kernel are priced as
/// one.
class LoopCosts {
public:
  explicit LoopCosts(const CostModel &model) : model(model) {}

  /// All schedules that can run the group and have a model, `pipeline` first. A named one alone.
  SmallVector<PricedSchedule> getSchedules(const StreamGroup &group) const;
  /// The quickest of them: what `pipeline` would take, unless the gain is worth it.
  static PricedSchedule choose(ArrayRef<PricedSchedule> schedules);

  /// All groups one after another, each by the schedule that would be chosen. Failure where one has
  /// no model.
  FailureOr<double> getSeconds(func::FuncOp func) const;

  const CostModel &getModel() const { return model; }

private:
  LoopWork getWork(const StreamGroup &group) const;
  /// What an iteration does for an op; none if that is a part of another op's kernel, or nothing.
  std::optional<LoopItem> getItem(Operation *op, const StreamGroup &group) const;

  const CostModel &model;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOOPCOSTS_H
