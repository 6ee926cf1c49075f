//===- Launcher.cpp - ranks as processes and as threads ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Launcher.h"

#include "CommandLine.h"
#include "Compile.h"
#include "Files.h"
#include "Ranks.h"
#include "Session.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::run;

namespace {

int failed(const Status &status) {
  fmt::print(stderr, "tandem-run: {}\n", status.message());
  return 1;
}

/// Rank 0's last words.
int summarize(const Options &options, Report &report) {
  std::string text;
  if (options.perRank && report.failure.empty())
    for (uint32_t rank = 0; rank < report.perRank.size(); ++rank)
      text += rankLine(report, rank) + "\n";
  Status written = options.json.empty() ? Status::success() : writeJson(options, report);
  if (!written.ok() && report.failure.empty())
    report.failure = written.message();
  fmt::print("{}{}\n", text, summaryLine(options, report));
  std::fflush(stdout);
  return report.failure.empty() ? 0 : 1;
}

/// What one rank says of its end; rank 0 writes the report. A verdict that all ranks share is said
/// by rank 0 alone.
int finish(const Options &options, uint32_t rank, const Status &status, Report &report) {
  bool shared = !report.failure.empty();
  if (!status.ok() && !shared) {
    std::string message = rankMessage(rank, status.message());
    if (rank == 0)
      report.failure = message;
    else
      fmt::print(stderr, "tandem-run: {}\n", message);
  }
  if (rank != 0)
    return status.ok() ? 0 : 1;
  if (report.name.empty())
    report.name = options.program;
  return summarize(options, report);
}

/// Opens the program, and checks that it is for `ranks` ranks (0: takes its own) and holds them
/// all.
Expected<uint32_t> checkProgram(const Options &options, std::string_view bytes, uint32_t ranks) {
  auto file = ProgramFile::fromMemory(bytes);
  if (!file)
    return file.status().withPrefix(options.program + ": ");
  if (ranks == 0)
    ranks = (*file)->numRanks();
  TANDEM_RETURN_IF_ERROR(checkRanks(**file, ranks));
  for (uint32_t rank = 0; rank < ranks; ++rank)
    if (!(*file)->hasRank(rank))
      return Status(
          Code::InvalidArgument,
          fmt::format("{}: the program of rank {} is not in this file", options.program, rank));
  return ranks;
}

} // namespace

Expected<std::string> run::programBytes(const Options &options, uint32_t ranks) {
  if (!options.isSource())
    return readFile(options.program);
  CompileRequest request;
  request.path = options.program;
  request.entry = options.entry;
  request.mesh = options.mesh;
  request.shapes = options.shapes;
  request.target = options.target.empty() ? targetFor(options.channel) : options.target;
  request.ranks = ranks;
  CompiledProgram compiled = compileProgram(request);
  if (!compiled.ok)
    return Status(Code::InvalidArgument, compiled.errors);
  return std::move(compiled.bytes);
}

int run::runProcesses(const Options &options, const std::vector<std::string> &arguments) {
  auto bytes = programBytes(options, options.ranks);
  if (!bytes)
    return failed(bytes.status());
  auto ranks = checkProgram(options, *bytes, options.ranks);
  if (!ranks)
    return failed(ranks.status());

  // Without a name in any folder: nothing is left behind, however this ends.
  int fd = ::memfd_create("program", 0);
  if (fd < 0 || ::write(fd, bytes->data(), bytes->size()) != static_cast<ssize_t>(bytes->size()))
    return failed(Status(Code::Io, fmt::format("memfd: {}", std::strerror(errno))));
  ::setenv(kProgramVariable, std::to_string(fd).c_str(), 1);

  auto exits = spawnSelf("tandem-run", *ranks, arguments, options.prefix, options.timeout);
  ::close(fd);
  if (!exits)
    return failed(exits.status());
  // Rank 0 writes the last line, unless it could not.
  if ((*exits)[0].signal)
    fmt::print("FAILED {}: rank 0 {}\n", options.program,
               (*exits)[0].killed ? "hung" : "was ended by a signal");
  return exitCodeOf(*exits);
}

int run::runThreads(const Options &options) {
  auto bytes = programBytes(options, options.ranks);
  if (!bytes)
    return failed(bytes.status());
  auto ranks = checkProgram(options, *bytes, options.ranks);
  if (!ranks)
    return failed(ranks.status());
  std::vector<Report> reports(*ranks);
  std::mutex output;
  auto code =
      runThreadRanks(*ranks, options.timeout, [&](Launch &launch, tandem_local_world *world) {
        RankJob job{options, *bytes, launch, world};
        Report &report = reports[launch.rank()];
        Status status = runRank(job, report);
        std::lock_guard<std::mutex> lock(output);
        return finish(options, launch.rank(), status, report);
      });
  return code ? *code : failed(code.status());
}

int run::runAsRank(const Options &options, const LaunchEnvironment &env) {
  const char *inherited = std::getenv(kProgramVariable);
  std::string bytes;
  bool compile = options.isSource() && !inherited;
  if (!compile) {
    Options source = options;
    source.program = inherited ? fmt::format("/proc/self/fd/{}", inherited) : options.program;
    auto read = readFile(source.program);
    if (!read)
      return failed(read.status());
    bytes = std::move(*read);
    // Nobody waits for a world that does not fit: every rank sees that by itself.
    auto file = ProgramFile::fromMemory(bytes);
    Status fits =
        file ? checkRanks(**file, env.worldSize) : file.status().withPrefix(options.program + ": ");
    if (!fits.ok())
      return failed(fits);
  }
  auto launch = joinRanks(env, options.timeout);
  if (!launch)
    return failed(launch.status());
  if (compile) {
    // One compiles for all.
    Expected<std::string> mine = std::string();
    if (env.rank == 0)
      mine = programBytes(options, env.worldSize);
    auto all = allGatherStrings(**launch, mine ? "+" + *mine : "-" + mine.status().message());
    if (!all)
      return failed(all.status());
    if ((*all)[0][0] != '+')
      return env.rank == 0 ? failed(mine.status()) : 1;
    bytes = (*all)[0].substr(1);
  }
  Report report;
  RankJob job{options, bytes, **launch};
  Status status = runRank(job, report);
  return finish(options, env.rank, status, report);
}
