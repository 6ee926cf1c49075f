//===- CollectiveRoute.h - the bytes of a collective ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_COLLECTIVEROUTE_H
#define TANDEM_PROGRAM_COLLECTIVEROUTE_H

#include "tandem/Program/Types.h"

namespace tandem::program {

/// Steps, and bytes through a device's port, of a ring and of a tree.
struct CollectiveRoute {
  double ringSteps = 0, ringBytes = 0;
  double treeSteps = -1, treeBytes = 0; ///< treeSteps < 0: no tree
};

/// `members`: of the group, at least 2. `slice`: bytes of a slice: of the smaller operand, and of
/// an all-to-all the part for one member.
CollectiveRoute collectiveRoute(CollectiveKind kind, double members, double slice);

} // namespace tandem::program

#endif // TANDEM_PROGRAM_COLLECTIVEROUTE_H
