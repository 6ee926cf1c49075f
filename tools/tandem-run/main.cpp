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
#include "Compile.h"
#include "Files.h"
#include "HangReport.h"
#include "Ranks.h"
#include "Session.h"
#include "SharedPrograms.h"
#include "ToolMain.h"
#include "tandem/Program/Printable.h"
#include "tandem/Runtime/Environment.h"
#include "tandem/Runtime/NodeMap.h"
#include "tandem/Runtime/Rendezvous.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <functional>

using namespace tandem;
using namespace tandem::run;

namespace {

/// Set for the ranks that tandem-run starts: the file descriptor of a SharedPrograms.
constexpr const char *kProgramsVariable = "TANDEM_RUN_PROGRAMS_FD";

/// The bytes of the .tsp: read, or compiled for `ranks` ranks (0: as many as it needs) at these
/// places (none: all on one node).
Expected<std::string> programBytes(const Options &options, const std::string &program,
                                   uint32_t ranks, const NodeMap &map = {}) {
  if (!isSource(program))
    return readFile(program);
  CompileRequest request;
  request.path = program;
  request.mesh = options.mesh;
  request.shapes = options.shapes;
  request.options.entry = options.entry;
  request.options.bound = options.bound;
  request.options.target =
      options.target.empty() ? targetFor(options.device, options.channel) : options.target;
  request.options.numRanks = ranks;
  request.options.certify = options.requireProof;
  request.options.deterministic = options.deterministic;
  // Nodes with different numbers of ranks are no rows of a mesh.
  request.ranksPerNode = map.perNode();
  if (std::vector<uint32_t> ranks = map.byNode();
      request.ranksPerNode && !std::is_sorted(ranks.begin(), ranks.end()))
    request.options.devices.assign(ranks.begin(), ranks.end());
  CompiledProgram compiled = compileProgram(request);
  if (!compiled.ok)
    return Status(Code::InvalidArgument, compiled.errors);
  return std::move(compiled.bytes);
}

/// Opens the program, and checks that it is for `ranks` ranks (0: takes its own) and, if `whole`,
/// holds them all.
Expected<uint32_t> checkProgram(const std::string &program, std::string_view bytes, uint32_t ranks,
                                bool whole) {
  auto file = ProgramFile::fromMemory(bytes);
  if (!file)
    return file.status().withPrefix(program + ": ");
  if (ranks == 0)
    ranks = (*file)->numRanks();
  TANDEM_RETURN_IF_ERROR(checkRanks(**file, ranks));
  for (uint32_t rank = 0; rank < ranks && whole; ++rank)
    if (!(*file)->hasRank(rank))
      return Status(Code::InvalidArgument,
                    fmt::format("{}: the program of rank {} is not in this file", program, rank));
  return ranks;
}

/// For a line of the summary; where a compiler has said more, that is said at once.
std::string problemOf(const Options &options, const Status &status) {
  const std::string &message = status.message();
  size_t end = message.find('\n');
  if (!options.several() || end == std::string::npos)
    return message;
  if (end + 1 < message.size())
    failed(message);
  return message.substr(0, end);
}

/// Reads or compiles all programs. `ranks`, if 0, becomes the number of ranks of the first valid
/// program.
std::vector<ProgramBytes> gatherPrograms(const Options &options, uint32_t &ranks) {
  std::vector<ProgramBytes> programs;
  for (const std::string &program : options.programs) {
    ProgramBytes &gathered = programs.emplace_back();
    auto bytes = programBytes(options, program, ranks);
    auto checked = bytes ? checkProgram(program, *bytes, ranks, true) : bytes.status();
    if (checked) {
      gathered.bytes = std::move(*bytes);
      ranks = *checked;
    } else {
      gathered.problem = problemOf(options, checked.status());
    }
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

/// If the launcher has not gathered the programs, rank 0 compiles for all, and each rank reads a
/// .tsp itself. What one rank cannot read, or is for another number of ranks, none runs.
Expected<ProgramBytes> meetForProgram(const Options &options, const std::string &program,
                                      Bootstrap &bootstrap) {
  bool compile = isSource(program), mine = !compile || bootstrap.rank() == 0;
  std::string word, bytes;
  NodeMap map;
  if (compile) {
    TANDEM_ASSIGN_OR_RETURN(map, findNodes(bootstrap));
  }
  if (mine) {
    auto read = programBytes(options, program, bootstrap.worldSize(), map);
    Status status = read.status();
    if (read && options.several())
      status = checkProgram(program, *read, bootstrap.worldSize(), false).status();
    if (read)
      bytes = std::move(*read);
    word = !status.ok() ? "-" + problemOf(options, status) : compile ? "+" + bytes : "+";
  }
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, word));
  auto isBad = [](const std::string &w) { return w.substr(0, 1) == "-"; };
  auto bad = std::find_if(all.begin(), all.end(), isBad);
  if (compile && all[0].empty())
    return Status(Code::Io, "rank 0 gives no program");
  if (bad == all.end())
    return ProgramBytes{compile ? all[0].substr(1) : std::move(bytes), ""};
  // What all ranks say is said of no rank.
  auto rank = static_cast<uint32_t>(bad - all.begin());
  bool alike = compile || std::count(all.begin(), all.end(), *bad) == long(all.size());
  std::string problem = bad->substr(1);
  return ProgramBytes{"", alike ? problem : rankMessage(rank, problem)};
}

// Each prints what there is to say and returns the exit code.

void tell(const Status &status) {
  if (!status.ok())
    failed(status.message());
}

/// One process a rank, of this binary with these arguments.
int runProcesses(const Options &options, const std::vector<std::string> &arguments) {
  uint32_t ranks = options.ranks;
  auto programs = gatherPrograms(options, ranks);
  if (areAllBad(programs))
    return runNone(options, programs);
  auto shared = SharedPrograms::create(programs);
  if (!shared)
    return failed(shared.status().message());
  programs.clear();
  ::setenv(kProgramsVariable, std::to_string((*shared)->fd()).c_str(), 1);
  std::function<void(const std::vector<std::string> &)> onTrouble;
  if (!options.hangReport.empty()) {
    removeRecords(options.hangReport);
    onTrouble = [&](const std::vector<std::string> &states) {
      tell(writeHangReport(options.hangReport, states));
    };
  }
  auto exits =
      spawnSelf("tandem-run", ranks, arguments, options.prefix, options.timeout, true, onTrouble);
  if (!exits)
    return failed(exits.status().message());
  // Rank 0 writes the last line, unless it could not.
  Tally tally = (*shared)->tally();
  size_t current = tally.passed + tally.failed;
  if ((*exits)[0].signal && current < options.programs.size()) {
    Report report;
    report.file = options.programs[current];
    report.failure = fmt::format("rank 0 {}", (*exits)[0].stopped  ? "was stopped"
                                              : (*exits)[0].killed ? "hung"
                                                                   : "was ended by a signal");
    ++tally.failed;
    fmt::print("{}", escapeControls(reportLines(options, report,
                                                options.several() ? report.file + ": " : "")));
    if (options.several())
      fmt::print("{}\n", totalLine(options, tally));
  }
  return exitCodeOf(*exits);
}

/// One thread a rank.
int runThreads(const Options &options) {
  uint32_t ranks = options.ranks;
  const auto programs = gatherPrograms(options, ranks);
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
  std::unique_ptr<SharedPrograms> shared;
  if (const char *inherited = std::getenv(kProgramsVariable)) {
    auto opened = SharedPrograms::open(static_cast<int>(std::strtol(inherited, nullptr, 10)));
    if (opened && (*opened)->size() != options.programs.size())
      opened = Status(Code::InvalidArgument,
                      fmt::format("{}: expected {} programs, found {}", kProgramsVariable,
                                  options.programs.size(), (*opened)->size()));
    if (!opened)
      return failed(opened.status().message());
    shared = std::move(*opened);
  } else if (!options.several() && !isSource(options.programs[0])) {
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
  if (shared)
    return runSeries(
        job, [&](size_t index) { return shared->program(index); },
        [&](const Tally &tally) { shared->note(tally); });
  return runSeries(job, [&](size_t index) {
    return meetForProgram(options, options.programs[index], **bootstrap);
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
