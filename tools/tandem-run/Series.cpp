//===- Series.cpp - one rank's programs, one after the other ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include "CommandLine.h"
#include "Files.h"
#include "Ranks.h"
#include "ToolMain.h"
#include "tandem/Program/Printable.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>
#include <unistd.h>

using namespace tandem;
using namespace tandem::run;

namespace {

/// The options that must be equal on all ranks: name, value.
using Texts = std::vector<std::pair<std::string, std::string>>;

Texts commonOptions(const Options &o) {
  auto isGiven = [](const std::string &path) { return path.empty() ? "not given" : "given"; };
  return {{"programs", std::to_string(o.programs.size())},
          {"--device", o.device},
          {"--channel", o.channel},
          {"--link", o.link},
          {"--seed", std::to_string(o.seed)},
          {"--extent", fmt::format("{}", fmt::join(o.extents, ","))},
          {"--repeat", std::to_string(o.repeat)},
          {"--warmup", std::to_string(o.warmup)},
          {"--verify", o.verify ? "given" : "not given"},
          {"--dump-npy", isGiven(o.dumpNpy)},
          {"--trace", isGiven(o.trace)},
          {"--hang-report", isGiven(o.hangReport)}};
}

/// What ranks that reach each other over the loopback have in common: the kernel and its network
/// namespace. A tunnel may lead to a loopback address, too. Empty if unknown.
std::string nameOfLoopback() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char network[64];
  ssize_t length = ::readlink("/proc/self/ns/net", network, sizeof network);
  return boot.empty() || length <= 0 ? "" : boot + " " + std::string(network, length);
}

/// All ranks are on this host: their network need not be open to others. Not what the user chooses,
/// and not without the loopback among its transports.
void keepUcxOnLoopback() {
  if (!std::getenv("UCX_TLS"))
    ::setenv("UCX_NET_DEVICES", "lo", /*overwrite=*/0);
}

/// Whether the ranks can run together with these options. Collective; the same error on all ranks.
Status agreeOnOptions(const RankJob &job) {
  const Options &options = job.options;
  Bootstrap &bootstrap = job.bootstrap;
  const Texts names = commonOptions(options);
  std::string mine;
  for (const auto &[name, value] : names)
    mine += value + '\n';
  mine += (job.onLoopback ? nameOfLoopback() : "") + '\n';
  // Last, because it may have any characters.
  if (bootstrap.rank() == 0)
    mine += checkOutputs(options).message();
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, mine));
  std::vector<std::vector<std::string>> values;
  for (const std::string &text : all)
    values.push_back(splitList(text, '\n'));
  auto valueOf = [&](uint32_t rank, size_t i) -> std::string {
    return i < values[rank].size() ? values[rank][i] : "unknown";
  };
  for (uint32_t rank = 1; rank < all.size(); ++rank)
    for (size_t i = 0; i < names.size(); ++i)
      if (valueOf(rank, i) != valueOf(0, i) || i >= values[rank].size())
        return Status(Code::InvalidArgument,
                      fmt::format("ranks have different options: {}: {} on rank 0, {} on rank {}",
                                  names[i].first, valueOf(0, i), valueOf(rank, i), rank));
  if (std::all_of(values.begin(), values.end(), [&](const std::vector<std::string> &rank) {
        return rank.size() > names.size() && !rank[names.size()].empty() &&
               rank[names.size()] == values[0][names.size()];
      }))
    keepUcxOnLoopback();
  std::string problem = values[0].size() > names.size() + 1 ? values[0][names.size() + 1] : "";
  return problem.empty() ? Status() : Status(Code::Io, problem);
}

/// Ends the process if the driver of a device does not release a context's resources in
/// time. The rank's heartbeat continues meanwhile, so the others would wait for it.
class EndGuard {
public:
  EndGuard(std::chrono::milliseconds limit, std::function<void()> sayWhy) {
    auto wait = [this, limit, sayWhy = std::move(sayWhy)] {
      std::unique_lock<std::mutex> lock(mutex);
      if (changed.wait_for(lock, limit, [this] { return isOver; }))
        return;
      try {
        sayWhy();
      } catch (const std::exception &error) { // out of memory, or stderr is closed
        std::fputs(error.what(), stderr);
      }
      std::fflush(nullptr);
      std::_Exit(1);
    };
    try {
      thread = std::thread(wait);
    } catch (const std::system_error &) {
      thread = std::thread(); // no more threads: the end is not bounded
    }
  }
  ~EndGuard() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      isOver = true;
    }
    changed.notify_all();
    if (thread.joinable())
      thread.join();
  }
  EndGuard(const EndGuard &) = delete;
  EndGuard &operator=(const EndGuard &) = delete;

