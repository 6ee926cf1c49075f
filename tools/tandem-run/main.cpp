//===- main.cpp - tandem-run ------------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One binary is launcher and rank: with -n, or where nothing else has started it as part of a job,
// it starts the ranks; otherwise it is one.
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"
#include "Files.h"
#include "HangReport.h"
#include "Ranks.h"
#include "Session.h"
#include "ToolMain.h"
#include "tandem/Program/Printable.h"
#include "tandem/Runtime/Environment.h"
#include "tandem/Runtime/Rendezvous.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <functional>
#include <sys/mman.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::run;

namespace {

/// Set for the ranks that tandem-run starts: a file descriptor, to which rank 0 writes how far it
/// is. It cannot say so any more if a signal ends it.
constexpr const char *kTallyVariable = "TANDEM_RUN_TALLY_FD";

/// Reads the program, and checks that it is for `ranks` ranks (0: takes its own) and has those from
/// `first` to `last`.
Expected<std::string> readProgram(const std::string &program, uint32_t &ranks, uint32_t first,
                                  uint32_t last) {
  TANDEM_ASSIGN_OR_RETURN(std::string bytes, readFile(program));
  auto file = ProgramFile::fromMemory(bytes);
  if (!file)
    return file.status().withPrefix(program + ": ");
  ranks = ranks == 0 ? (*file)->numRanks() : ranks;
  TANDEM_RETURN_IF_ERROR(checkRanks(**file, ranks));
  for (uint32_t rank = first; rank <= last && rank < ranks; ++rank)
    if (!(*file)->hasRank(rank))
      return Status(Code::InvalidArgument,
                    fmt::format("{}: the program of rank {} is not in this file", program, rank));
  return bytes;
}

/// Reads all programs. `ranks`, if 0, becomes the number of ranks of the first valid program.
std::vector<ProgramBytes> readPrograms(const Options &options, uint32_t &ranks) {
  std::vector<ProgramBytes> programs;
  for (const std::string &program : options.programs) {
    uint32_t itsRanks = ranks;
    auto bytes = readProgram(program, itsRanks, 0, UINT32_MAX);
    ranks = bytes ? itsRanks : ranks;
    programs.push_back(bytes ? ProgramBytes{std::move(*bytes), ""}
                             : ProgramBytes{"", bytes.status().message()});
  }
  return programs;
}

/// Nothing to start ranks for: says why.
bool areAllBad(const std::vector<ProgramBytes> &programs) {
  return std::none_of(programs.begin(), programs.end(),
                      [](const ProgramBytes &program) { return program.problem.empty(); });
}

int runNone(const Options &options, const std::vector<ProgramBytes> &programs) {
  auto bootstrap = createSelfBootstrap();
  RankJob job{options, *bootstrap};
  return runSeries(job, [&](size_t index) { return programs[index]; });
}

/// Each rank reads the file itself. What one rank cannot read, or is for another number of ranks,
/// none runs.
Expected<ProgramBytes> meetForProgram(const Options &options, size_t index, Bootstrap &bootstrap) {
  const std::string &program = options.programs[index];
  uint32_t ranks = bootstrap.worldSize();
  auto bytes = readProgram(program, ranks, bootstrap.rank(), bootstrap.rank());
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, bytes.status().message()));
  auto bad =
      std::find_if(all.begin(), all.end(), [](const auto &problem) { return problem != ""; });
  if (bad == all.end())
    return ProgramBytes{std::move(*bytes), ""};
  // What all ranks say is said of no rank.
  bool alike = std::count(all.begin(), all.end(), *bad) == long(all.size());
  if (!options.several() && !alike && !bytes && bootstrap.rank() != 0)
    failed(rankMessage(bootstrap.rank(), bytes.status().message()));
  return ProgramBytes{"", alike ? *bad : rankMessage(uint32_t(bad - all.begin()), *bad)};
}

// Each prints what there is to say and returns the exit code.

void tell(const Status &status) {
  if (!status.ok())
    failed(status.message());
}

