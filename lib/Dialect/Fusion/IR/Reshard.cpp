//===- Reshard.cpp - what a reshard is -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Fusion/IR/Reshard.h"

#include "ReshardDetail.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::fusion;

StringRef fusion::stringifyReshardKind(ReshardKind kind) {
  switch (kind) {
  case ReshardKind::Nothing:
    return "nothing";
  case ReshardKind::Slice:
    return "slice";
  case ReshardKind::AllGather:
    return "all-gather";
  case ReshardKind::AllReduce:
    return "all-reduce";
  case ReshardKind::ReduceScatter:
    return "reduce-scatter";
  case ReshardKind::AllToAll:
    return "all-to-all";
  case ReshardKind::Permute:
    return "permute";
  case ReshardKind::SendRecv:
    return "send/recv";
  case ReshardKind::Broadcast:
    return "broadcast";
  case ReshardKind::Scatter:
    return "scatter";
  case ReshardKind::Gather:
    return "gather";
  case ReshardKind::Reduce:
    return "reduce";
  case ReshardKind::Sequence:
    return "sequence";
  case ReshardKind::Unsupported:
    return "unsupported";
  }
  return "unsupported";
}

Reshard fusion::unsupportedReshard(std::string reason) {
  Reshard result;
  result.kind = ReshardKind::Unsupported;
  result.reason = std::move(reason);
  return result;
}

namespace {
/// Where a mesh axis stands in a type. Each axis restricts what a device holds on its own (its
/// coordinate is index / weight % size), so a reshard falls apart into one change per axis.
struct AxisState {
  enum Kind { Replicated, Split, Partial } kind = Replicated;
  int64_t dim = -1;
  int64_t weight = 0;
  bool operator==(const AxisState &o) const {
    return kind == o.kind && dim == o.dim && weight == o.weight;
  }
  bool operator!=(const AxisState &o) const { return !(*this == o); }
};

struct Change {
  StringAttr axis;
  AxisState from, to;
  ReshardKind kind;
};
} // namespace

static FailureOr<SmallVector<AxisState>> getStates(RankedTensorType type) {
  AxesAttr axes = getAxes(type);
  FailureOr<SmallVector<SmallVector<ResolvedDigit>>> dims = resolveDims(type);
  if (failed(dims) || !axes.getMesh().isStatic())
    return failure();
  SmallVector<AxisState> states(axes.getMesh().getAxes().size());
  for (auto [dim, digits] : llvm::enumerate(*dims))
    for (const ResolvedDigit &digit : digits)
      if (digit.kind == DigitKind::Device && digit.size > 1)
        states[axes.getMesh().axisIndex(digit.axis.getValue())] = {
            AxisState::Split, static_cast<int64_t>(dim), digit.weight};
  for (StringAttr axis : axes.getPartial())
    if (axes.getMesh().axisSize(axis.getValue()) > 1)
      states[axes.getMesh().axisIndex(axis.getValue())] = {AxisState::Partial, -1, 0};
  return states;
}

static ReshardKind classifyChange(const AxisState &from, const AxisState &to) {
  switch (from.kind) {
  case AxisState::Replicated:
    return to.kind == AxisState::Split ? ReshardKind::Slice : ReshardKind::Unsupported;
  case AxisState::Split:
    return to.kind == AxisState::Replicated ? ReshardKind::AllGather
           : to.kind == AxisState::Split    ? ReshardKind::AllToAll
                                            : ReshardKind::Unsupported;
  case AxisState::Partial:
    return to.kind == AxisState::Replicated ? ReshardKind::AllReduce
           : to.kind == AxisState::Split    ? ReshardKind::ReduceScatter
                                            : ReshardKind::Unsupported;
  }
  return ReshardKind::Unsupported;
}

