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

/// Whether each rank's input, or output, is a stack of slices, one for each rank of the group.
constexpr bool stacksIn(CollectiveKind kind) {
  return kind == CollectiveKind::ReduceScatter || kind == CollectiveKind::AllToAll ||
         kind == CollectiveKind::Scatter;
}
constexpr bool stacksOut(CollectiveKind kind) {
  return kind == CollectiveKind::AllGather || kind == CollectiveKind::AllToAll ||
         kind == CollectiveKind::Gather;
}
constexpr bool isReduction(CollectiveKind kind) {
  return kind == CollectiveKind::AllReduce || kind == CollectiveKind::ReduceScatter ||
         kind == CollectiveKind::Reduce;
}
/// Whether only the root has an input, or only the root an output.
constexpr bool isFromRoot(CollectiveKind kind) {
  return kind == CollectiveKind::Broadcast || kind == CollectiveKind::Scatter;
}
constexpr bool isToRoot(CollectiveKind kind) {
  return kind == CollectiveKind::Reduce || kind == CollectiveKind::Gather;
}
constexpr bool isRooted(CollectiveKind kind) { return isFromRoot(kind) || isToRoot(kind); }

/// Steps, and bytes through a device's port, of a ring and of a tree.
struct CollectiveRoute {
  double ringSteps = 0, ringBytes = 0;
  double treeSteps = -1, treeBytes = 0; ///< treeSteps < 0: no tree
};

/// `members`: of the group, at least 2. `slice`: bytes of a slice: of the smaller operand, and of
/// an all-to-all the part for one member.
CollectiveRoute collectiveRoute(CollectiveKind collective, double members, double slice);

} // namespace tandem::program

#endif // TANDEM_PROGRAM_COLLECTIVEROUTE_H