private:
  std::mutex mutex;
  std::condition_variable changed;
  bool isOver = false; ///< guarded by mutex
  std::thread thread;
};

class Series {
public:
  Series(RankJob &job, const std::function<void(const Tally &)> &note)
      : job(job), options(job.options), rank(job.bootstrap.rank()), note(note) {}

  int run(const ProgramSource &source) {
    try {
      return runTogether(source);
    } catch (const std::exception &) {
      std::string message = rankMessage(rank, caughtException().message());
      job.bootstrap.giveUp(Status(Code::Aborted, message)); // the others wait for this rank
      return failed(message);
    }
  }

private:
  int runTogether(const ProgramSource &source) {
    if (Status agreed = agreeOnOptions(job); !agreed.ok()) {
      int code = rank == 0 || agreed.code() != Code::Io ? failed(agreed.message()) : 1;
      // mpirun and torchrun kill the other ranks once one has failed.
      job.bootstrap.barrier().ignore();
      return code;
    }
    int code = runAll(source);
    // mpirun and torchrun kill the other ranks once one has failed: rank 0 must have printed.
    if (together)
      if (Status met = job.bootstrap.barrier(); !met.ok() && code == 0)
        return failed(rankMessage(rank, met.message()));
    return code;
  }

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
        endContext(status, report);
      end(status, std::move(report));
    }
    return options.several() ? sum() : tally.failed != 0;
  }

  /// `status`, `report`: of the last program.
  void endContext(const Status &status, const Report &report) {
    if (!job.context)
      return;
    auto limit = std::max(options.timeout, kLeastToEnd);
    EndGuard guard(limit, [&, limit] {
      Status late(Code::Timeout, fmt::format("device {}, channel {}: the context has not ended "
                                             "after {} ms",
                                             options.device, options.channel, limit.count()));
      end(status.ok() ? late : status, report);
      job.bootstrap.giveUp(Status(Code::Timeout, rankMessage(rank, late.message())));
    });
    job.context.reset();
  }
  /// A channel waits at most three times 5 s.
  static constexpr std::chrono::milliseconds kLeastToEnd{20000};

  /// What this rank says of a program's end. A verdict that all ranks share is said by rank 0
  /// alone.
  void end(const Status &status, Report report) {
    if (!status.ok() && report.failure.empty())
      report.failure = report.mine = rankMessage(rank, status.message());
    std::string prefix = options.several() ? report.file + ": " : "";
    if (rank != 0 && !report.mine.empty())
      fmt::print(stderr, "tandem-run: {}{}\n", prefix, escapeControls(report.mine));
    if (rank == 0) {
      if (!options.several() && !options.json.empty()) {
        Status written = writeJson(options, {report}, tally);
        if (!written.ok() && report.failure.empty())
          report.failure = written.message();
      }
      fmt::print("{}", escapeControls(reportLine(options, report)));
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

Status run::checkOutputs(const Options &options) {
  for (const std::string *path : {&options.json, &options.trace, &options.hangReport})
    if (!path->empty())
      TANDEM_RETURN_IF_ERROR(checkWritable(*path));
  std::error_code error;
  if (!options.dumpNpy.empty() && std::filesystem::exists(options.dumpNpy, error) &&
      !std::filesystem::is_directory(options.dumpNpy, error))
    return Status(Code::Io, fmt::format("--dump-npy: \"{}\" is not a folder", options.dumpNpy));
  return Status();
}

int run::failed(const std::string &message) {
  fmt::print(stderr, "tandem-run: {}\n", escapeControls(message));
  return 1;
}

int run::runSeries(RankJob &job, const ProgramSource &source,
                   const std::function<void(const Tally &)> &note) {
  return Series(job, note).run(source);
}
