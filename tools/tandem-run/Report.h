//===- Report.h - what tandem-run says of a run -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_REPORT_H
#define TANDEM_RUN_REPORT_H

#include "Options.h"
#include "Results.h"

#include "tandem/Program/Commands.h"

#include <array>
#include <string>
#include <vector>

namespace tandem::run {

/// One rank's part. Plain data: ranks exchange it as bytes.
struct RankReport {
  uint64_t commands = 0;
  std::array<uint64_t, program::kNumCommandKinds> byKind{}; ///< by kind
  uint64_t bytesSent = 0;                                   ///< by send and put, of one run
  uint64_t bytesCollective = 0; ///< operands of collective commands, of one run
  double medianMs = 0;
};

/// Counts a rank's commands and bytes.
RankReport countCommands(const Program &program);

struct Report {
  std::string file; ///< as given
  std::string name; ///< of the function; empty if nobody could read it
  uint32_t ranks = 0;
  /// Per run, the slowest rank's.
  std::vector<double> milliseconds;
  std::vector<RankReport> perRank;
  std::vector<ResultReport> results;
  bool verified = false;
  bool proven = true; ///< by a complete certificate
  /// Why not; empty if nothing failed. On all ranks: that there is one, not which.
  std::string failure;
  /// What this rank itself has found; empty where rank 0 says it for all.
  std::string mine;

  double medianMs() const;
  double maxError() const;
};

/// Programs that have ended, in their order on the command line; the rest has not been run.
struct Tally {
  uint32_t passed = 0, failed = 0;
};

double medianOf(std::vector<double> values);

/// "verified <name>: ranks 4, max relative error 3.1e-04, median 12.3 ms", "ran ..." without
/// --verify, "FAILED <name>: ..." otherwise. Then ", not proven", if so.
std::string summaryLine(const Options &options, const Report &report);
/// The summary's line, after the program's file if there are several.
std::string reportLine(const Options &options, const Report &report);
/// "3 passed, 1 failed, 2 not run: a.tsp b.tsp".
std::string totalLine(const Options &options, const Tally &tally);

/// Keys: name, ranks, device, channel, seed, repeat, verified, proven, failure, max_relative_error,
/// median_ms, times_ms, results [{name, dtype, exact, error, tolerance}], commands (all ranks),
/// bytes_sent (all ranks, one run), bytes_collective, per_rank [{commands, by_kind {}, bytes_sent,
/// bytes_collective, median_ms}]. Of several programs: "programs", a list of these, each with its
/// file; passed, failed, not_run [file].
Status writeJson(const Options &options, const std::vector<Report> &reports, const Tally &tally);

} // namespace tandem::run

#endif // TANDEM_RUN_REPORT_H
