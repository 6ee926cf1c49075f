//===- SliceFactors.cpp - the slices that schedules try -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SliceFactors.h"

#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"
#include <limits>

using namespace mlir;
using namespace tandem;

/// Among more devices one slice per owner is fine enough; prices would take several times as long
/// (of the compiler, whatever the machine).
static constexpr int64_t kFewDevices = 16;

static int64_t getGroupSize(const fusion::Reshard &reshard, MeshAttr mesh) {
  int64_t size = 1;
  for (StringAttr axis : reshard.axes)
    size *= mesh.axisSize(axis);
  return size;
}

/// The reshard and the number of devices that communicate, of a gather, a reduction or an
/// all-to-all without slices.
static std::optional<std::pair<fusion::Reshard, int64_t>> classify(fusion::ReshardOp op) {
  RankedTensorType from = op.getInput().getType(), to = op.getType();
  if (fusion::getAxes(from).hasStream() || fusion::getAxes(to).hasStream())
    return std::nullopt;
  fusion::Reshard reshard = fusion::classifyReshard(from, to);
  if (reshard.kind != fusion::ReshardKind::AllGather &&
      reshard.kind != fusion::ReshardKind::AllReduce &&
      reshard.kind != fusion::ReshardKind::ReduceScatter &&
      reshard.kind != fusion::ReshardKind::AllToAll)
    return std::nullopt;
  int64_t devices = getGroupSize(reshard, fusion::getAxes(to).getMesh());
  return std::pair(std::move(reshard), devices);
}

/// As many slices for every owner or receiver as `counts` say, one factor for each.
static SmallVector<fusion::StreamFactor>
getOwnerFactors(fusion::ReshardOp op, ArrayRef<int64_t> counts, int64_t mostDevices) {
  auto found = classify(op);
  if (!found || found->second > mostDevices || found->first.kind == fusion::ReshardKind::AllReduce)
    return {};
  auto &[reshard, devices] = *found;
  // What an all-to-all sends is sliced by sender for what follows, or by receiver for what makes
  // it.
  bool isAllToAll = reshard.kind == fusion::ReshardKind::AllToAll;
  SmallVector<fusion::StreamFactor> factors;
  for (int64_t each : counts) {
    if (isAllToAll || reshard.kind == fusion::ReshardKind::AllGather)
      factors.push_back({reshard.fromDim, devices * each, 1, /*toOwners=*/false, each});
    if (isAllToAll || reshard.kind == fusion::ReshardKind::ReduceScatter)
      factors.push_back({reshard.toDim, devices * each, 1, /*toOwners=*/true, each});
  }
  return factors;
}

SmallVector<fusion::StreamFactor> tandem::getOwnerFactor(fusion::ReshardOp op) {
  return getOwnerFactors(op, 1, std::numeric_limits<int64_t>::max());
}

SmallVector<fusion::StreamFactor> tandem::getFineOwnerFactors(fusion::ReshardOp op) {
  return getOwnerFactors(op, {2, 4}, kFewDevices);
}

SmallVector<fusion::StreamFactor> tandem::getAllReduceFactors(fusion::ReshardOp op,
                                                              int64_t leastRow) {
  auto found = classify(op);
  if (!found || found->first.kind != fusion::ReshardKind::AllReduce || found->second > kFewDevices)
    return {};
  FailureOr<SmallVector<int64_t>> shape = fusion::getLocalShape(op.getType());
  if (failed(shape))
    return {};
  int64_t elementBits = op.getType().getElementTypeBitWidth(), rank = op.getType().getRank();
  SmallVector<fusion::StreamFactor> factors;
  for (int64_t dim = 0; dim < rank; ++dim)
    for (int64_t each : {1, 2, 4, 8}) {
      int64_t count = found->second * each;
      // A slice is one run of memory in each index of the dimensions before.
      bool hasRows =
          llvm::any_of(ArrayRef(*shape).take_front(dim), [](int64_t n) { return n > 1; });
      int64_t run = llvm::product_of(ArrayRef(*shape).drop_front(dim)) / count;
      if (!hasRows || run * elementBits >= 8 * leastRow)
        factors.push_back({dim, count, 1, /*toOwners=*/false, each});
    }
  return factors;
}

SmallVector<fusion::StreamFactor> tandem::getAllReduceRows(fusion::ReshardOp op) {
  auto found = classify(op);
  if (!found || found->first.kind != fusion::ReshardKind::AllReduce || op.getType().getRank() == 0)
    return {};
  return {{0, found->second, 1, /*toOwners=*/false, 1}};
}

SmallVector<fusion::StreamFactor> tandem::getRangeFactors(fusion::ReshardOp op) {
  auto found = classify(op);
  if (!found || found->first.kind == fusion::ReshardKind::AllToAll)
    return {};
  auto &[reshard, devices] = *found;
  bool gathers = reshard.kind == fusion::ReshardKind::AllGather;
  int64_t split = gathers ? reshard.fromDim : reshard.toDim;
  SmallVector<fusion::StreamFactor> factors;
  for (int64_t dim = 0; dim < op.getType().getRank(); ++dim)
    for (int64_t count : {2, 4, 8})
      factors.push_back({dim, count, dim == split ? devices : 1});
  return factors;
}

SmallVector<fusion::ReshardOp> tandem::getNumberedReshards(const StreamLoop &loop) {
  return cast<fusion::StreamLoopOp>(loop.op).getReshards();
}

void tandem::addSliced(
    const StreamLoop &loop, fusion::ScheduleAttr schedule,
    function_ref<SmallVector<fusion::StreamFactor>(fusion::ReshardOp)> getFactors,
    SmallVectorImpl<Candidate> &candidates) {
  if (!loop.streamSizes.empty())
    return;
  for (auto [number, reshard] : llvm::enumerate(getNumberedReshards(loop)))
    for (const fusion::StreamFactor &factor : getFactors(reshard))
      candidates.push_back({schedule, std::pair(static_cast<unsigned>(number), factor)});
}
