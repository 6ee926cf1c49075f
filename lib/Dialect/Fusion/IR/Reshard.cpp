//===- Reshard.cpp - classification of reshards -----------------*- C++ -*-===//
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
using namespace tandem;
using namespace tandem::fusion;

void fusion::appendSteps(SmallVectorImpl<ReshardStep> &steps, const Reshard &more) {
  if (more.kind == ReshardKind::Sequence)
    llvm::append_range(steps, more.steps);
  else
    steps.push_back(more);
}

Reshard fusion::makeReshard(SmallVector<ReshardStep> steps) {
  Reshard result;
  if (steps.size() == 1) {
    static_cast<ReshardStep &>(result) = steps.front();
    return result;
  }
  result.kind = ReshardKind::Sequence;
  result.to = steps.back().to;
  for (const ReshardStep &step : steps)
    for (StringAttr axis : step.axes)
      if (!llvm::is_contained(result.axes, axis))
        result.axes.push_back(axis);
  result.steps = std::move(steps);
  return result;
}

std::string fusion::describeReshard(const ReshardStep &step) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << stringifyReshardKind(step.kind);
  if (isReduction(step.kind) && step.reduceKind != ReduceKind::Sum)
    os << " by " << stringifyReduceKind(step.reduceKind);
  if (!step.axes.empty()) {
    os << " over ";
    llvm::interleaveComma(step.axes, os, [&](StringAttr axis) { os << axis.getValue(); });
  }
  if (step.fromDim >= 0)
    os << " from dimension " << step.fromDim;
  if (step.toDim >= 0)
    os << " onto dimension " << step.toDim;
  if (step.root >= 0)
    os << (step.kind == ReshardKind::Gather || step.kind == ReshardKind::Reduce ? " to " : " from ")
       << "device " << step.root;
  return text;
}

Reshard fusion::unsupportedReshard(std::string reason) {
  Reshard result;
  result.kind = ReshardKind::Unsupported;
  result.reason = std::move(reason);
  return result;
}

