//===- Schedule.h - how a stream loop becomes host IR -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULE_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULE_H

#include "LoopEmitter.h"
#include "StreamGroups.h"
#include "tandem/Dialect/Fusion/IR/ScheduleInfo.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// An algorithm that makes a stream loop host IR.
class Schedule {
public:
  virtual ~Schedule() = default;

  /// The name and the options, which attributes are verified against.
  virtual fusion::ScheduleInfo getInfo() const = 0;
  StringRef getName() const { return getInfo().name; }
  /// The attribute with these options.
  fusion::ScheduleAttr getAttr(MLIRContext *context, const NamedAttrList &options = {}) const {
    return fusion::ScheduleAttr::get(context, getName(), options.getDictionary(context));
  }

  /// Appends the options that are worth a price for the group. Those that do not match are passed
  /// over later.
  virtual void getCandidates(const StreamGroup &group,
                             SmallVectorImpl<fusion::ScheduleAttr> &candidates) const = 0;

  /// How much the schedule suits a group that it matches, where nothing is known of the machine:
  /// the highest rank is chosen. Negative: never without a cost model. The schedule of rank 0
  /// matches all groups.
  virtual int getFallbackRank(const StreamGroup &group) const { return -1; }

  /// Whether the group's commands would be one-sided messages, which not all channels have.
  virtual bool isOneSided(const StreamGroup &group) const { return false; }

  /// Whether `emit` can lower the group. If not, says why through `why`: what was found and what is
  /// accepted.
  virtual LogicalResult matches(const StreamGroup &group,
                                function_ref<InFlightDiagnostic()> why) const = 0;

  /// Emits the group. Only called if it matches.
  virtual LogicalResult emit(const StreamGroup &group, ProgramBuilder &program) const = 0;
};

/// The schedule that an attribute names, or null. In a context with registered schedules attributes
/// are verified, so there is one.
const Schedule *getSchedule(fusion::ScheduleAttr schedule);

/// Adds a schedule to those that are there. Before the first context is made.
void registerSchedule(std::unique_ptr<Schedule> schedule);

/// The candidates of all schedules for a group, the unoverlapped baseline first.
SmallVector<fusion::ScheduleAttr> getCandidates(const StreamGroup &group);

/// What a group gets that has neither an annotation nor a price: of the schedules that match, the
/// one of the highest rank.
fusion::ScheduleAttr getFallbackSchedule(const StreamGroup &group);

/// Slice by slice: the ops of the group in order, on the worker of the iteration. Without stream
/// digits, one op after another on the main stream. `sendsMessages`: see LoopEmitter.
LogicalResult emitPipeline(const StreamGroup &group, ProgramBuilder &program, bool sendsMessages);

std::unique_ptr<Schedule> createPipelineSchedule();
std::unique_ptr<Schedule> createExchangeSchedule();
std::unique_ptr<Schedule> createPushSchedule();

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULE_H
