//===- Report.h - what tandem-bench says ------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BENCH_REPORT_H
#define TANDEM_BENCH_REPORT_H

#include "Runner.h"

#include <optional>
#include <string>
#include <vector>

namespace tandem::bench {

struct Quantiles {
  double median = 0, p10 = 0, p90 = 0;
};
/// Of at least one value; between two values, on the line through them.
Quantiles quantilesOf(std::vector<double> values);

/// One line of the table.
struct Entry {
  Measurement measurement;
  std::optional<Quantiles> seconds; ///< none where refused
  double host = 0;                  ///< median
  /// The sequence's median over this one's, in the same mode; over 1 is faster.
  std::optional<double> toSequence;
  /// This median over the limit's.
  std::optional<double> toLimit;
  std::optional<double> predicted; ///< s
  std::string unpredicted;         ///< why there is no prediction, where one was asked for
  /// Of `auto`: another program of the row whose commands are the same; "" if there is none.
  std::string sameAs;

  std::optional<double> predictionError() const; ///< signed, of the median
};

struct RowReport {
  Case shape;
  double bytes = 0; ///< that a rank must receive
  std::vector<Entry> entries;
  /// The larger of the matmul's median and bytes / link rate, by mode; none where the matmul or the
  /// rate is not known.
  std::optional<double> limit(Mode mode) const;
  const Entry *find(Role role, Mode mode) const;
  /// Graph where that was measured: what an embedder gets who asks for nothing. Traced only where
  /// nothing else was.
  Mode usualMode() const;
  std::optional<double> linkRate;
};

struct Report {
  uint32_t ranks = 0;
  std::string target;
  std::optional<double> linkRate; ///< bytes/s
  std::string linkSource;         ///< how that is known
  std::vector<RowReport> rows;
  std::string failure;           ///< what ended the run early
  std::vector<std::string> left; ///< shapes that were not measured: time was up

  /// Median of |error| over all lines with a prediction.
  std::optional<double> medianPredictionError() const;
  /// "ag 8192x11008x4096 bf16, direct: 5.1 %", where `auto` is slower than the sequence by more
  /// than `percent`, both in the usual mode.
  std::vector<std::string> slower(double percent) const;
  /// Shapes of which that cannot be said.
  std::vector<std::string> unjudged() const;
  /// Results that were wrong: "shape, name, mode: message".
  std::vector<std::string> wrong() const;
  /// Whether there are rows, and not one program of theirs could run.
  bool ranNothing() const;
};

/// Ratios of a row.
RowReport makeRow(const Case &shape, uint32_t ranks, std::optional<double> linkRate,
                  std::vector<Measurement> measurements);

std::string tableHead(const Options &options, const Report &report);
std::string tableRow(const RowReport &row);
std::string tableEnd(const Options &options, const Report &report);

/// Writes the files that were asked for. The first error, after all have been tried.
Status writeFiles(const Options &options, const Report &report);

/// Keys: see docs/benchmarking.md.
std::string reportJson(const Options &options, const Report &report);
/// One line a measurement.
std::string reportCsv(const Report &report);
/// A block of bars a shape: medians with p10 to p90, the sequence's and the limit's times as lines.
std::string reportSvg(const Options &options, const Report &report);

} // namespace tandem::bench

#endif // TANDEM_BENCH_REPORT_H
