//===- DataCompare.cpp - results that are not the oracle's ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Data.h"
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

  /// `exact`: with the oracle's values. Else only copies with each other.
  void compare(uint32_t argument, bool exact) {
    a = argument;
    diagnosis = exact ? Diagnosis::WrongResult : Diagnosis::CopiesDiffer;
    const Argument &info = world.arguments[a];
    size = sizeOf(info.dtype);
    count = 1;
    for (int64_t extent : info.shape)
      count *= static_cast<uint64_t>(extent);
    if (!exact)
      return compareHolders("rounded otherwise than on another rank");
    Layout whole = Layout::dense(info.dtype, {static_cast<int64_t>(count)});
    oracle.memory(0, Space::Argument, a).read(0, whole, expected);
    known.clear();
    if (info.partial) {
      compareHolders("not those of another rank that holds the term");
      return comparePartial();
    }
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      compareRank(
          r, [&](uint64_t element, Value value) { return expected[element] == value; },
          "not the oracle's");
  }

private:
  Value valueOf(uint32_t r, uint64_t local) const {
    return run.memory(r, Space::Argument, a).read(local * size, world.arguments[a].dtype);
  }

  template <typename F> void compareRank(uint32_t r, F &&isRight, const char *what) {
    uint64_t wrong = 0, total = 0, first = ~uint64_t(0), last = 0, place = 0;
    forEachElement(world.ranks[r].shards[a], [&](uint64_t local, uint64_t logical) {
      ++total;
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
      report(r, place, first,
             fmt::format("{} of its {} elements of result \"{}\" are {}, from {} to {}", wrong,
                         total, world.arguments[a].name, what, indexText(first), indexText(last)));
  }

  /// Copies (of a term) must be equal to that of the first rank that holds the element.
  void compareHolders(const char *what) {
    const Argument &info = world.arguments[a];
    terms.assign(info.terms, Values(count));
    held.assign(info.terms, std::vector<bool>(count));
    for (uint32_t r = 0; r < world.numRanks(); ++r) {
      const Shard &shard = world.ranks[r].shards[a];
      Values &term = terms[shard.term];
      std::vector<bool> &known = held[shard.term];
      forEachElement(shard, [&](uint64_t local, uint64_t logical) {
        if (!known[logical])
          term[logical] = valueOf(r, local);
        known[logical] = true;
      });
      compareRank(r, [&](uint64_t element, Value value) { return term[element] == value; }, what);
    }
  }

  /// The terms that `compareHolders` has found, combined.
  void comparePartial() {
    const Argument &info = world.arguments[a];
    Values all(count);
    std::vector<bool> any(count);
    for (uint32_t t = 0; t < info.terms; ++t)
      for (uint64_t e = 0; e < count; ++e)
        if (held[t][e]) {
          all[e] = any[e] ? combine(run.mode, info.dtype, info.partialOp, all[e], terms[t][e])
                          : terms[t][e];
          any[e] = true;
        }
    auto isRight = [&](uint64_t element, Value) { return all[element] == expected[element]; };
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      compareRank(r, isRight, "with the other terms not the oracle's");
  }

  void report(uint32_t r, uint64_t local, uint64_t logical, const std::string &message) {
    if (!findings.wants(diagnosis))
      return findings.count(diagnosis);
    Value value = valueOf(r, local);
    Trace trace = traceBack(world, run.executed(), {r, Space::Argument, a, local * size});
    Finding finding{diagnosis, fmt::format("rank {}: {}", r, message), trace.commands,
                    traceNotes(world, trace, indexText(logical))};
    if (std::string belongs = whoseValue(value); trace.end.empty() && !belongs.empty())
      finding.notes.push_back(fmt::format("that value belongs to {}", belongs));
    findings.add(std::move(finding));
  }

  /// The element of the result whose value it should be.
  std::string whoseValue(Value value) {
    if (diagnosis == Diagnosis::CopiesDiffer)
      return {};
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
  Diagnosis diagnosis = Diagnosis::WrongResult;
  uint32_t a = 0;
  uint64_t size = 4, count = 0;
  Values expected;                     ///< of the oracle
  std::map<Value, uint64_t> known;     ///< where in `expected`
  std::vector<Values> terms;           ///< per term: of the first rank that holds the element
  std::vector<std::vector<bool>> held; ///< ... if one does
};

} // namespace

void compareResults(const World &world, const DataRun &run, const DataRun &oracle,
                    Findings &findings) {
  Comparison comparison(world, run, oracle, findings);
  for (uint32_t a = 0; a < world.arguments.size(); ++a)
    if (world.arguments[a].isResult)
      comparison.compare(a, true);
}

void compareCopies(const World &world, const DataRun &run, Findings &findings) {
  Comparison comparison(world, run, run, findings);
  for (uint32_t a = 0; a < world.arguments.size(); ++a)
    if (world.arguments[a].isResult)
      comparison.compare(a, false);
}

} // namespace tandem::check
