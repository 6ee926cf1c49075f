//===- Series.cpp - one rank's programs, one after the other ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include "Ranks.h"

#include <fmt/format.h>

using namespace tandem;
using namespace tandem::run;

namespace {

class Series {
public:
  Series(RankJob &job, const std::function<void(const Tally &)> &note)
      : job(job), options(job.options), rank(job.bootstrap.rank()), note(note) {}

  int run(const ProgramSource &source) {
    int code = runAll(source);
    // mpirun and torchrun kill the other ranks once one has failed: rank 0 must have printed.
    if (together && !job.bootstrap.barrier().ok())
      return 1;
    return code;
  }

private:
  int runAll(const ProgramSource &source) {
    const std::vector<std::string> &files = options.programs;
    for (size_t i = 0; i < files.size() && together; ++i) {
      Report report;
      report.file = files[i];
      auto program = source(i);
      // Of one program that is none there is no summary.
      if (!options.several() && !program) {
        together = false;
        return failed(program.status().message());
      }
      if (!options.several() && !program->problem.empty())
        return rank == 0 ? failed(program->problem) : 1;
      Status status = program.status();
      if (program && program->problem.empty())
        status = runRank(job, files[i], program->bytes, report);
      else if (program)
        report.failure = program->problem;
      together = status.ok();
      // What ends with the context is part of the last program's verdict.
      if (!together || i + 1 == files.size())
        job.context.reset();
      end(status, std::move(report));
    }
    return options.several() ? sum() : tally.failed != 0;
  }

  /// What this rank says of a program's end. A verdict that all ranks share is said by rank 0
  /// alone.
  void end(const Status &status, Report report) {
    if (!status.ok() && report.failure.empty())
      report.failure = report.mine = rankMessage(rank, status.message());
    std::string prefix = options.several() ? report.file + ": " : "";
    if (rank != 0 && !report.mine.empty())
      fmt::print(stderr, "tandem-run: {}{}\n", prefix, report.mine);
    if (rank == 0) {
      if (!options.several() && !options.json.empty()) {
        Status written = writeJson(options, {report}, tally);
        if (!written.ok() && report.failure.empty())
          report.failure = written.message();
      }
      fmt::print("{}", reportLines(options, report, prefix));
      std::fflush(stdout);
    }
    ++(report.failure.empty() ? tally.passed : tally.failed);
    if (note && rank == 0)
      note(tally);
    if (rank == 0 && options.several() && !options.json.empty())
      reports.push_back(std::move(report));
  }

  /// The end of several.
  int sum() {
    int code = tally.passed == options.programs.size() ? 0 : 1;
    if (rank != 0)
      return code;
    fmt::print("{}\n", totalLine(options, tally));
    std::fflush(stdout);
    Status written = options.json.empty() ? Status::success() : writeJson(options, reports, tally);
    return written.ok() ? code : failed(written.message());
  }

  RankJob &job;
  const Options &options;
  uint32_t rank;
  const std::function<void(const Tally &)> &note;
  bool together = true; ///< no rank has left the series
  Tally tally;
  std::vector<Report> reports; ///< rank 0, for --json
};

} // namespace

int run::failed(const std::string &message) {
  fmt::print(stderr, "tandem-run: {}\n", message);
  return 1;
}

int run::runSeries(RankJob &job, const ProgramSource &source,
                   const std::function<void(const Tally &)> &note) {
  return Series(job, note).run(source);
}
