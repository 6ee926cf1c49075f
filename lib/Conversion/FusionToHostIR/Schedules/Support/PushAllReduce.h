//===- PushAllReduce.h - all-reduces by puts, slice by slice ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_PUSHALLREDUCE_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_PUSHALLREDUCE_H

#include "../../Schedule.h"
#include "Peers.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Whether the loop's one reshard all-reduces slices of what the loop computes.
bool isAllReduceLoop(const StreamLoop &loop);

/// The plan of such a loop by puts: each device reduces its share of the slices and puts them to
/// all others (docs/schedules.md, "push"). `sums`: the matmul of each own slice adds what the other
/// of two devices has computed of it. `epilogue`: the matmul that computes the slices stores them
/// to the devices that add them. None if no stream digit counts the devices, or slices are
/// combined.
Explained<SchedulePlan> matchPushAllReduce(const StreamLoop &loop, PeerOrder order, bool sums,
                                           bool epilogue);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_PUSHALLREDUCE_H
