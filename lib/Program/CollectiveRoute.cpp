//===- CollectiveRoute.cpp - the bytes of a collective ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/CollectiveRoute.h"

#include <cmath>

namespace tandem::program {

CollectiveRoute collectiveRoute(CollectiveKind collective, double members, double slice) {
  double g = members, s = slice, depth = std::ceil(std::log2(g));
  switch (collective) {
  case CollectiveKind::AllReduce:
    // Ring: reduce-scatter and all-gather of 1/g each. Tree: everything up and down.
    return {2 * (g - 1), 2 * (g - 1) / g * s, 2 * depth, 2 * s};
  case CollectiveKind::AllGather:
  case CollectiveKind::ReduceScatter:
    return {g - 1, (g - 1) * s, -1, 0};
  case CollectiveKind::AllToAll:
    // Direct: every pair at once.
    return {1, (g - 1) * s, -1, 0};
  case CollectiveKind::Broadcast:
  case CollectiveKind::Reduce:
    // Pipelined through the ring, so each port sees the slice once.
    return {g - 1, s, depth, s};
  case CollectiveKind::Gather:
  case CollectiveKind::Scatter:
    // Through the root's port.
    return {1, (g - 1) * s, -1, 0};
  }
  return {};
}

} // namespace tandem::program
