//===- DataCompare.cpp - results that are not the oracle's ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DataTrace.h"

#include <algorithm>
#include <map>

namespace tandem::check {

using namespace replay;

namespace {

class Comparison {
public:
  Comparison(const World &world, const DataRun &run, const DataRun &oracle, Findings &findings)
      : world(world), run(run), oracle(oracle), findings(findings) {}

  void compare(uint32_t argument) {
    a = argument;
    const Argument &info = world.arguments[a];
    size = sizeOf(info.dtype);
    count = 1;
    for (int64_t extent : info.shape)
      count *= static_cast<uint64_t>(extent);
    expected.clear();
    Layout whole = Layout::dense(info.dtype, {static_cast<int64_t>(count)});
    oracle.memory(0, Space::Argument, a).read(0, whole, expected);
    known.clear();
    if (info.partial)
      return comparePartial();
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      compareRank(r, [&](uint64_t element, Value value) { return expected[element] == value; });
  }

private:
  Value valueOf(uint32_t r, uint64_t local) const {
    return run.memory(r, Space::Argument, a).read(local * size, world.arguments[a].dtype);
  }

  template <typename F> void compareRank(uint32_t r, F &&isRight) {
    uint64_t wrong = 0, held = 0, first = ~uint64_t(0), last = 0, place = 0;
    forEachElement(world.ranks[r].shards[a], [&](uint64_t local, uint64_t logical) {
      ++held;
      if (isRight(logical, valueOf(r, local)))
        return;
      ++wrong;
      last = std::max(last, logical);
      if (logical < first) {
        first = logical;
        place = local;
      }
    });
    if (wrong)
      report(
          r, place, first,
          fmt::format("{} of its {} elements of result \"{}\" are not the oracle's, from {} to {}",
                      wrong, held, world.arguments[a].name, indexText(first), indexText(last)));
  }

  /// The terms, one after the other; copies of a term must be equal.
  void comparePartial() {
    const Argument &info = world.arguments[a];
    std::vector<uint32_t> holders(info.terms, kNone);
    std::vector<Values> terms(info.terms);
    std::vector<std::vector<bool>> held(info.terms, std::vector<bool>(count));
    for (uint32_t r = 0; r < world.numRanks(); ++r) {
      const Shard &shard = world.ranks[r].shards[a];
      terms[shard.term].resize(count);
      forEachElement(shard, [&](uint64_t local, uint64_t logical) {
        if (!held[shard.term][logical])
          terms[shard.term][logical] = valueOf(r, local);
        held[shard.term][logical] = true;
      });
      compareRank(
          r, [&](uint64_t element, Value value) { return terms[shard.term][element] == value; });
    }
    auto isRight = [&](uint64_t element, Value) {
      Value sum = 0;
      bool any = false;
      for (uint32_t t = 0; t < info.terms; ++t)
        if (!held[t].empty() && held[t][element]) {
          sum = any ? combine(info.partialOp, sum, terms[t][element]) : terms[t][element];
          any = true;
        }
      return sum == expected[element];
    };
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      compareRank(r, isRight);
  }

  void report(uint32_t r, uint64_t local, uint64_t logical, const std::string &message) {
    if (!findings.wants(Diagnosis::WrongResult))
      return findings.count(Diagnosis::WrongResult);
    Value value = valueOf(r, local);
    Trace trace = traceBack(world, run, {r, Space::Argument, a, local * size});
    Finding finding{
        Diagnosis::WrongResult, fmt::format("rank {}: {}", r, message), trace.commands, {}};
    std::string where = indexText(logical);
    for (CommandId command : trace.commands) {
      finding.notes.push_back(fmt::format("{} {} {}", where,
                                          finding.notes.empty() ? "was written by" : "from",
                                          world.describe(command)));
      where = std::string(where.size(), ' ');
    }
    if (!trace.end.empty())
      finding.notes.push_back("which has it from " + trace.end);
    else if (std::string belongs = whoseValue(value); !belongs.empty())
      finding.notes.push_back(fmt::format("that value belongs to {}", belongs));
    findings.add(std::move(finding));
  }

  /// The element of the result whose value it should be.
  std::string whoseValue(Value value) {
    if (known.empty())
      for (uint64_t e = 0; e < count; ++e)
        known.try_emplace(expected[e], e);
    auto at = known.find(value);
    return at == known.end() ? std::string() : indexText(at->second);
  }

  std::string indexText(uint64_t element) const {
    return elementText(world.arguments[a].shape, element);
  }

  const World &world;
  const DataRun &run, &oracle;
  Findings &findings;
  uint32_t a = 0;
  uint64_t size = 4, count = 0;
  Values expected;
  std::map<Value, uint64_t> known;
};

} // namespace

void compareResults(const World &world, const DataRun &run, const DataRun &oracle,
                    Findings &findings) {
  Comparison comparison(world, run, oracle, findings);
  for (uint32_t a = 0; a < world.arguments.size(); ++a)
    if (world.arguments[a].isResult)
      comparison.compare(a);
}

} // namespace tandem::check