/// Axes in which every mesh axis stands as `states` says; null if the digits would overlap.
static AxesAttr buildAxes(RankedTensorType type, MeshAttr mesh, ArrayRef<AxisState> states,
                          ReduceKind partialKind) {
  MLIRContext *context = type.getContext();
  SmallVector<SmallVector<std::pair<int64_t, StringAttr>>> split(type.getRank());
  SmallVector<StringAttr> partial;
  for (auto [axis, state] : llvm::zip_equal(mesh.getAxes(), states)) {
    if (state.kind == AxisState::Split)
      split[state.dim].push_back({state.weight, axis.name});
    else if (state.kind == AxisState::Partial)
      partial.push_back(axis.name);
  }
  SmallVector<DimAxesAttr> dims;
  for (auto [list, extent] : llvm::zip_equal(split, type.getShape())) {
    llvm::sort(list, [](const auto &a, const auto &b) { return a.first > b.first; });
    SmallVector<Digit> digits;
    int64_t open = extent; // weight of the last digit placed
    for (auto [weight, axis] : list) {
      int64_t span = weight * mesh.axisSize(axis.getValue());
      if (span == 0 || open % span != 0)
        return {};
      if (open != span)
        digits.push_back(Digit::serial(open / span));
      digits.push_back(Digit::device(axis));
      open = weight;
    }
    dims.push_back(DimAxesAttr::get(context, digits));
  }
  return AxesAttr::get(context, mesh, dims, partial,
                       partial.empty() ? ReduceKind::Sum : partialKind);
}

/// Changes that one collective over the product of their axes does: same kind, same dimensions.
static bool canMerge(const Change &a, const Change &b) {
  if (a.kind != b.kind || a.from.dim != b.from.dim || a.to.dim != b.to.dim)
    return false;
  return a.kind == ReshardKind::Slice || a.kind == ReshardKind::AllGather ||
         a.kind == ReshardKind::AllReduce || a.kind == ReshardKind::ReduceScatter;
}

static void fill(ReshardStep &step, const Change &change, ReduceKind reduceKind) {
  step.kind = change.kind;
  step.axes.push_back(change.axis);
  step.fromDim = change.from.dim;
  step.toDim = change.to.dim;
  step.reduceKind = reduceKind;
}

/// Writes the changes out one after another: what shrinks data first, gathers last.
static FailureOr<SmallVector<ReshardStep>> makeSequence(RankedTensorType from, RankedTensorType to,
                                                        SmallVector<Change> changes) {
  static constexpr ReshardKind order[] = {ReshardKind::Slice, ReshardKind::ReduceScatter,
                                          ReshardKind::AllReduce, ReshardKind::AllToAll,
                                          ReshardKind::AllGather};
  AxesAttr axes = getAxes(from);
  MeshAttr mesh = axes.getMesh();
  SmallVector<AxisState> states = *getStates(from);
  SmallVector<ReshardStep> steps;
  while (!changes.empty()) {
    bool progress = false;
    for (ReshardKind kind : order) {
      for (size_t i = 0; i < changes.size() && !progress; ++i) {
        if (changes[i].kind != kind)
          continue;
        // Take along what can be merged, as long as the digits do not overlap.
        SmallVector<AxisState> next = states;
        ReshardStep step;
        SmallVector<size_t> taken;
        for (size_t j = i; j < changes.size(); ++j) {
          if (j != i && !canMerge(changes[i], changes[j]))
            continue;
          SmallVector<AxisState> trial = next;
          trial[mesh.axisIndex(changes[j].axis.getValue())] = changes[j].to;
          AxesAttr trialAxes = buildAxes(from, mesh, trial, axes.getPartialKind());
          if (!trialAxes)
            continue;
          next = std::move(trial);
          fill(step, changes[j], axes.getPartialKind());
          step.to = trialAxes;
          taken.push_back(j);
        }
        if (taken.empty())
          continue;
        for (size_t j : llvm::reverse(taken))
          changes.erase(changes.begin() + j);
        states = std::move(next);
        steps.push_back(std::move(step));
        progress = true;
      }
      if (progress)
        break;
    }
    if (!progress)
      return failure();
  }
  steps.back().to = getAxes(to);
  return steps;
}