/// One process a rank, of this binary with these arguments.
int runProcesses(const Options &options, const std::vector<std::string> &arguments) {
  uint32_t ranks = options.ranks;
  if (auto programs = readPrograms(options, ranks); areAllBad(programs))
    return runNone(options, programs);
  int tallyFile = ::memfd_create("tally", 0);
  ::setenv(kTallyVariable, std::to_string(tallyFile).c_str(), 1);
  std::function<void(const std::vector<std::string> &)> onTrouble;
  if (!options.hangReport.empty()) {
    removeRecords(options.hangReport);
    onTrouble = [&](const std::vector<std::string> &states) {
      tell(writeHangReport(options.hangReport, states));
    };
  }
  auto exits = spawnSelf("tandem-run", ranks, arguments, options.timeout, true, onTrouble);
  if (!exits)
    return failed(exits.status().message());
  // Rank 0 writes the last line, unless it could not.
  Tally tally;
  if (::pread(tallyFile, &tally, sizeof tally, 0) != sizeof tally)
    tally = {}; // no program has ended
  size_t current = tally.passed + tally.failed;
  if ((*exits)[0].signal && current < options.programs.size()) {
    Report report;
    report.file = options.programs[current];
    report.failure = fmt::format("rank 0 {}", (*exits)[0].stopped  ? "was stopped"
                                              : (*exits)[0].killed ? "hung"
                                                                   : "was ended by a signal");
    ++tally.failed;
    fmt::print("{}", escapeControls(reportLine(options, report)));
    if (options.several())
      fmt::print("{}\n", totalLine(options, tally));
  }
  return exitCodeOf(*exits);
}

/// One thread a rank.
int runThreads(const Options &options) {
  uint32_t ranks = options.ranks;
  const auto programs = readPrograms(options, ranks);
  if (areAllBad(programs))
    return runNone(options, programs);
  if (!options.hangReport.empty())
    removeRecords(options.hangReport);
  auto code =
      runThreadRanks(ranks, options.timeout, [&](Bootstrap &bootstrap, tandem_local_world *world) {
        RankJob job{options, bootstrap, world};
        return runSeries(job, [&](size_t index) { return programs[index]; });
      });
  if (!options.hangReport.empty() && (!code || *code != 0))
    tell(writeHangReport(options.hangReport, std::vector<std::string>(ranks)));
  return code ? *code : failed(code.status().message());
}

/// This process is one rank of a job that somebody has started.
int runAsRank(const Options &options, const BootstrapEnvironment &env) {
  const char *tallyFile = std::getenv(kTallyVariable);
  if (!tallyFile && !options.several()) {
    // Every rank sees by itself that the world does not fit, so no rank waits for it. What one rank
    // alone cannot read it tells the others, once they have met.
    auto bytes = readFile(options.programs[0]);
    auto file = bytes ? ProgramFile::fromMemory(*bytes) : bytes.status();
    if (file)
      if (Status fits = checkRanks(**file, env.worldSize); !fits.ok())
        return failed(fits.message());
  }
  auto bootstrap = joinRanks(env, options.timeout);
  if (!bootstrap)
    return failed(bootstrap.status().message());
  RankJob job{options, **bootstrap};
  job.onLoopback = meetsOnLoopback(env);
  return runSeries(
      job, [&](size_t index) { return meetForProgram(options, index, **bootstrap); },
      [&](const Tally &tally) {
        if (tallyFile && ::pwrite(static_cast<int>(std::strtol(tallyFile, nullptr, 10)), &tally,
                                  sizeof tally, 0) < 0)
          return; // then the launcher knows of one program less
      });
}

int fail(const Status &status) {
  fmt::print(stderr, "tandem-run: {}\n", escapeControls(status.message()));
  return 2;
}

} // namespace

static int runMain(int argc, char **argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  auto options = parseOptions(arguments);
  if (!options)
    return fail(options.status());
  if (!options->text.empty()) {
    fmt::print("{}", options->text);
    return 0;
  }
  auto environment = readBootstrapEnvironment();
  if (!environment)
    return fail(environment.status());

  auto launches = startsRanks(*environment, options->ranks, options->threads, options->channel);
  if (!launches)
    return fail(launches.status());
  if (*launches)
    if (Status outputs = checkOutputs(*options); !outputs.ok())
      return fail(outputs);
  if (*launches)
    return options->threads ? runThreads(*options) : runProcesses(*options, arguments);
  try {
    return runAsRank(*options, *environment);
  } catch (const std::exception &) {
    return failed(rankMessage(environment->rank, caughtException().message()));
  }
}

int main(int argc, char **argv) {
  return runTool("tandem-run", 1, [&] { return runMain(argc, argv); });
}
