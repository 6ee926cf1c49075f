//===- Session.h - one rank's runs ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_SESSION_H
#define TANDEM_RUN_SESSION_H

#include "RankContext.h"
#include "Report.h"
#include "tandem-c/Runtime.h"
#include "tandem/Runtime/Bootstrap.h"

#include <functional>
#include <memory>
#include <vector>

namespace tandem::run {

/// One rank's part in a job, for all of its programs. The runtime is used through its C API, as an
/// embedder would; files are read in C++, because only tools look at shards and references.
struct RankJob {
  const Options &options;
  Bootstrap &bootstrap;
  /// Ranks as threads; null: processes.
  tandem_local_world *localWorld = nullptr;
  /// The first program that can be loaded makes it, and all that follow use it.
  std::unique_ptr<RankContext> context = nullptr;
  /// Whether this rank has met rank 0 on the loopback, which no other host can reach.
  bool onLoopback = false;
};

/// Makes inputs, runs, gathers and compares, and gives back all memory but the context's.
/// Collective. `bytes`: of the .tsp; `program`: its file, to be named. Fills `report` on rank 0.
/// What fails this program alone is Report::failure on all ranks: one of them cannot take it, and
/// nothing has run; or a result does not agree with the reference. An error: the ranks cannot go on
/// together. It is this rank's; the others end with one of their own.
Status runRank(RankJob &job, const std::string &program, std::string_view bytes, Report &report);

/// The program's ranks are those that were launched.
Status checkRanks(const ProgramFile &file, uint32_t launched);

/// A .tsp, or why there is none: a word that all ranks have alike.
struct ProgramBytes {
  std::string bytes, problem;
};

/// The bytes of program `index`. Collective where ranks must exchange something for that; an error:
/// they cannot.
using ProgramSource = std::function<Expected<ProgramBytes>(size_t index)>;

/// Runs all programs of the options on this rank, as long as the ranks can go on together, and
/// returns the exit code. Collective. Rank 0 says how each has ended as soon as it has, then (of
/// several) the total, and writes the reports; `note` hears of each. Others say only what rank 0
/// does not know.
int runSeries(RankJob &job, const ProgramSource &source,
              const std::function<void(const Tally &)> &note = {});

/// Whether the files and folders that rank 0 will write can be made. Changes nothing.
Status checkOutputs(const Options &options);

/// Ends with 1; says why.
int failed(const std::string &message);

} // namespace tandem::run

#endif // TANDEM_RUN_SESSION_H