namespace {
/// The position of a mesh axis in a type. Each axis restricts a device's elements independently
/// (its coordinate is index / stride % size), so a reshard is one change per axis.
struct AxisState {
  enum Kind { Replicated, Split, Partial } kind = Replicated;
  int64_t dim = -1;
  int64_t stride = 0;
  bool operator==(const AxisState &o) const {
    return kind == o.kind && dim == o.dim && stride == o.stride;
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
            AxisState::Split, static_cast<int64_t>(dim), digit.stride};
  for (StringAttr axis : axes.getPartial())
    if (axes.getMesh().axisSize(axis.getValue()) > 1)
      states[axes.getMesh().axisIndex(axis.getValue())] = {AxisState::Partial, -1, 0};
  return states;
}

static ReshardKind classifyChange(const AxisState &from, const AxisState &to) {
  using K = ReshardKind;
  static constexpr K kTo[][3] = {// Replicated, Split, Partial
                                 {K::Unsupported, K::Slice, K::Unsupported},
                                 {K::AllGather, K::AllToAll, K::Unsupported},
                                 {K::AllReduce, K::ReduceScatter, K::Unsupported}};
  return kTo[from.kind][to.kind];
}

/// Axes with the mesh axes at `states`; null if the digits would overlap.
static AxesAttr buildAxes(RankedTensorType type, MeshAttr mesh, ArrayRef<AxisState> states,
                          ReduceKind partialKind) {
  MLIRContext *context = type.getContext();
  SmallVector<SmallVector<std::pair<int64_t, StringAttr>>> split(type.getRank());
  SmallVector<StringAttr> partial;
  for (auto [axis, state] : llvm::zip_equal(mesh.getAxes(), states)) {
    if (state.kind == AxisState::Split)
      split[state.dim].push_back({state.stride, axis.name});
    else if (state.kind == AxisState::Partial)
      partial.push_back(axis.name);
  }
  SmallVector<DimAxesAttr> dims;
  for (auto [list, extent] : llvm::zip_equal(split, type.getShape())) {
    llvm::sort(list, [](const auto &a, const auto &b) { return a.first > b.first; });
    SmallVector<Digit> digits;
    int64_t open = extent; // stride of the last digit placed
    for (auto [stride, axis] : list) {
      int64_t span = stride * mesh.axisSize(axis.getValue());
      if (span == 0 || open % span != 0)
        return {};
      if (open != span)
        digits.push_back(Digit::serial(open / span));
      digits.push_back(Digit::device(axis));
      open = stride;
    }
    dims.push_back(DimAxesAttr::get(context, digits));
  }
  return AxesAttr::get(context, mesh, dims, partial,
                       partial.empty() ? ReduceKind::Sum : partialKind);
}

/// Whether one collective over the product of the axes can do both changes: same kind, same
/// dimensions.
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

namespace {
/// Changes as steps in a row.
struct Sequence {
  SmallVector<ReshardStep> steps;
  SmallVector<Change> rest; ///< changes whose digits would overlap
  AxesAttr at;              ///< the axes after the steps
};
} // namespace

/// Writes the changes as steps in the order `order`.
static Sequence makeSequence(RankedTensorType from, ArrayRef<Change> changes,
                             ArrayRef<ReshardKind> order) {
  AxesAttr axes = getAxes(from);
  MeshAttr mesh = axes.getMesh();
  SmallVector<AxisState> states = *getStates(from);
  Sequence sequence{{}, SmallVector<Change>(changes), axes};
  // The first change of a kind that fits, and those that can be merged with it.
  auto step = [&](ReshardKind kind) {
    ReshardStep made;
    std::optional<Change> first;
    int64_t runLow = 0, runHigh = 0;
    llvm::erase_if(sequence.rest, [&](const Change &change) {
      if (first ? !canMerge(*first, change) : change.kind != kind)
        return false;
      // Partial sums are scattered in one step onto one run of digits.
      int64_t low = change.to.stride, high = low * mesh.axisSize(change.axis.getValue());
      if (first && kind == ReshardKind::ReduceScatter && low != runHigh && high != runLow)
        return false;
      SmallVector<AxisState> trial = states;
      trial[mesh.axisIndex(change.axis.getValue())] = change.to;
      AxesAttr trialAxes = buildAxes(from, mesh, trial, axes.getPartialKind());
      if (!trialAxes)
        return false;
      runLow = first ? std::min(runLow, low) : low;
      runHigh = first ? std::max(runHigh, high) : high;
      if (!first)
        first = change;
      states = std::move(trial);
      fill(made, change, axes.getPartialKind());
      made.to = sequence.at = trialAxes;
      return true;
    });
    if (first)
      sequence.steps.push_back(std::move(made));
    return first.has_value();
  };
  while (llvm::any_of(order, step)) {
  }
  return sequence;
}

/// Writes the changes as rows: those that shrink data first, gathers last. If digits would overlap:
/// the reductions, then one transfer.
static SmallVector<ReshardStep> writeOut(RankedTensorType from, RankedTensorType to,
                                         ArrayRef<Change> changes) {
  Sequence all =
      makeSequence(from, changes,
                   {ReshardKind::Slice, ReshardKind::ReduceScatter, ReshardKind::AllReduce,
                    ReshardKind::AllToAll, ReshardKind::AllGather});
  if (all.rest.empty()) {
    all.steps.back().to = getAxes(to);
    return all.steps;
  }
  // Reduce before the move if no later row reduces.
  Sequence reduced =
      makeSequence(from, changes, {ReshardKind::ReduceScatter, ReshardKind::AllReduce});
  llvm::erase_if(reduced.rest,
                 [](const Change &change) { return change.kind != ReshardKind::ReduceScatter; });
  for (Change &change : reduced.rest) {
    change.to = {};
    change.kind = ReshardKind::AllReduce;
  }
  SmallVector<ReshardStep> steps = std::move(reduced.steps);
  RankedTensorType at = withAxes(from, reduced.at);
  if (!reduced.rest.empty()) {
    Sequence more = makeSequence(at, reduced.rest, {ReshardKind::AllReduce});
    llvm::append_range(steps, more.steps);
    at = withAxes(from, more.at);
  }
  if (steps.empty()) {
    ReshardStep transfer;
    transfer.kind = ReshardKind::Transfer;
    for (const Change &change : changes)
      transfer.axes.push_back(change.axis);
    transfer.to = getAxes(to);
    return {transfer};
  }
  appendSteps(steps, classifyReshard(at, to));
  return steps;
}

Reshard fusion::classifyReshard(RankedTensorType from, RankedTensorType to) {
  AxesAttr a = getAxes(from), b = getAxes(to);
  if (!a || !b)
    return unsupportedReshard("expected decided axes on both sides, found none");
  if (from.getShape() != to.getShape())
    return unsupportedReshard("expected equal shapes on both sides, found different ones");
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
  // Whole shards move in one step.
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
  return makeReshard(writeOut(from, to, changes));
}
