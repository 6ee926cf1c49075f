//===- GroupOrder.h - the schedules of stream groups, and their order -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_GROUPORDER_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_GROUPORDER_H

#include "StreamGroups.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Sets the group's schedule by those that its reshards name. Error if users name two that one loop
/// cannot have.
LogicalResult chooseSchedule(StreamGroup &group);

/// Orders groups by their dependences; among those that are free, by their first op. Error at
/// `func` if they depend on each other in a circle.
FailureOr<SmallVector<StreamGroup>> sortGroups(func::FuncOp func, SmallVector<StreamGroup> groups);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_GROUPORDER_H
