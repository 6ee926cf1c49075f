//===- Combine.h - the option 'combine' of a schedule -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_COMBINE_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_COMBINE_H

#include "../../Schedule.h"

namespace tandem {

/// combine = whole: ops that combine slices of a gathered value run once, after the loop, on the
/// whole value.
inline fusion::ScheduleOption getCombineOption() {
  return {"combine", fusion::ScheduleOption::Kind::Word, 0, {"slices", "whole"}};
}
inline bool isCombinedWhole(fusion::ScheduleAttr schedule) {
  return schedule.getWord("combine") == "whole";
}
/// An obstacle if the loop's schedule asks for that and there is no such op.
inline Obstacle verifyCombine(const StreamLoop &loop) {
  if (!isCombinedWhole(loop.schedule) || loop.combinesSlices())
    return std::nullopt;
  return loop.explain() << "schedule " << loop.schedule.getName()
                        << ", combine = whole: expected an op that combines slices of what the "
                           "loop gathers, found none";
}

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_COMBINE_H
