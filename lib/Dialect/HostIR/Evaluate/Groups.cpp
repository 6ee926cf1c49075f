//===- Groups.cpp - meshes and channels, per world rank ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/HostIR/Evaluate/Groups.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

MeshRanks::MeshRanks(MeshAttr mesh, uint32_t numRanks)
    : mesh(mesh), position(numRanks, -1), sizes(mesh.getAxes().size()),
      strides(mesh.getAxes().size()) {
  int64_t devices = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    sizes[i] = mesh.getAxes()[i].size;
    strides[i] = devices;
    devices *= sizes[i];
  }
  for (int64_t p = 0; p < devices; ++p)
    position[mesh.worldRank(p)] = static_cast<int32_t>(p);
}

RankGroups::RankGroups(const MeshRanks &mesh, ArrayAttr axes)
    : group(mesh.position.size(), -1), self(mesh.position.size(), 0) {
  // Row-major strides of the axes in the group's number, and in the position within the group (over
  // the axes as the channel lists them).
  size_t rank = mesh.sizes.size();
  SmallVector<int64_t> outside(rank, 0), inside(rank, 0);
  int64_t groups = 1, size = 1;
  for (Attribute axis : llvm::reverse(axes)) {
    int64_t i = mesh.mesh.axisIndex(cast<StringAttr>(axis));
    inside[i] = size;
    size *= mesh.sizes[i];
  }
  for (size_t i = rank; i-- > 0;)
    if (inside[i] == 0) {
      outside[i] = groups;
      groups *= mesh.sizes[i];
    }
  groupSize = size;
  members.resize(groups * size);
  for (uint32_t world = 0; world < group.size(); ++world) {
    if (mesh.position[world] < 0)
      continue;
    int64_t number = 0, place = 0;
    for (size_t i = 0; i < rank; ++i) {
      int64_t coordinate = mesh.indexOf(world, i);
      number += coordinate * outside[i];
      place += coordinate * inside[i];
    }
    group[world] = static_cast<int32_t>(number);
    self[world] = static_cast<uint32_t>(place);
    members[number * size + place] = world;
  }
}

FailureOr<uint32_t> hostir::worldSizeOf(ProgramOp program) {
  int64_t ranks = 1;
  auto add = [&](MeshAttr mesh, Operation *op) -> LogicalResult {
    if (!mesh.isStatic())
      return op->emitOpError("mesh size is not known: ") << mesh;
    int64_t needed = mesh.numDevices();
    for (int64_t device : mesh.getDevices())
      needed = std::max(needed, device + 1);
    // Tags encode a rank in 24 bits.
    if (needed > (int64_t(1) << 24))
      return op->emitOpError("expected at most 2^24 ranks, found ") << needed;
    ranks = std::max(ranks, needed);
    return success();
  };
  for (unsigned i = 0; i < program.getNumArguments(); ++i)
    if (auto type = program.getArgAttrOfType<TypeAttr>(i, kTypeAttrName))
      if (auto tensor = dyn_cast<RankedTensorType>(type.getValue()))
        if (auto axes = dyn_cast_or_null<ShardedEncoding>(tensor.getEncoding()))
          if (failed(add(axes.getMesh(), program)))
            return failure();
  WalkResult result = program.walk([&](Operation *op) {
    LogicalResult added =
        llvm::TypeSwitch<Operation *, LogicalResult>(op)
            .Case<DeviceIndexOp, InMeshOp, ChannelOp>([&](auto o) { return add(o.getMesh(), op); })
            .Case([&](TranslatePositionOp o) {
              return success(succeeded(add(o.getFrom(), op)) && succeeded(add(o.getTo(), op)));
            })
            .Default(success());
    return failed(added) ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  return static_cast<uint32_t>(ranks);
}
