//===- Schedules.cpp - the schedules there are -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

using namespace mlir;
using namespace mlir::tandem;

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
