//===- DataSampleCheck.cpp - large programs, at some indices ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DataSample.h"
#include "DataTrace.h"

#include <algorithm>
#include <set>

namespace tandem::check {

using namespace replay;

namespace {

/// The most and the fewest indices of a dimension that are kept.
constexpr uint64_t kMost = 128, kFewest = 4;
/// The most of one extent, where the others have kFewest.
constexpr uint64_t kMostOfOne = 4096;
/// What a command costs at least.
constexpr double kCommandSteps = 500;

/// Where an element of a logical tensor is in a rank's piece of it.
std::optional<uint64_t> localOf(const Shard &shard, DType dtype, uint64_t logical) {
  Layout held;
  held.dtype = dtype;
  held.rank = static_cast<uint8_t>(shard.shape.size());
  std::copy(shard.shape.begin(), shard.shape.end(), held.shape.begin());
  std::copy(shard.strides.begin(), shard.strides.end(), held.strides.begin());
  auto offset = static_cast<uint64_t>(shard.offset);
  if (!shard.present || logical < offset || held.numElements() == 0)
    return std::nullopt;
  return elementOf(held, logical - offset);
}

class Comparison {
public:
  Comparison(const World &world, const SampleRun &run, const SampleRun &oracle, Findings &findings)
      : world(world), run(run), oracle(oracle), findings(findings) {}

  void compare(uint32_t argument) {
    a = argument;
    const Argument &info = world.arguments[a];
    int64_t count = 1;
    for (int64_t extent : info.shape)
      count *= extent;
    Sample expected = oracle.argument(0, a).read(0, Layout::dense(info.dtype, {count}));
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      compareRank(r, expected);
  }

private:
  const Value *valueOf(uint32_t r, uint64_t logical, uint64_t &address) const {
    const Argument &info = world.arguments[a];
    std::optional<uint64_t> local = localOf(world.ranks[r].shards[a], info.dtype, logical);
    if (!local)
      return nullptr;
    address = *local * sizeOf(info.dtype);
    const Value *value = run.argument(r, a).find(address);
    return value ? value : &missing;
  }

  /// The terms of all ranks, combined; of `r` if it is not partial.
  Value combined(uint32_t r, uint64_t logical, Value own) const {
    const Argument &info = world.arguments[a];
    if (!info.partial)
      return own;
    Value all = own;
    std::vector<bool> counted(info.terms);
    counted[world.ranks[r].shards[a].term] = true;
    for (uint32_t other = 0; other < world.numRanks(); ++other) {
      uint32_t term = world.ranks[other].shards[a].term;
      uint64_t address = 0;
      const Value *value = counted[term] ? nullptr : valueOf(other, logical, address);
      if (!value)
        continue;
      counted[term] = true;
      all = combine({}, info.dtype, info.partialOp, all, *value);
    }
    return all;
  }

  void compareRank(uint32_t r, const Sample &expected) {
    uint64_t held = 0, wrong = 0, first = 0, last = 0, place = 0, address = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      uint64_t logical = expected.index[i];
      const Value *value = valueOf(r, logical, address);
      if (!value)
        continue;
      ++held;
      if (combined(r, logical, *value) == expected.value[i])
        continue;
      if (wrong++ == 0) {
        first = logical;
        place = address;
      }
      last = logical;
    }
    if (wrong == 0)
      return;
    if (!findings.wants(Diagnosis::WrongResult))
      return findings.count(Diagnosis::WrongResult);
    const Argument &info = world.arguments[a];
    Trace trace = traceBack(world, run.order(), {r, Space::Argument, a, place});
    std::string where = elementText(info.shape, first);
    findings.add({Diagnosis::WrongResult,
                  fmt::format("rank {}: {} of its {} sampled elements of result \"{}\" are not the "
                              "oracle's, from {} to {}",
                              r, wrong, held, info.name, where, elementText(info.shape, last)),
                  trace.commands, traceNotes(world, trace, where)});
  }

  const World &world;
  const SampleRun &run, &oracle;
  Findings &findings;
  uint32_t a = 0;
  const Value missing = field::kPrime; ///< no value at all
};

} // namespace

namespace {

/// Tries one density after the other.
class Sampler {
public:
  Sampler(const World &world, double budget, Findings &findings)
      : world(world), left(budget), findings(findings),
        each(std::max(dataSteps(world) / std::max(dataSteps(*world.oracle), 1.0), 1.0)),
        seen(world.commands.size()) {}

