//===- Series.h - one rank's programs, one after the other ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_SERIES_H
#define TANDEM_RUN_SERIES_H

#include "Report.h"
#include "Session.h"

#include <functional>

namespace tandem::run {

/// A .tsp, or why there is none: a word that all ranks have alike.
struct ProgramBytes {
  std::string bytes, problem;
};

/// The bytes of program `index`. Collective where ranks must meet for that; an error: they cannot.
using ProgramSource = std::function<Expected<ProgramBytes>(size_t index)>;

/// Runs all programs of the options on this rank, as long as the ranks can go on together, and
/// returns the exit code. Collective. Rank 0 says how each has ended as soon as it has, then (of
/// several) the total, and writes the reports; `note` hears of each. Others say only what rank 0
/// does not know.
int runSeries(RankJob &job, const ProgramSource &source,
              const std::function<void(const Tally &)> &note = {});

/// Ends with 1; says why.
int failed(const std::string &message);

} // namespace tandem::run

#endif // TANDEM_RUN_SERIES_H
