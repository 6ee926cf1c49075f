//===- Candidate.h - a program in one way of launching ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BENCH_CANDIDATE_H
#define TANDEM_BENCH_CANDIDATE_H

#include "Options.h"
#include "Pool.h"
#include "RankContext.h"
#include "Results.h"
#include "Suite.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::bench {

/// What the oracles of a row have said, by role and set: they do not depend on the schedule. Rank
/// 0.
using References = std::map<std::pair<Role, uint32_t>, run::Reference>;

/// What a candidate is made with.
struct Setup {
  run::RankContext &context;
  Bootstrap &bootstrap;
  InputPool &pool;
  uint32_t sets;
  bool poisons; ///< results, before anything runs: somebody will look at them
};

/// Where a turn went.
struct Turn {
  int64_t enqueued = 0, done = 0; ///< ns of this host's clock
};

/// One rank's part of a program that is timed.
class Candidate {
public:
  Candidate(const Variant &variant, Mode mode) : variant(variant), mode(mode) {}

  // One after the other; between them ranks agree that all went well everywhere.
  /// Reads this rank's program.
  Status load(const Setup &setup);
  /// Collective. Finds memory for all arguments.
  Status allocate(const Setup &setup);
  /// Collective. A graph is captured with its addresses, so each set of inputs has an instance of
  /// its own.
  Status prepare(const Setup &setup);

  /// From now on runs read set `set`.
  Status use(uint32_t set);
  Status poison();
  /// Enqueues `batch` runs and waits for them.
  Expected<Turn> run(uint32_t batch);
  /// Collective. Compares the results of the last run, of set `set`, with the oracle's, for which
  /// the other ranks wait as long as it takes. The verdict ("": right) is the same on all ranks;
  /// `error` is rank 0's.
  Expected<std::string> verify(Bootstrap &bootstrap, uint64_t seed, uint32_t set,
                               References &references, double &error);

  const Variant &variant;
  const Mode mode;
  std::shared_ptr<const ProgramFile> file;

private:
  /// That the last run was a traced one.
  Status checkTimes(tandem_instance *instance) const;
  Status bind(run::PreparedProgram &instance, uint32_t set);
  /// On rank 0: the logical results with the oracle's, which is asked once a role and set.
  Status compare(const std::vector<run::Tensor> &whole, uint64_t seed, uint32_t set,
                 References &references, double &error) const;

  run::RankContext *context = nullptr;
  std::shared_ptr<const Program> program;
  std::vector<run::Placement> placements;
  std::vector<std::vector<run::BoundMemory *>> bindings;  ///< by set, by argument
  std::vector<std::unique_ptr<run::BoundMemory>> results; ///< by argument; null for inputs
  std::vector<std::unique_ptr<run::PreparedProgram>> instances;
  uint32_t rank = 0;
  uint32_t current = 0; ///< instance
  uint32_t bound = 0;   ///< set of the only instance
};

} // namespace tandem::bench

#endif // TANDEM_BENCH_CANDIDATE_H
