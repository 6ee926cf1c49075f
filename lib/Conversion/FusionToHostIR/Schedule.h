//===- Schedule.h - how a reshard group becomes a stream loop -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULE_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULE_H

#include "LoopEmitter.h"
#include "StreamGroups.h"
#include "tandem/Analysis/CostModel.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// What one run of a group costs one rank, in counts that do not depend on a machine: a cost model
/// prices them.
struct ScheduleCost {
  int64_t steps = 0;        ///< communication steps that follow each other
  int64_t bytesSent = 0;    ///< bytes this rank sends over the busiest link
  int64_t computeOps = 0;   ///< compute commands issued
  int64_t exposedSteps = 0; ///< steps that nothing in the group can hide
};

/// Bytes of a device's piece of a value of known extents.
int64_t getNumBytes(RankedTensorType type);

/// Turns a stream group into host IR. One class a file under Schedules/, stateless.
class Schedule {
public:
  virtual ~Schedule() = default;

  virtual fusion::ScheduleKind getKind() const = 0;

  /// Whether `emit` can lower the group. If not, says why through `why`: what was found and what is
  /// accepted.
  virtual LogicalResult matches(const StreamGroup &group,
                                function_ref<InFlightDiagnostic()> why) const = 0;

  /// Emits the group. Only called if it matches.
  virtual LogicalResult emit(const StreamGroup &group, ProgramBuilder &program) const = 0;

  /// Only called if it matches.
  virtual ScheduleCost cost(const StreamGroup &group) const = 0;

  /// Appends the commands that `emit` would write to `plan`, for the cost model. False if the
  /// schedule has no model: then it is never chosen, only named. Only called if it matches.
  virtual bool addTo(LoopPlan &plan, const StreamGroup &group, const LoopWork &work,
                     const CostModel &model) const {
    return false;
  }
};

/// The schedule of a kind, or null if there is none yet.
const Schedule *getSchedule(fusion::ScheduleKind kind);

/// Whether there is a schedule of this kind and options, whatever the loop. If not, says why
/// through `why`.
LogicalResult checkSchedule(fusion::ScheduleAttr schedule, function_ref<InFlightDiagnostic()> why);

/// One constructor per file in Schedules/.
const Schedule &getPipelineSchedule();
const Schedule &getExchangeSchedule();
const Schedule &getPushSchedule();

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULE_H
