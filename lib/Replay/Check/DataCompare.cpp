//===- DataCompare.cpp - results that are not the reference's ---*- C++ -*-===//
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
  Comparison(const World &world, const DataRun &run, const DataRun &reference, Findings &findings)
      : world(world), run(run), reference(reference), findings(findings) {}

  /// `exact`: compares with the reference; else only replicas with each other.
  void compare(uint32_t argument, bool exact) {
    a = argument;
    diagnosis = exact ? Diagnosis::WrongResult : Diagnosis::CopiesDiffer;
    const Argument &info = world.arguments[a];
    expected = reference.argument(0, a).read(0, logical());
    known.clear();
    if (!exact)
      return compareHolders("are rounded differently from another rank's");
    if (info.partial) {
      compareHolders("differ from those of another rank that holds the same term");
      return comparePartial();
    }
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      compareRank(
          r, [&](size_t e, Value value) { return expected.value[e] == value; },
          "differ from the unsharded reference");
  }

  /// Compares with another program's run.
  void compareBits(uint32_t argument, const Comparison &other) {
    a = argument;
    diagnosis = Diagnosis::BitsDiffer;
    expected = reference.argument(0, a).read(0, logical());
    known.clear();
    for (uint32_t t = 0; t < world.arguments[a].terms; ++t) {
      Term theirs = other.termOf(a, t, expected);
      for (uint32_t r = 0; r < world.numRanks(); ++r)
        if (world.ranks[r].shards[a].term == t)
          compareRank(
              r, [&](size_t e, Value value) { return theirs[e] == value; },
              "have other last bits than those of the other program");
    }
  }

private:
  using Term = std::vector<std::optional<Value>>;

  Layout logical() const {
    int64_t count = 1;
    for (int64_t extent : world.arguments[a].shape)
      count *= extent;
    return Layout::dense(world.arguments[a].dtype, {count});
  }

  /// A term of a result (its value, if it is not partial), from the first rank that holds each
  /// element.
  Term termOf(uint32_t argument, uint32_t t, const Elements &elements) const {
    Comparison own(world, run, reference, findings);
    own.a = argument;
    own.expected = elements;
    Term term(elements.size());
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      if (world.ranks[r].shards[argument].term == t)
        own.forEachHeld(r, [&](size_t e, uint64_t, Value value) {
          if (!term[e])
            term[e] = value;
        });
    return term;
  }

  /// Calls f(e, local, value) for the elements e of `expected` that a rank holds.
  template <typename F> void forEachHeld(uint32_t r, F &&f) const {
    const Shard &shard = world.ranks[r].shards[a];
    DType dtype = world.arguments[a].dtype;
    const DataMemory &memory = run.argument(r, a);
    if (run.isComplete)
      return shard.forEach([&](uint64_t local, uint64_t logical) {
        f(static_cast<size_t>(logical), local, memory.at(local * sizeOf(dtype), dtype));
      });
    for (size_t e = 0; e < expected.size(); ++e)
      if (std::optional<uint64_t> local = localOf(shard, dtype, expected.index[e]))
        f(e, *local, memory.at(*local * sizeOf(dtype), dtype));
  }

  template <typename F> void compareRank(uint32_t r, F &&isRight, const char *what) {
    uint64_t wrong = 0, total = 0, place = 0;
    size_t first = 0, last = 0;
    Value found = 0;
    forEachHeld(r, [&](size_t e, uint64_t local, Value value) {
      ++total;
      if (isRight(e, value))
        return;
      if (wrong == 0 || e < first) {
        first = e;
        place = local;
        found = value;
      }
      last = wrong == 0 ? e : std::max(last, e);
      ++wrong;
    });
    if (wrong)
      report(r, place, first, found,
             fmt::format("{} of its {} {}elements of result \"{}\" {}, from {} to {}", wrong, total,
                         run.isComplete ? "" : "sampled ", world.arguments[a].name, what,
                         indexText(first), indexText(last)));
  }

  /// Replicas (of a term) must equal that of the first rank that holds the element.
  void compareHolders(const char *what) {
    terms.assign(world.arguments[a].terms, Term(expected.size()));
    for (uint32_t r = 0; r < world.numRanks(); ++r) {
      Term &term = terms[world.ranks[r].shards[a].term];
      forEachHeld(r, [&](size_t e, uint64_t, Value value) {
        if (!term[e])
          term[e] = value;
      });
      compareRank(r, [&](size_t e, Value value) { return term[e] == value; }, what);
    }
  }

  /// Combines the terms that compareHolders has collected.
  void comparePartial() {
    const Argument &info = world.arguments[a];
    std::vector<std::optional<Value>> all(expected.size());
    for (const Term &term : terms)
      for (size_t e = 0; e < term.size(); ++e)
        if (term[e])
          all[e] =
              all[e] ? combine(run.mode, info.dtype, info.partialOp, *all[e], *term[e]) : *term[e];
    auto isRight = [&](size_t e, Value) { return all[e] == expected.value[e]; };
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      compareRank(r, isRight, "combined with the other terms differ from the unsharded reference");
  }

  void report(uint32_t r, uint64_t local, size_t element, Value value, const std::string &message) {
    if (!findings.wants(diagnosis))
      return findings.count(diagnosis);
    Trace trace = traceBack(world, run.executed(),
                            {r, Space::Argument, a, local * sizeOf(world.arguments[a].dtype)});
    Finding finding{diagnosis, fmt::format("rank {}: {}", r, message), trace.commands,
                    traceNotes(world, trace, indexText(element))};
    if (std::string belongs = whoseValue(value); trace.end.empty() && !belongs.empty())
      finding.notes.push_back(fmt::format("that value belongs to {}", belongs));
    findings.add(std::move(finding));
  }

  /// The element of the result whose expected value this is.
  std::string whoseValue(Value value) {
    if (diagnosis != Diagnosis::WrongResult)
      return {};
    if (known.empty())
      for (size_t e = 0; e < expected.size(); ++e)
        known.try_emplace(expected.value[e], e);
    auto at = known.find(value);
    return at == known.end() ? std::string() : indexText(at->second);
  }

  std::string indexText(size_t element) const {
    return elementText(world.arguments[a].shape, expected.index[element]);
  }

  const World &world;
  const DataRun &run, &reference;
  Findings &findings;
  Diagnosis diagnosis = Diagnosis::WrongResult;
  uint32_t a = 0;
  Elements expected;             ///< from the reference
  std::map<Value, size_t> known; ///< index in `expected`
  /// Per term: from the first rank that holds the element.
  std::vector<Term> terms;
};

} // namespace

void compareResults(const World &world, const DataRun &run, const DataRun &reference,
                    Findings &findings) {
  Comparison comparison(world, run, reference, findings);
  for (uint32_t a = 0; a < world.arguments.size(); ++a)
    if (world.arguments[a].isResult)
      comparison.compare(a, true);
}

void compareCopies(const World &world, const DataRun &run, const DataRun &reference,
                   Findings &findings) {
  Comparison comparison(world, run, reference, findings);
  for (uint32_t a = 0; a < world.arguments.size(); ++a)
    if (world.arguments[a].isResult)
      comparison.compare(a, false);
}

void compareBits(const World &world, const DataRun &run, const World &otherWorld,
                 const DataRun &other, const DataRun &reference, Findings &findings) {
  Comparison ours(world, run, reference, findings), theirs(otherWorld, other, reference, findings);
  for (uint32_t a = 0; a < world.arguments.size(); ++a)
    if (world.arguments[a].isResult)
      ours.compareBits(a, theirs);
}

} // namespace tandem::check
