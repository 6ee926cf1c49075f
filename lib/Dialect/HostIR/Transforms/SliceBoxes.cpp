//===- SliceBoxes.cpp - boxes within a slice of a buffer --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SliceBoxes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/HostIR/Evaluate/Integers.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

using MaybeNumber = std::optional<int64_t>;

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

namespace {
/// The range of a loop's index.
struct Counter {
  int64_t first, step, count;
};
} // namespace

static std::optional<Counter> getCounter(scf::ForOp loop) {
  MaybeNumber first = getConstantIntValue(loop.getLowerBound()),
              end = getConstantIntValue(loop.getUpperBound()),
              step = getConstantIntValue(loop.getStep());
  if (!first || !end || !step || *first < 0 || *step < 1)
    return std::nullopt;
  int64_t count = *end <= *first ? 0 : llvm::divideCeil(*end - *first, *step);
  return Counter{*first, *step, count};
}

static scf::ForOp getLoopOf(Value counter) {
  auto argument = dyn_cast<BlockArgument>(counter);
  auto loop = argument ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()) : scf::ForOp();
  return loop && argument == loop.getInductionVar() ? loop : scf::ForOp();
}

/// `depth`: most nested ops, so that chains of doublings end.
static MaybeNumber getGreatest(Value index, unsigned depth) {
  if (MaybeNumber constant = getConstantIntValue(index))
    return *constant >= 0 ? constant : MaybeNumber();
  if (scf::ForOp loop = getLoopOf(index)) {
    std::optional<Counter> counter = getCounter(loop);
    if (!counter)
      return std::nullopt;
    return counter->first + counter->step * std::max<int64_t>(counter->count - 1, 0);
  }
  Operation *op = index.getDefiningOp();
  if (!op || depth == 0)
    return std::nullopt;
  auto ofOperand = [&](unsigned i) { return getGreatest(op->getOperand(i), depth - 1); };
  auto divisor = [&]() -> MaybeNumber {
    MaybeNumber constant = getConstantIntValue(op->getOperand(1));
    return constant && *constant > 0 ? constant : MaybeNumber();
  };
  return llvm::TypeSwitch<Operation *, MaybeNumber>(op)
      .Case([](DeviceIndexOp device) -> MaybeNumber {
        int64_t size = device.getMesh().axisSize(device.getAxis());
        return size > 0 ? MaybeNumber(size - 1) : MaybeNumber();
      })
      .Case([&](arith::RemUIOp) -> MaybeNumber {
        MaybeNumber count = divisor();
        return count ? MaybeNumber(*count - 1) : MaybeNumber();
      })
      .Case([&](arith::DivUIOp) -> MaybeNumber {
        MaybeNumber count = divisor(), greatest = ofOperand(0);
        return count && greatest ? MaybeNumber(*greatest / *count) : MaybeNumber();
      })
      .Case<arith::AddIOp, arith::MulIOp>([&](Operation *) -> MaybeNumber {
        MaybeNumber a = ofOperand(0), b = ofOperand(1);
        int64_t result = 0;
        if (!a || !b ||
            (isa<arith::AddIOp>(op) ? llvm::AddOverflow(*a, *b, result)
                                    : llvm::MulOverflow(*a, *b, result)))
          return std::nullopt;
        return result;
      })
      .Default([](Operation *) { return MaybeNumber(); });
}

MaybeNumber hostir::getGreatest(Value index) { return ::getGreatest(index, /*depth=*/8); }

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

