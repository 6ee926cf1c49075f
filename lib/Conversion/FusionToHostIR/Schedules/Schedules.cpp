//===- Schedules.cpp - the schedules there are -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

using namespace mlir;
using namespace tandem;

int64_t tandem::getNumBytes(RankedTensorType type) {
  return static_cast<int64_t>(getLocalBytes(type));
}

const Schedule *tandem::getSchedule(fusion::ScheduleKind kind) {
  switch (kind) {
  case fusion::ScheduleKind::Pipeline:
    return &getPipelineSchedule();
  case fusion::ScheduleKind::Exchange:
    return &getExchangeSchedule();
  case fusion::ScheduleKind::Push:
    return &getPushSchedule();
  case fusion::ScheduleKind::Ring:
  case fusion::ScheduleKind::Hierarchical:
    return nullptr;
  }
  return nullptr;
}

LogicalResult tandem::checkSchedule(fusion::ScheduleAttr schedule,
                                    function_ref<InFlightDiagnostic()> why) {
  StringRef name = fusion::stringifyScheduleKind(schedule.getKind());
  if (!getSchedule(schedule.getKind()))
    return why() << "schedule " << name
                 << " is reserved and not there yet, expected pipeline, exchange or push";
  if (schedule.getDirections() != 1 || !schedule.getChannel().empty())
    return why() << "schedule " << name << " has one direction and the target's channel, found "
                 << schedule;
  return success();
}