  enum Outcome : uint8_t { TooLarge, Mismatch, Done };
  /// Done: `findings` has what is wrong. Mismatch: operands of the oracle are not kept alike.
  Outcome attempt(const Density &density) {
    SampleRun oracle(*world.oracle, {true, false, 0}, density, left / each);
    oracle.run();
    left -= oracle.steps();
    last = oracle.steps();
    if (oracle.unknowns())
      return Mismatch;
    if (oracle.failed())
      return TooLarge;
    SampleRun run(world, {}, density, left);
    run.run();
    left -= run.steps();
    last += run.steps();
    if (run.failed())
      return TooLarge;
    Comparison comparison(world, run, oracle, findings);
    for (uint32_t a = 0; a < world.arguments.size(); ++a)
      if (world.arguments[a].isResult)
        comparison.compare(a);
    for (size_t i = 0; i < seen.size(); ++i)
      seen[i] = std::max(seen[i], run.seen()[i]);
    return Done;
  }

  /// More and more indices of all dimensions; what came of the fewest, and how many it were.
  Outcome attemptAll(uint64_t &most) {
    most = kFewest;
    Outcome outcome = attempt({most});
    // Twice the indices are up to four times the elements.
    while (outcome == Done && isRight() && most < kMost && last * 8 < left) {
      if (attempt({most * 2}) != Done)
        break;
      most *= 2;
    }
    return outcome;
  }

  /// More and more indices of one dimension or extent, until all commands are seen.
  void attemptMany(Density density) {
    density.mostOfDense = 4 * kFewest;
    do {
      density.mostOfDense *= 4;
      if (count(SampleRun::Blind) == 0 || left <= 0 || attempt(density) != Done)
        return;
    } while (isRight() && last * 16 < left && density.mostOfDense < kMostOfOne);
  }

  uint64_t count(SampleRun::Seen what) const {
    return static_cast<uint64_t>(std::count(seen.begin(), seen.end(), what));
  }

  bool isRight() const {
    return findings.counts[static_cast<unsigned>(Diagnosis::WrongResult)] == 0;
  }

private:
  const World &world;
  double left;     ///< of the budget, over all attempts
  double last = 0; ///< what the last attempt took
  Findings &findings;
  const double each; ///< what the ranks take, in oracles
  std::vector<uint8_t> seen;
};

/// What few indices do not touch may be touched by many of one dimension (rows), or of one extent
/// (what is contracted is a dimension of two inputs).
void attemptDense(const World &world, Sampler &sampler) {
  std::set<uint64_t> extents;
  for (uint32_t a = 0; a < world.arguments.size(); ++a)
    for (uint32_t d = 0; d < world.arguments[a].shape.size() && sampler.isRight(); ++d) {
      auto extent = static_cast<uint64_t>(world.arguments[a].shape[d]);
      if (world.arguments[a].isResult || extent <= kFewest)
        continue;
      extents.insert(extent);
      sampler.attemptMany({kFewest, 0, 0, a, d});
    }
  for (uint64_t extent : extents)
    if (sampler.isRight())
      sampler.attemptMany({kFewest, extent, 0});
}

} // namespace

std::string checkSample(const World &world, const CheckOptions &options, double steps,
                        Findings &findings, bool &decided) {
  std::string large = fmt::format("not checked: {:.3g} steps", steps);
  auto budget = static_cast<double>(options.dataSteps);
  if (static_cast<double>(world.commands.size()) * kCommandSteps > budget)
    return large;
  for (const World *w : {&world, world.oracle.get()})
    for (const Rank &rank : w->ranks)
      for (const Shard &shard : rank.shards)
        if (shard.shape.size() > kMaxRank)
          return large + "; its indices cannot be sampled";
  Sampler sampler(world, budget / kElementSteps, findings);
  uint64_t most = 0;
  Sampler::Outcome outcome = sampler.attemptAll(most);
  if (outcome != Sampler::Done)
    return outcome == Sampler::TooLarge ? large : large + "; its indices cannot be sampled";
  attemptDense(world, sampler);
  uint64_t blind = sampler.count(SampleRun::Blind);
  decided = blind == 0;
  return fmt::format(
      "sampled at {} or more indices of each dimension{} (all indices: {:.3g} steps)", most,
      blind ? fmt::format(", which {} of {} commands that compute or move data do not touch", blind,
                          blind + sampler.count(SampleRun::Touched))
            : "",
      steps);
}

} // namespace tandem::check
