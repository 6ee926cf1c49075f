//===- Channels.h - meshes and channels, per world rank ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_STREAMPROGRAM_CHANNELS_H
#define TANDEM_LIB_TARGET_STREAMPROGRAM_CHANNELS_H

#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Support/LLVM.h"

#include <string>
#include <vector>

namespace tandem::target {

/// A mesh as world ranks see it.
struct MeshInfo {
  fusion::MeshAttr mesh;
  std::vector<int32_t> position; ///< per world rank, -1 = outside
  SmallVector<int64_t, 4> sizes, weights;
};

/// A channel: its groups, and where each world rank stands.
struct ChannelInfo {
  std::string name, linkClass;
  fusion::MeshAttr mesh;
  ArrayAttr axes;
  uint32_t declared = 0, required = 0; ///< sp::Capability bits
  uint32_t groupSize = 1;
  std::vector<uint32_t> members; ///< group after group
  std::vector<int32_t> group;    ///< per world rank, -1 = takes no part
  std::vector<uint32_t> self;    ///< per world rank
  uint32_t firstPeer = 0;        ///< sum of the group sizes of the channels before
  ArrayRef<uint32_t> membersOf(int32_t g) const {
    return ArrayRef(members).slice(size_t(g) * groupSize, groupSize);
  }
};

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_CHANNELS_H