Reshard fusion::classifyReshard(RankedTensorType from, RankedTensorType to) {
  AxesAttr a = getAxes(from), b = getAxes(to);
  if (!a || !b)
    return unsupportedReshard("expected decided axes on both sides, found none");
  if (from.getShape() != to.getShape())
    return unsupportedReshard("expected one shape on both sides, found two");
  FailureOr<SmallVector<AxisState>> fromStates = getStates(from), toStates = getStates(to);
  if (failed(fromStates) || failed(toStates))
    return unsupportedReshard("expected known extents and mesh sizes, found '?' (run "
                              "fusion-specialize first)");
  if (a.getMesh() != b.getMesh())
    return classifyAcrossMeshes(from, to);

  Reshard result;
  result.to = b;
  SmallVector<Change> changes;
  for (auto [axis, x, y] : llvm::zip_equal(a.getMesh().getAxes(), *fromStates, *toStates)) {
    if (x == y)
      continue;
    ReshardKind kind = classifyChange(x, y);
    if (kind == ReshardKind::Unsupported)
      return unsupportedReshard("expected mesh axis " + ("\"" + axis.name.getValue() + "\"").str() +
                                " to be replicated, split or partial as before, found it partial "
                                "only afterwards");
    changes.push_back({axis.name, x, y, kind});
  }
  if (changes.empty())
    return result;
  if (changes.size() == 1) {
    fill(result, changes.front(), a.getPartialKind());
    return result;
  }
  // Pieces that move whole need one step, whatever the axes say.
  if (!a.isPartial()) {
    bool slices =
        llvm::all_of(changes, [](const Change &c) { return c.kind == ReshardKind::Slice; });
    FailureOr<SmallVector<int64_t>> sources = failure();
    if (!slices)
      sources = findPieceSources(from, to);
    if (succeeded(sources)) {
      result.kind = ReshardKind::Permute;
      for (const Change &change : changes)
        result.axes.push_back(change.axis);
      result.sources = std::move(*sources);
      return result;
    }
  }
  FailureOr<SmallVector<ReshardStep>> steps = makeSequence(from, to, changes);
  if (failed(steps)) {
    std::string axes;
    for (const Change &change : changes)
      axes += (axes.empty() ? "\"" : ", \"") + change.axis.str() + "\"";
    return unsupportedReshard("expected changes of the mesh axes " + axes +
                              " that can be made one after another or move whole pieces, found "
                              "digits that overlap on the way");
  }
  if (steps->size() == 1) {
    static_cast<ReshardStep &>(result) = steps->front();
    return result;
  }
  result.kind = ReshardKind::Sequence;
  result.steps = std::move(*steps);
  for (const Change &change : changes)
    result.axes.push_back(change.axis);
  return result;
}

bool fusion::slicesHaveOneOwner(RankedTensorType from, RankedTensorType to) {
  AxesAttr a = getAxes(from), b = getAxes(to);
  if (!a || !b || a.getMesh() != b.getMesh() || a.isPartial() || from.getShape() != to.getShape())
    return false;
  FailureOr<SmallVector<AxisState>> fromStates = getStates(from), toStates = getStates(to);
  FailureOr<SmallVector<SmallVector<ResolvedDigit>>> dims = resolveDims(to);
  if (failed(fromStates) || failed(toStates) || failed(dims))
    return false;
  for (auto [axis, x, y] : llvm::zip_equal(a.getMesh().getAxes(), *fromStates, *toStates)) {
    if (x.kind != AxisState::Split || x == y)
      continue;
    // The owner's coordinate is index / weight % size. A run of neighbouring stream digits with
    // weights from `low` to `high` fixes it if it begins at or inside `weight` and ends at or
    // outside weight * size.
    bool fixed = false;
    int64_t low = 0, high = 0;
    for (const ResolvedDigit &digit : llvm::reverse((*dims)[x.dim])) {
      if (digit.kind != DigitKind::Stream || digit.weight == 0 || digit.size == 0)
        continue;
      if (high != digit.weight)
        low = digit.weight;
      high = digit.weight * digit.size;
      fixed = fixed || (x.weight % low == 0 && high % (x.weight * axis.size) == 0);
    }
    if (!fixed)
      return false;
  }
  return true;
}
