//===- Options.cpp - the command line of tandem-bench -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include "CommandLine.h"
#include "Compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

using namespace tandem;
using namespace tandem::bench;
using namespace tandem::run;

const char *const bench::kUsage =
    R"(usage: tandem-bench [FOLDER] -n N [options]

Times fused collectives and matmuls beside the plain sequence (the same fusion in one slice: one
collective, one matmul) and beside the matmul and the communication alone, all by turns in one run.
FOLDER holds programs that --stage has compiled; without it they are compiled here.

What
  --shapes=LIST       OP:MxNxK or OP:NxK, comma-separated; OP: ag (all-gather, matmul), rs (matmul,
                      reduce-scatter), ar (matmul, all-reduce); N, K of all ranks together.
                      Default: layers of known models, 7 ag, 6 rs, 6 ar
  --tokens=LIST       M where a shape has none; default 1024,2048,8192
  --dtypes=LIST       f32, f16, bf16; default bf16
  --schedules=LIST    auto (what the compiler chooses), pipeline, exchange, push, with keys:
                      push:streams=2:order=xor:merge=1-1-2-4, push:merge=double (1, 1, 2, 4, ...;
                      rs: ... 2, 1, 1), pipeline:slices=8.
                      Default: auto,pipeline,exchange,push,push:streams=2,push:merge=double
  --target=NAME       default: what the first channel can do, as tandem-run says
  --machine=FILE      auto is chosen by this machine file's costs, and each row is predicted with it
  --stage=FOLDER      only compile, into FOLDER (made anew), for machines without the compiler
  --calibrate=FILE    measure no shapes but what a machine file says (docs/simulator.md), and write
                      one; what cannot be measured is taken from --machine (default cpu2, h200x8).
                      With --shapes, --tokens or --dtypes the matmuls are those of these shapes,
                      whole and in chunks; --json has what each probe took
  --probe-figures=FILE
                      with --calibrate: measure nothing, take what an earlier one's --json wrote
  --probes            with --stage: programs for --calibrate

Ranks: as in tandem-run
  -n N                start N ranks here; without it they come from mpirun, srun or torchrun
  --device=cpu|cuda   default cpu
  --channel=ucx|local|ccl|peer[,...]
                      default ucx; local: threads
  --threads           with ccl or peer: ranks are threads
  --timeout=SECONDS   ends a run that makes no progress; default 60
  --prefix            puts "[rank] " before each line that a rank prints

How
  --modes=LIST        direct, graph, traced (as tandem-run --trace: what tracing costs); default:
                      direct, and graph where the device has graphs
  --iterations=K      timed rounds; default 30. --warmup=K: before them; default 4
  --sets=K            sets of inputs, used by turns; default 2
  --batch=K           runs enqueued back to back in each timed turn; default 1
  --gap=MS            pause before each turn; default 0
  --row-time=SECONDS  a row that takes longer has fewer rounds, at least 3; default 20
  --total-time=SECONDS
                      no row begins later; those that are left are named. Default: all rows
  --verify=auto|all|none
                      against the oracle, before and after the timing; auto: small shapes
  --seed=S            of the inputs; default 0
  --link-rate=GB/S    what a rank can receive; default: measured here, by a ring of
                      --link-bytes=BYTES (a multiple of 4; default 64 MiB)

Reports
  --json=FILE, --csv=FILE, --svg=FILE
  --fail-if-slower=PCT  exit status 3 if `auto` is slower than the sequence by more anywhere
)";

std::string bench::toString(Mode mode) {
  switch (mode) {
  case Mode::Direct:
    return "direct";
  case Mode::Graph:
    return "graph";
  case Mode::Traced:
    return "traced";
  }
  return "";
}

std::optional<Mode> bench::modeNamed(std::string_view name) {
  for (Mode mode : kModes)
    if (toString(mode) == name)
      return mode;
  return std::nullopt;
}

static Status wrong(std::string message) {
  return Status(Code::InvalidArgument, std::move(message));
}

