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

#include <array>
#include <string>
#include <vector>

namespace tandem::run {

inline constexpr size_t kCommandKinds = 16;

/// One rank's part. Plain data: ranks exchange it as bytes.
struct RankReport {
  uint64_t commands = 0;
  std::array<uint64_t, kCommandKinds> byKind{}; ///< by sp::CommandKind
  uint64_t bytesSent = 0;                       ///< by send and put, of one run
  uint64_t bytesCollective = 0;                 ///< operands of collective commands, of one run
  double medianMs = 0;
};

/// Counts a rank's commands and bytes.
RankReport countCommands(const Program &program);

struct Report {
  std::string name;
  uint32_t ranks = 0;
  /// Per run, the slowest rank's.
  std::vector<double> milliseconds;
  std::vector<RankReport> perRank;
  std::vector<ResultReport> results;
  bool verified = false;
  /// Why not; empty if nothing failed.
  std::string failure;

  double medianMs() const;
  double maxError() const;
};

double medianOf(std::vector<double> values);

/// "verified <name>: ranks 4, max relative error 3.1e-04, median 12.3 ms", "ran ..." without
/// --verify, "FAILED <name>: ..." otherwise.
std::string summaryLine(const Options &options, const Report &report);
/// "rank 2: 14 commands, 1.2 MB sent, median 12.1 ms".
std::string rankLine(const Report &report, uint32_t rank);

/// Keys: name, ranks, device, channel, seed, repeat, verified, failure, max_relative_error,
/// median_ms, times_ms, results [{name, dtype, exact, error, tolerance}], commands (all ranks),
/// bytes_sent (all ranks, one run), bytes_collective, per_rank [{commands, by_kind {}, bytes_sent,
/// bytes_collective, median_ms}].
Status writeJson(const Options &options, const Report &report);

} // namespace tandem::run

#endif // TANDEM_RUN_REPORT_H
