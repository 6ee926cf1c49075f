//===- NodeMap.h - the nodes of a job ---------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_NODEMAP_H
#define TANDEM_RUNTIME_NODEMAP_H

#include "tandem/Runtime/Bootstrap.h"

#include <string>
#include <vector>

namespace tandem {

/// On which node each rank is. Nodes are numbered in the order of their first ranks. Example: ranks
/// dealt to hosts a and b in turn are on nodes {0, 1, 0, 1}.
struct NodeMap {
  std::vector<uint32_t> nodes; ///< by rank

  uint32_t numNodes() const;
  /// How many ranks of this rank's node have a lower number.
  uint32_t localRank(uint32_t rank) const;
  uint32_t localSize(uint32_t rank) const;
};

/// Of ranks with these hosts and places on their nodes (Bootstrap::host(), localRank()). Ranks of
/// one host that have the same place are on different nodes: a launcher has divided the host.
NodeMap nodeMapOf(const std::vector<std::string> &hosts, const std::vector<uint32_t> &places);
/// Of all ranks. Collective.
Expected<NodeMap> findNodes(Bootstrap &bootstrap);

} // namespace tandem

#endif // TANDEM_RUNTIME_NODEMAP_H
