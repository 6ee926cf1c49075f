//===- Groups.h - meshes and channels, per world rank -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_HOSTIR_EVALUATE_GROUPS_H
#define TANDEM_DIALECT_HOSTIR_EVALUATE_GROUPS_H

#include "tandem/Dialect/HostIR/IR/HostIROps.h"

#include <vector>

namespace tandem::hostir {

/// A mesh from the view of world ranks.
struct MeshRanks {
  MeshRanks(MeshAttr mesh, uint32_t numRanks);

  /// A rank's coordinate on an axis; 0 outside the mesh. Example: 1 for rank 5 and axis "node" of
  /// ["node" = 2, "gpu" = 4].
  int64_t indexOf(uint32_t rank, unsigned axis) const {
    return position[rank] < 0 ? 0 : position[rank] / strides[axis] % sizes[axis];
  }

  MeshAttr mesh;
  std::vector<int32_t> position; ///< per world rank, -1 = outside
  SmallVector<int64_t, 4> sizes, strides;
};

/// The groups of a channel: ranks whose coordinates differ only along its axes, in row-major order
/// of the channel's axes. Example: axis "y" of the mesh ["x" = 2, "y" = 3] has the groups {0, 1, 2}
/// and {3, 4, 5}.
struct RankGroups {
  RankGroups(const MeshRanks &mesh, ArrayAttr axes);

  ArrayRef<uint32_t> membersOf(int32_t g) const {
    return ArrayRef(members).slice(size_t(g) * groupSize, groupSize);
  }
  size_t numGroups() const { return members.size() / groupSize; }

  uint32_t groupSize = 1;
  std::vector<uint32_t> members; ///< all groups, concatenated
  std::vector<int32_t> group;    ///< per world rank, -1 = in no group
  std::vector<uint32_t> self;    ///< per world rank: its position in its group
};

/// One more than the largest world rank in any mesh of the program.
FailureOr<uint32_t> worldSizeOf(ProgramOp program);

} // namespace tandem::hostir

#endif // TANDEM_DIALECT_HOSTIR_EVALUATE_GROUPS_H
