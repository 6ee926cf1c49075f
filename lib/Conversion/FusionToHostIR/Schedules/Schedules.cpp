//===- Schedules.cpp - the schedules there are -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

#include "tandem/Support/SilenceDiagnostics.h"

using namespace mlir;
using namespace tandem;

static ArrayRef<const Schedule *> getSchedules() {
  static const Schedule *const all[] = {&getPipelineSchedule(), &getExchangeSchedule(),
                                        &getPushSchedule()};
  return all;
}

const Schedule *tandem::getSchedule(fusion::ScheduleAttr schedule) {
  for (const Schedule *known : getSchedules())
    if (known->getKind() == schedule.getKind())
      return known;
  return nullptr;
}

const Schedule *tandem::lookupSchedule(fusion::ScheduleAttr schedule,
                                       function_ref<InFlightDiagnostic()> why) {
  const Schedule *found = getSchedule(schedule);
  StringRef name = fusion::stringifyScheduleKind(schedule.getKind());
  if (!found) {
    why() << "schedule " << name
          << " is reserved and not there yet, expected pipeline, exchange or push";
    return nullptr;
  }
  if (schedule.getDirections() != 1 || !schedule.getChannel().empty()) {
    why() << "schedule " << name << " has one direction and the target's channel, found "
          << schedule;
    return nullptr;
  }
  return found;
}

SmallVector<fusion::ScheduleAttr> tandem::getCandidates(const StreamGroup &group) {
  SmallVector<fusion::ScheduleAttr> candidates;
  for (const Schedule *schedule : getSchedules())
    schedule->getCandidates(group, candidates);
  return candidates;
}

fusion::ScheduleAttr tandem::getFallbackSchedule(const StreamGroup &group) {
  SilenceDiagnostics silence(group.place->getContext());
  const Schedule *best = nullptr;
  int highest = -1;
  for (const Schedule *schedule : getSchedules()) {
    int rank = schedule->getFallbackRank(group);
    if (rank > highest && (rank == 0 || succeeded(schedule->matches(
                                            group, [&] { return group.place->emitError(); })))) {
      best = schedule;
      highest = rank;
    }
  }
  return fusion::ScheduleAttr::get(group.place->getContext(), best->getKind());
}
