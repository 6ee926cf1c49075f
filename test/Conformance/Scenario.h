//===- Scenario.h - a program, its data, and what must come out ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_CONFORMANCE_SCENARIO_H
#define TANDEM_TEST_CONFORMANCE_SCENARIO_H

#include "Support/ProgramSpec.h"

#include "tandem/Program/Status.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace tandem::test {

/// The contents of one argument on one rank, as the dtype's bytes.
using Bytes = std::string;

/// Values of any dtype as doubles, encoded by arithmetic that shares nothing with the runtime's
/// (round to nearest even).
Bytes encodeValues(DType type, const std::vector<double> &values);
std::vector<double> decodeValues(DType type, const Bytes &bytes);
/// `value` as the dtype can hold it.
double rounded(DType type, double value);

/// What a fresh result holds before a run.
inline constexpr char kPoison = '\x5a';

/// A group of all ranks.
inline std::vector<uint32_t> everybody(uint32_t ranks) {
  std::vector<uint32_t> group(ranks);
  for (uint32_t r = 0; r < ranks; ++r)
    group[r] = r;
  return group;
}

struct Scenario {
  explicit Scenario(uint32_t ranks) : spec(ranks) {}

  ProgramSpec spec;
  /// [set][rank][argument]: inputs are given, results are expected. Run i uses set i % data.size().
  std::vector<std::vector<std::vector<Bytes>>> data;
  unsigned runs = 2;
  /// Enqueue all runs before waiting (the inputs of set 0 only).
  bool pipelined = false;
  /// Two instances on two streams, in turns of `runs` runs each with other addresses (the inputs of
  /// set 0 only); each turn gives results twice.
  bool byTurns = false;
  /// 0: bit-exact. Else |out - expected| <= tolerance * max(1, |expected|).
  double tolerance = 0;
  /// Pairs of results that must hold the same bits.
  std::vector<std::pair<uint32_t, uint32_t>> equal;
  std::chrono::milliseconds timeout{20000};
  /// Per rank, so many timeouts; empty: one each.
  std::vector<unsigned> patience;

  /// Ranks that leave before the run (their process or thread ends), or stall in it for longer than
  /// the timeout.
  std::vector<uint32_t> leavers, stallers;
  /// Ranks that may, but need not notice the failure.
  std::vector<uint32_t> mayPass;
  /// Every other rank must fail, with a message that has all of these (and "rank <itself>").
  std::vector<std::string> failsWith;

  /// Room for the contents of one more argument, on all ranks of all sets.
  void resize(size_t sets);
  Bytes &at(size_t set, uint32_t rank, uint32_t argument) { return data[set][rank][argument]; }
};

struct RankResult {
  Status status;
  /// [run][argument], results only (inputs are empty).
  std::vector<std::vector<Bytes>> outputs;
};

/// A device and a channel, and how the ranks of a job come to life with them.
struct Backend {
  std::string name, device, channel;
  bool processes = false;
  uint32_t capabilities = 0;
  /// Not empty: it cannot run on this machine, and why.
  std::string unavailable;
  uint32_t lacks = 0;          ///< of Case::needs; the cases are then refused, as for capabilities
  uint32_t mostRanks = 0xffff; ///< cases with more are left out: a GPU for each
};

/// Receives may be posted in another order than their sends, in groups of their own.
inline constexpr uint32_t kTagsInAnyOrder = 1;
/// Kernels that have no native code.
inline constexpr uint32_t kExpressions = 2;
inline constexpr uint32_t kF64Matmul = 4;
/// Matmuls of deterministic programs.
inline constexpr uint32_t kOrderedMatmul = 8;
/// What follows products of 8-bit factors, inside them.
inline constexpr uint32_t kFp8Epilogues = 16;
std::vector<Backend> backends();

/// Runs the scenario on all ranks.
std::vector<RankResult> runScenario(const Backend &backend, const Scenario &scenario);

struct Case {
  std::string name;
  std::vector<uint32_t> ranks;
  uint32_t capabilities = 0; ///< that a channel must have
  std::function<Scenario(uint32_t ranks)> make;
  uint32_t needs = 0; ///< beyond what a capability says
};
using Cases = std::vector<Case>;

void addCopyCases(Cases &cases);
void addMatmulCases(Cases &cases);
void addEpilogueCases(Cases &cases);
void addReductionCases(Cases &cases);
void addLaunchCases(Cases &cases);
void addStreamCases(Cases &cases);
void addTwoSidedCases(Cases &cases);
void addOneSidedCases(Cases &cases);
void addCollectiveCases(Cases &cases);
void addFailureCases(Cases &cases);

/// Those that can be summed.
inline const std::vector<DType> kAllDTypes{DType::F32, DType::F16, DType::BF16, DType::I32,
                                           DType::F64, DType::I64, DType::I8};
inline const std::vector<DType> kStoredDTypes{DType::F32, DType::F16, DType::BF16, DType::I32,
                                              DType::F64, DType::I64, DType::I8,   DType::I1};
/// Those that are moved and converted.
inline const std::vector<DType> kMovedDTypes{DType::F32, DType::F16,      DType::BF16,
                                             DType::I32, DType::F64,      DType::I64,
                                             DType::I8,  DType::F8E4M3FN, DType::F8E5M2};

/// Small whole numbers (exact in every dtype, and so are sums of a few), different for each seed.
std::vector<double> numbers(int64_t count, uint64_t seed);

/// Calls f(index) for every index of `shape`, row-major.
template <typename F> void forEachIndex(const Shape &shape, F f) {
  if (product(shape) == 0)
    return;
  Shape index(shape.size(), 0);
  while (true) {
    f(static_cast<const Shape &>(index));
    size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1])
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

} // namespace tandem::test

#endif // TANDEM_TEST_CONFORMANCE_SCENARIO_H
