//===- Runner.h - rows by turns, on one rank --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BENCH_RUNNER_H
#define TANDEM_BENCH_RUNNER_H

#include "Options.h"
#include "RankContext.h"
#include "Results.h"
#include "Suite.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tandem::bench {

/// What came of one program in one mode. Times are of rank 0's report only.
struct Measurement {
  Role role = Role::Fused;
  std::string name;
  Mode mode = Mode::Direct;
  std::string refused; ///< why it was not run; empty if it was
  /// A round each: from the common start to the last rank's end, and until the last rank had
  /// enqueued it. Seconds, of one run.
  std::vector<double> seconds, host;
  bool verified = false;
  double error = 0;    ///< ||out - ref|| / ||ref||
  std::string failure; ///< what was wrong with the result
  /// The file itself, for predictions. Null where refused.
  std::shared_ptr<const ProgramFile> file;
  bool noKernels = false; ///< refused because a rank's device has no kernels for it
};

/// Whose turn it is, and which set of inputs it reads.
struct Slot {
  size_t candidate;
  uint32_t set;
};
/// The turns of a round of `count` candidates. Each has one turn; neighbours read different sets
/// (of two sets also where a round ends and the next one begins), and a candidate reads one set
/// after the other. The order is another one in each round, so that what a program leaves behind
/// (caches, clocks) does not always meet the same one.
std::vector<Slot> slotsOf(uint32_t round, size_t count, uint32_t sets);

class Candidate;

/// What the oracles of a row have said, by role and set: they do not depend on the schedule. Rank
/// 0.
using References = std::map<std::pair<Role, uint32_t>, run::Reference>;

/// One rank's contexts, and how it times a row with the others. All calls are collective.
class Runner {
public:
  Runner(const Options &options, Bootstrap &bootstrap, tandem_local_world *world)
      : options(options), bootstrap(bootstrap), world(world) {}

  /// Ranks that share this host's cores.
  uint32_t hostRanks() const { return world ? bootstrap.worldSize() : bootstrap.localSize(); }
  Status start();
  /// Device and libraries; after start().
  std::string description() const { return tandem_context_description(contexts[0]->handle()); }
  /// What cannot be prepared on some rank is a measurement that says why. An error: the ranks can
  /// no longer run together.
  Expected<std::vector<Measurement>> run(const Row &row);

private:
  /// The message of the first rank that has one; "" if all went well.
  Expected<std::string> agree(const Status &mine);
  run::RankContext &contextOf(Mode mode);
  Status checkHealth();
  bool isVerified(const Row &row) const;
  /// All ranks' common start, or nothing: time is up.
  Expected<int64_t> barrier(bool stop, bool &stopped);
  bool hasExchangeKernels();
  /// Collective. Whether all ranks say so.
  Expected<bool> allHave(bool mine);
  Status time(std::vector<Candidate *> &candidates, std::vector<Measurement *> &measurements);
  Status examine(std::vector<Candidate *> &candidates, std::vector<Measurement *> &measurements,
                 References &references);

  const Options &options;
  Bootstrap &bootstrap;
  tandem_local_world *world;
  std::vector<std::unique_ptr<run::RankContext>> contexts; ///< by options.modes
  int64_t offset = 0;                                      ///< of this rank's clock
  bool gatedKernels = false, exchangeKernels = false;      ///< every rank's device has them
  bool spins = false; ///< every rank of the host has a core to itself
};

} // namespace tandem::bench

#endif // TANDEM_BENCH_RUNNER_H
