//===- NodeMap.cpp - the nodes of a job -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/NodeMap.h"

#include <algorithm>
#include <map>
#include <utility>

using namespace tandem;

uint32_t NodeMap::numNodes() const {
  return nodes.empty() ? 0 : *std::max_element(nodes.begin(), nodes.end()) + 1;
}

uint32_t NodeMap::localRank(uint32_t rank) const {
  return static_cast<uint32_t>(std::count(nodes.begin(), nodes.begin() + rank, nodes[rank]));
}

uint32_t NodeMap::localSize(uint32_t rank) const {
  return static_cast<uint32_t>(std::count(nodes.begin(), nodes.end(), nodes[rank]));
}

NodeMap tandem::nodeMapOf(const std::vector<std::string> &hosts,
                          const std::vector<uint32_t> &places) {
  NodeMap map;
  // How many ranks before had the same place on the host.
  std::map<std::pair<std::string, uint32_t>, uint32_t> taken;
  std::map<std::pair<std::string, uint32_t>, uint32_t> numbers; // of the host's parts
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    uint32_t part = taken[{hosts[rank], places[rank]}]++;
    map.nodes.push_back(
        numbers.emplace(std::make_pair(hosts[rank], part), static_cast<uint32_t>(numbers.size()))
            .first->second);
  }
  return map;
}

Expected<NodeMap> tandem::findNodes(Bootstrap &bootstrap) {
  std::vector<uint32_t> places(bootstrap.worldSize());
  uint32_t place = bootstrap.localRank();
  TANDEM_RETURN_IF_ERROR(bootstrap.allGather(&place, sizeof place, places.data()));
  TANDEM_ASSIGN_OR_RETURN(auto hosts, allGatherStrings(bootstrap, bootstrap.host()));
  return nodeMapOf(hosts, places);
}