std::optional<LinearIndex> hostir::placeInSlice(const StridedBox &box, const LinearIndex &begin,
                                                ArrayRef<BoxDim> slice) {
  LinearIndex difference = box.offset;
  difference.add(begin, -1);
  // For each piece of the slice, the last used index.
  SmallVector<int64_t> last(slice.size(), 0);
  /// Takes `count` steps of `stride`; returns their stride in the dense buffer if they fit one
  /// piece.
  auto take = [&](int64_t stride, int64_t count) -> MaybeNumber {
    int64_t dense = 1;
    std::optional<size_t> found;
    int64_t result = 0;
    for (auto [i, piece] : llvm::enumerate(slice)) {
      if (stride > 0 && stride % piece.stride == 0 &&
          last[i] + stride / piece.stride * (count - 1) < piece.size) {
        found = i;
        result = dense * (stride / piece.stride);
      }
      dense *= piece.size;
    }
    if (!found)
      return std::nullopt;
    last[*found] += stride / slice[*found].stride * (count - 1);
    return result;
  };
  for (const BoxDim &dim : box.dims)
    if (dim.size != 1 && !take(dim.stride, dim.size))
      return std::nullopt;
  LinearIndex place;
  for (auto [value, coefficient] : difference.terms) {
    MaybeNumber greatest = getGreatest(value);
    if (!greatest)
      return std::nullopt;
    MaybeNumber dense = take(coefficient, *greatest + 1);
    if (!dense)
      return std::nullopt;
    place.terms[value] = *dense;
  }
  // Express the constant in steps of each piece, longest strides first.
  if (difference.constant < 0)
    return std::nullopt;
  int64_t rest = difference.constant, dense = 1;
  for (const BoxDim &piece : slice)
    dense *= piece.size;
  for (size_t i = slice.size(); i-- > 0;) {
    dense /= slice[i].size;
    int64_t steps = rest / slice[i].stride;
    if (last[i] + steps >= slice[i].size)
      return std::nullopt;
    rest %= slice[i].stride;
    place.constant += steps * dense;
  }
  return rest == 0 ? std::optional(std::move(place)) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Disjoint slices
//===----------------------------------------------------------------------===//

/// Whether each dimension's stride exceeds the reach of all shorter ones, so that the decomposition
/// of a number into steps is unique.
static bool areNested(SmallVector<BoxDim> dims) {
  llvm::sort(dims, [](const BoxDim &a, const BoxDim &b) { return a.stride < b.stride; });
  int64_t reach = 0;
  for (const BoxDim &dim : dims) {
    int64_t length = 0;
    if (dim.size == 1)
      continue;
    if (dim.stride <= reach || llvm::MulOverflow(dim.stride, dim.size - 1, length) ||
        llvm::AddOverflow(reach, length, reach))
      return false;
  }
  return true;
}

/// The value of an index in an iteration given by `counters`.
static MaybeNumber evaluateIndex(Value index, const llvm::DenseMap<Value, int64_t> &counters,
                                 unsigned depth) {
  if (MaybeNumber constant = getConstantIntValue(index))
    return constant;
  if (auto found = counters.find(index); found != counters.end())
    return found->second;
  Operation *op = index.getDefiningOp();
  if (!op || depth == 0)
    return std::nullopt;
  return evaluateOp(op, [&](Value operand) { return evaluateIndex(operand, counters, depth - 1); });
}

/// Whether the sum of the terms differs in each iteration of the loops.
static bool differsByIteration(ArrayRef<std::pair<Value, int64_t>> terms,
                               ArrayRef<scf::ForOp> loops) {
  constexpr int64_t kMaxIterations = 1 << 14;
  SmallVector<Counter> counters;
  int64_t iterations = 1;
  bool allCounters = true;
  SmallVector<Value> indices;
  for (scf::ForOp loop : loops) {
    indices.push_back(loop.getInductionVar());
    std::optional<Counter> counter = getCounter(loop);
    if (!counter || llvm::MulOverflow(iterations, counter->count, iterations))
      return false;
    allCounters &= counter->count <= 1 || llvm::any_of(terms, [&](const auto &term) {
                     return term.first == indices.back();
                   });
    counters.push_back(*counter);
  }
  if (allCounters)
    return true;
  if (iterations > kMaxIterations)
    return false;
  llvm::DenseSet<int64_t> seen;
  llvm::DenseMap<Value, int64_t> values;
  for (int64_t number = 0; number < iterations; ++number) {
    int64_t rest = number, sum = 0;
    for (auto [index, counter] : llvm::zip_equal(indices, counters)) {
      values[index] = counter.first + rest % counter.count * counter.step;
      rest /= counter.count;
    }
    for (auto [value, coefficient] : terms) {
      MaybeNumber index = evaluateIndex(value, values, /*depth=*/8);
      if (!index)
        return false;
      sum += *index * coefficient;
    }
    if (!seen.insert(sum).second)
      return false;
  }
  return true;
}

bool hostir::areSlicesDisjoint(const LinearIndex &begin, ArrayRef<BoxDim> slice, Block *block,
                               Block *outside) {
  SmallVector<scf::ForOp> loops; // innermost first
  for (Operation *op = block->getParentOp(); op && block != outside; op = block->getParentOp()) {
    if (auto loop = dyn_cast<scf::ForOp>(op))
      loops.push_back(loop);
    else if (!isa<scf::IfOp>(op))
      return false;
    block = op->getBlock();
  }
  if (loops.empty())
    return true;
  // Loop-invariant terms shift all slices alike.
  SmallVector<std::pair<Value, int64_t>> moving;
  SmallVector<BoxDim> dims(slice);
  for (auto [value, coefficient] : begin.terms) {
    if (!loops.back()->isAncestor(value.getParentBlock()->getParentOp()))
      continue;
    MaybeNumber greatest = getGreatest(value);
    if (!greatest || coefficient < 0)
      return false;
    moving.emplace_back(value, coefficient);
    dims.push_back({*greatest + 1, coefficient});
  }
  return areNested(std::move(dims)) && differsByIteration(moving, loops);
}