namespace {

/// Options that say what is compiled; not with a folder.
struct Given {
  bool shapes = false, tokens = false, dtypes = false, schedules = false, target = false;
};

OptionHandler noting(bool &given, OptionHandler handler) {
  return
      [&given, handler = std::move(handler)](const std::string &option, const std::string &value) {
        given = true;
        return handler(option, value);
      };
}

CommandLine commandLine(Options &o, Given &given) {
  CommandLine line;
  line.flags = {{"--threads", &o.threads}, {"--prefix", &o.prefix}, {"--probes", &o.probes},
                {"--help", &o.help},       {"-h", &o.help},         {"--version", &o.version}};
  line.values = {{"--shapes", noting(given.shapes, textOption(o.shapes))},
                 {"--tokens", noting(given.tokens, textOption(o.tokens))},
                 {"--dtypes", noting(given.dtypes, textOption(o.dtypes))},
                 {"--schedules", noting(given.schedules, textOption(o.scheduleList))},
                 {"--target", noting(given.target, textOption(o.target))},
                 {"--machine", textOption(o.machine)},
                 {"--stage", textOption(o.stage)},
                 {"--calibrate", textOption(o.calibrate)},
                 {"--probe-figures", textOption(o.probeFigures)},
                 {"-n", numberOption(o.ranks, 2, 65536)},
                 {"--device", choiceOption(o.device, {"cpu", "cuda"})},
                 {"--channel", channelsOption(o.channel)},
                 {"--timeout", secondsOption(o.timeout)},
                 {"--modes", textOption(o.modeList)},
                 {"--iterations", numberOption(o.iterations, 1, 1000000)},
                 {"--warmup", numberOption(o.warmup, 0, 1000000)},
                 {"--sets", numberOption(o.sets, 1, 64)},
                 {"--batch", numberOption(o.batch, 1, 100000)},
                 {"--gap", realOption(o.gapMs, 0, 60000)},
                 {"--row-time", secondsOption(o.rowTime)},
                 {"--total-time", secondsOption(o.totalTime)},
                 {"--verify", choiceOption(o.verify, {"auto", "all", "none"})},
                 {"--seed", numberOption(o.seed, 0, ~uint64_t(0))},
                 {"--link-rate", realOption(o.linkRate, 1e-6, 1e6)},
                 {"--link-bytes", numberOption(o.linkBytes, 4, uint64_t(1) << 34)},
                 {"--json", textOption(o.json)},
                 {"--csv", textOption(o.csv)},
                 {"--svg", textOption(o.svg)},
                 {"--fail-if-slower", realOption(o.failIfSlower, 0, 1e6)}};
  line.positional = [&o](const std::string &argument) {
    if (argument.empty())
      return wrong("expected a folder, found \"\"");
    if (!o.folder.empty())
      return wrong(fmt::format("two folders given: \"{}\" and \"{}\"", o.folder, argument));
    o.folder = argument;
    return Status();
  };
  return line;
}

Status checkFolder(const Options &o, const Given &given) {
  for (auto [option, set] : {std::pair("--shapes", given.shapes),
                             {"--tokens", given.tokens},
                             {"--dtypes", given.dtypes},
                             {"--schedules", given.schedules},
                             {"--target", given.target},
                             {"--stage", !o.stage.empty()},
                             {"--probe-figures", !o.probeFigures.empty()}})
    if (set)
      return wrong(fmt::format("{}: only where programs are still to be compiled; those of \"{}\" "
                               "are there",
                               option, o.folder));
  return Status();
}

Status checkCalibration(Options &o, const Given &given) {
  if (o.probes && o.stage.empty())
    return wrong("--probes: only with --stage");
  if (!o.calibrate.empty() && !o.stage.empty())
    return wrong("--calibrate: measures; --stage --probes compiles what it needs");
  if (!o.probeFigures.empty() && o.calibrate.empty())
    return wrong("--probe-figures: only with --calibrate");
  o.probes |= !o.calibrate.empty();
  if (!o.probes)
    return Status();
  o.probesShapes = given.shapes || given.tokens || given.dtypes;
  for (auto [option, set] : {std::pair("--schedules", given.schedules),
                             {"--csv", !o.csv.empty()},
                             {"--svg", !o.svg.empty()},
                             {"--fail-if-slower", o.failIfSlower >= 0}})
    if (set)
      return wrong(fmt::format("{}: a calibration runs no schedules", option));
  if (!o.probeFigures.empty() && o.probesShapes)
    return wrong("--shapes, --tokens, --dtypes: what was probed is in --probe-figures");
  if (o.machine.empty() && o.probeFigures.empty())
    o.machine = o.device == "cuda" ? "h200x8" : "cpu2";
  return Status();
}

Status setModes(Options &o) {
  bool gpu = o.device == "cuda";
  if (o.modeList.empty())
    o.modeList = gpu ? "direct,graph" : "direct";
  for (const std::string &name : splitList(o.modeList)) {
    TANDEM_RETURN_IF_ERROR(checkChoice("--modes", name, {"direct", "graph", "traced"}));
    Mode mode = *modeNamed(name);
    if (mode == Mode::Graph && !gpu)
      return wrong(fmt::format("--modes: device {} has no graphs", o.device));
    if (mode == Mode::Traced && o.probes)
      return wrong("--modes: a calibration is about runs that are not traced");
    o.modes.push_back(mode);
  }
  return Status();
}

} // namespace

Expected<Options> bench::parseOptions(const std::vector<std::string> &arguments) {
  Options o;
  Given given;
  TANDEM_RETURN_IF_ERROR(commandLine(o, given).parse(arguments));
  if (o.help || o.version)
    return o;
  o.commandLine = fmt::format("{}", fmt::join(arguments, " "));
  TANDEM_RETURN_IF_ERROR(checkCalibration(o, given));
  o.linkRate *= 1e9;
  if (o.linkBytes % 4 != 0)
    return wrong(fmt::format("--link-bytes: expected a multiple of 4, found \"{}\"", o.linkBytes));
  if (namesChannel(o.channel, "local"))
    o.threads = true;
  if (o.threads && namesChannel(o.channel, "ucx"))
    return wrong("--threads: ranks of channel ucx are processes");
  TANDEM_RETURN_IF_ERROR(setModes(o));
  if (!o.folder.empty()) {
    TANDEM_RETURN_IF_ERROR(checkFolder(o, given));
    return o;
  }
  if (!o.probeFigures.empty())
    return o;
  if (!hasCompiler())
    return wrong("expected a folder of programs: this tandem-bench was built without the compiler "
                 "(tandem-bench --stage=FOLDER, elsewhere, writes them)");
  if (!o.stage.empty() && !o.ranks)
    return wrong("--stage: expected -n N");
  if (o.target.empty())
    o.target = targetFor(o.channel);
  TANDEM_RETURN_IF_ERROR(checkChoice("--target", o.target, targetNames()));
  TANDEM_ASSIGN_OR_RETURN(o.cases, parseCases(o.shapes, o.tokens, o.dtypes));
  TANDEM_ASSIGN_OR_RETURN(o.schedules, parseSchedules(o.scheduleList));
  return o;
}
