//===- ReshardAcrossMeshes.cpp - reshards that move whole pieces or change the mesh -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReshardDetail.h"

#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include <map>
#include <vector>

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// Identifies a shard of a tensor: its walk through the logical tensor.
static std::vector<int64_t> pieceKey(const StridedWalk &walk) {
  std::vector<int64_t> key{walk.offset};
  for (auto [size, stride] : llvm::zip_equal(walk.shape, walk.strides))
    if (size != 1) {
      key.push_back(size);
      key.push_back(stride);
    }
  return key;
}

FailureOr<SmallVector<int64_t>> fusion::findPieceSources(RankedTensorType from,
                                                         RankedTensorType to) {
  struct Holders {
    SmallVector<int64_t> ranks;
    size_t next = 0;
  };
  MeshAttr fromMesh = getAxes(from).getMesh(), toMesh = getAxes(to).getMesh();
  std::map<std::vector<int64_t>, Holders> pieces;
  llvm::DenseMap<int64_t, Holders *> heldBy;
  for (int64_t position = 0; position < fromMesh.numDevices(); ++position) {
    FailureOr<StridedWalk> walk = getShard(from, position);
    if (failed(walk))
      return failure();
    Holders &holders = pieces[pieceKey(*walk)];
    holders.ranks.push_back(fromMesh.worldRank(position));
    heldBy[fromMesh.worldRank(position)] = &holders;
  }
  SmallVector<int64_t> sources;
  for (int64_t position = 0; position < toMesh.numDevices(); ++position) {
    FailureOr<StridedWalk> walk = getShard(to, position);
    if (failed(walk))
      return failure();
    auto it = pieces.find(pieceKey(*walk));
    if (it == pieces.end())
      return failure();
    Holders &holders = it->second;
    int64_t self = toMesh.worldRank(position);
    int64_t spread = holders.ranks[holders.next++ % holders.ranks.size()];
    sources.push_back(heldBy.lookup(self) == &holders ? self : spread);
  }
  return sources;
}

/// The one dimension that device digits split; -1: none, -2: several.
static int64_t splitDim(AxesAttr axes) {
  int64_t found = -1;
  for (auto [dim, digits] : llvm::enumerate(axes.getDims()))
    if (llvm::any_of(digits.getDigits(), [&](const Digit &digit) {
          return digit.isDevice() && getDigitSize(digit, axes.getMesh()) > 1;
        }))
      found = found == -1 ? static_cast<int64_t>(dim) : -2;
  return found;
}

static bool sameDeviceSet(MeshAttr a, MeshAttr b) {
  auto ranks = [](MeshAttr mesh) {
    SmallVector<int64_t> list;
    for (int64_t position = 0; position < mesh.numDevices(); ++position)
      list.push_back(mesh.worldRank(position));
    llvm::sort(list);
    return list;
  };
  return ranks(a) == ranks(b);
}

Reshard fusion::classifyAcrossMeshes(RankedTensorType from, RankedTensorType to) {
  AxesAttr a = getAxes(from), b = getAxes(to);
  auto numAxes = [&](auto &&counts) {
    return llvm::count_if(a.getMesh().getAxes(),
                          [&](const MeshAxis &axis) { return axis.size > 1 && counts(axis.name); });
  };
  int64_t summed =
      numAxes([&](StringAttr axis) { return llvm::is_contained(a.getPartial(), axis); });
  Reshard result;
  result.to = b;
  result.reduceKind = a.getPartialKind();
  result.fromDim = splitDim(a);
  result.toDim = splitDim(b);
  if (summed > 0) {
    // One device receives the partial sums of all devices; else they are summed on their own mesh.
    if (b.getMesh().numDevices() == 1 && result.fromDim == -1 &&
        summed == numAxes([](StringAttr) { return true; })) {
      result.kind = ReshardKind::Reduce;
      result.root = b.getMesh().worldRank(0);
      return result;
    }
    RankedTensorType whole = withAxes(from, a.withPartial({}, ReduceKind::Sum));
    SmallVector<ReshardStep> steps;
    appendSteps(steps, classifyReshard(from, whole));
    appendSteps(steps, classifyAcrossMeshes(whole, to));
    return makeReshard(std::move(steps));
  }
  if (FailureOr<SmallVector<int64_t>> sources = findPieceSources(from, to); succeeded(sources)) {
    bool stays = true;
    for (auto [position, source] : llvm::enumerate(*sources))
      stays = stays && source == b.getMesh().worldRank(position);
    bool one = a.getMesh().numDevices() == 1 && b.getMesh().numDevices() > 1;
    result.kind = stays                                     ? ReshardKind::Nothing
                  : one                                     ? ReshardKind::Broadcast
                  : sameDeviceSet(a.getMesh(), b.getMesh()) ? ReshardKind::Permute
                                                            : ReshardKind::SendRecv;
    if (!stays && one)
      result.root = a.getMesh().worldRank(0);
    else if (!stays)
      result.sources = std::move(*sources);
    return result;
  }
  bool wholeMesh = true;
  if (a.getMesh().numDevices() == 1 && result.toDim >= 0) {
    // Every device of the mesh gets a different shard.
    for (const MeshAxis &axis : b.getMesh().getAxes())
      wholeMesh = wholeMesh && (axis.size == 1 || b.dimOfDeviceAxis(axis.name.getValue()) >= 0);
    if (wholeMesh) {
      result.kind = ReshardKind::Scatter;
      result.root = a.getMesh().worldRank(0);
      return result;
    }
  }
  if (b.getMesh().numDevices() == 1 && result.fromDim >= 0) {
    for (const MeshAxis &axis : a.getMesh().getAxes())
      wholeMesh = wholeMesh && (axis.size == 1 || a.dimOfDeviceAxis(axis.name.getValue()) >= 0);
    if (wholeMesh) {
      result.kind = ReshardKind::Gather;
      result.root = b.getMesh().worldRank(0);
      return result;
    }
  }
  result.kind = ReshardKind::Transfer;
  return result;
}
