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

using namespace tandem;
using namespace tandem::bench;
using namespace tandem::run;

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

constexpr const char *kDescription =
    R"(Times fused collectives and matmuls next to the unoverlapped baseline (the same fusion in one slice:
one collective, one matmul), the matmul alone and the communication alone, all interleaved in one
run. FOLDER holds programs compiled by --stage; without it they are compiled first.)";

/// The options, with the groups that exclude each other.
class Parser {
public:
  explicit Parser(Options &options) : o(options), line("tandem-bench", kDescription) {
    line.custom("folder", "FOLDER", "programs compiled by --stage", [this](const auto &text) {
      o.folder = text;
      return text.empty() ? wrong("expected a name, found \"\"") : Status::success();
    });
    addWhat();
    addRanks();
    addHow();
    line.text("--json", o.json, "FILE", "all figures")->group("Reports");
    for (CLI::Option *option :
         {line.text("--csv", o.csv, "FILE", "one line per measurement"),
          line.text("--svg", o.svg, "FILE", "a chart"),
          line.real(
              "--fail-if-slower", o.failIfSlower, 0, 1e6, "PCT",
              "exit status 3 if `auto` is more than PCT % slower than the baseline in any case")})
      schedules.push_back(option->group("Reports"));
  }

  Status parse(const std::vector<std::string> &arguments) {
    TANDEM_ASSIGN_OR_RETURN(o.text, line.parse(arguments));
    if (!o.text.empty())
      return Status();
    TANDEM_RETURN_IF_ERROR(checkCalibration());
    return o.folder.empty()
               ? Status()
               : refuseOptions(
                     compiled,
                     fmt::format("only for programs to compile; \"{}\" holds compiled ones",
                                 o.folder));
  }

private:
  void addWhat() {
    const char *group = "What";
    matmuls = {
        line.text("--shapes", o.shapes, "LIST",
                  "OP:MxNxK or OP:NxK, comma-separated; OP: ag (all-gather, matmul), rs (matmul,\n"
                  "reduce-scatter), ar (matmul, all-reduce); N, K of all ranks together.\n"
                  "Default: layers of known models, 7 ag, 6 rs, 6 ar"),
        line.text("--tokens", o.tokens, "LIST", "M for shapes without M; default 1024,2048,8192"),
        line.text("--dtypes", o.dtypes, "LIST",
                  "f32, f16, bf16, f8E4M3FN (a scale per tensor), f8E4M3FN-rows (a scale per row;\n"
                  "results of both: bf16); default bf16")};
    schedules = {line.text(
        "--schedules", o.scheduleList, "LIST",
        "auto (the compiler's choice), pipeline, exchange, push, gated, direct, with keys:\n"
        "push:streams=2:order=xor:merge=1-1-2-4, push:merge=double (1, 1, 2, 4, ...;\n"
        "rs: ... 2, 1, 1), pipeline:slices=8, direct:signals=block,\n"
        "direct:shots=two:blocks=8 (ar only), push:by=sms:blocks=12, push:copies=4,\n"
        "gated:by=sms (ag only), push:by=epilogue (rs, ar), push:sum=matmul\n"
        "(rs, ar; 2 ranks); all: deterministic=bitwise.\n"
        "Default: auto,pipeline,exchange,push,push:streams=2,push:merge=double")};
    compiled = matmuls;
    compiled.push_back(schedules.front());
    compiled.push_back(
        line.text("--target", o.target, "NAME", "default: as in tandem-run, by the first channel"));
    compiled.push_back(
        line.text("--stage", o.stage, "FOLDER",
                  "only compile, into FOLDER (emptied first), for machines without the "
                  "compiler"));
    compiled.push_back(
        line.text("--probe-figures", o.probeFigures, "FILE",
                  "with --calibrate: measure nothing; use the --json output of an earlier "
                  "calibration"));
    for (CLI::Option *option : compiled)
      option->group(group);
    line.text("--machine", o.machine, "FILE",
              "machine file for choosing `auto` and for predicting each case")
        ->group(group);
    line.text(
            "--calibrate", o.calibrate, "FILE",
            "measure and write a machine file (docs/simulator.md) instead of timing shapes.\n"
            "Fields that cannot be measured come from --machine (default cpu2, h200x8). --shapes,\n"
            "--tokens and --dtypes select the matmuls, whole and in chunks; --json gets the "
            "result\n"
            "of each probe")
        ->group(group);
    line.add_flag("--probes", o.probes, "with --stage: programs for --calibrate")->group(group);
    line.text(
            "--tune", o.tune, "FILE",
            "measure the candidates of least predicted time of each loop, and store the quickest\n"
            "in FILE, for tandem-compile --tuned (docs/benchmarking.md). Needs --machine")
        ->group(group);
    compiled.push_back(line.list("--program", o.programs, "FILE.mlir,...",
                                 "with --tune: programs to tune, instead of --shapes")
                           ->group(group));
  }

  void addRanks() {
    const char *group = "Ranks: as in tandem-run";
    line.number("-n", o.ranks, 2, 65536, "N",
                "start N ranks on this host; default: the ranks of mpirun, srun or torchrun")
        ->group(group);
    line.choice("--device", o.device, {"cpu", "cuda"}, "default cpu")->group(group);
    line.channels("--channel", o.channel, "default ucx; local: threads")->group(group);
    line.add_flag("--threads", o.threads, "with ccl or peer: ranks are threads")->group(group);
    line.seconds("--timeout", o.timeout, "end a run that makes no progress; default 60")
        ->group(group);
    line.add_flag("--prefix", o.prefix, "prefix each output line of a rank with \"[rank] \"")
        ->group(group);
  }

  void addHow() {
    for (CLI::Option *option :
         {line.text(
              "--modes", o.modeList, "LIST",
              "direct, graph, traced (as tandem-run --trace); default: direct, and graph if the\n"
              "device has graphs"),
          line.number("--iterations", o.iterations, 1, 1000000, "K", "timed rounds; default 30"),
          line.number("--warmup", o.warmup, 0, 1000000, "K", "untimed rounds first; default 4"),
          line.number("--sets", o.sets, 1, 64, "K", "sets of inputs, used in rotation; default 2"),
          line.number("--batch", o.batch, 1, 100000, "K",
                      "runs enqueued back to back in each timed turn; default 1"),
          line.real("--gap", o.gapMs, 0, 60000, "MS", "pause before each turn; default 0"),
          line.seconds("--row-time", o.rowTime,
                       "limit per case: fewer rounds if it takes longer, at least 3; default 20"),
          line.seconds("--total-time", o.totalTime,
                       "start no case after this time and list the rest; default: no limit"),
          line.choice(
              "--verify", o.verify, {"auto", "all", "none"},
              "compare with the unsharded reference before and after timing; auto: small shapes"),
          line.number("--seed", o.seed, 0, ~uint64_t(0), "S", "of the inputs; default 0"),
          line.real("--link-rate", o.linkRate, 1e-6, 1e6, "GB/S",
                    "rate at which a rank can receive; default: measured by a ring"),
          line.number("--link-bytes", o.linkBytes, 4, uint64_t(1) << 34, "BYTES",
                      "message size of that ring (a multiple of 4; default 64 MiB)")})
      option->group("How");
  }

  Status checkCalibration() {
    if (o.probes && o.stage.empty())
      return wrong("--probes: only with --stage");
    if (!o.calibrate.empty() && !o.stage.empty())
      return wrong("--calibrate: measures; use --stage --probes to compile its programs");
    if (!o.probeFigures.empty() && o.calibrate.empty())
      return wrong("--probe-figures: only with --calibrate");
    o.probes |= !o.calibrate.empty();
    if (!o.probes)
      return Status();
    for (const CLI::Option *option : matmuls)
      o.probesShapes |= option->count() > 0;
    TANDEM_RETURN_IF_ERROR(refuseOptions(schedules, "a calibration runs no schedules"));
    if (!o.probeFigures.empty() && o.probesShapes)
      return wrong(
          "--shapes, --tokens, --dtypes: not with --probe-figures, which contains its matmuls");
    if (o.machine.empty() && o.probeFigures.empty())
      o.machine = o.device == "cuda" ? "h200x8" : "cpu2";
    return Status();
  }

  Options &o;
  CommandLine line;
  std::vector<CLI::Option *> compiled;  ///< of programs to compile; not with a folder
  std::vector<CLI::Option *> matmuls;   ///< the matmuls that a calibration probes
  std::vector<CLI::Option *> schedules; ///< not with a calibration
};

Status setModes(Options &o) {
  bool gpu = o.device == "cuda";
  if (o.modeList.empty())
    o.modeList = gpu ? "direct,graph" : "direct";
  for (const std::string &name : splitList(o.modeList)) {
    TANDEM_RETURN_IF_ERROR(
        checkChoice(name, {"direct", "graph", "traced"}).withPrefix("--modes: "));
    Mode mode = *modeNamed(name);
    if (mode == Mode::Graph && !gpu)
      return wrong(fmt::format("--modes: device {} has no graphs", o.device));
    if (mode == Mode::Traced && o.probes)
      return wrong("--modes: a calibration does not trace");
    o.modes.push_back(mode);
  }
  return Status();
}

} // namespace

Expected<Options> bench::parseOptions(const std::vector<std::string> &arguments) {
  Options o;
  TANDEM_RETURN_IF_ERROR(Parser(o).parse(arguments));
  if (!o.text.empty())
    return o;
  o.commandLine = fmt::format("{}", fmt::join(arguments, " "));
  o.linkRate *= 1e9;
  if (!o.programs.empty() && o.tune.empty())
    return wrong("--program: only with --tune");
  if (!o.tune.empty() && (o.probes || !o.calibrate.empty()))
    return wrong("--tune: not with --calibrate or --probes");
  if (!o.tune.empty() && o.folder.empty() && o.machine.empty())
    return wrong("--tune: expected --machine, whose costs say which candidates are worth a try");
  if (o.linkBytes % 4 != 0)
    return wrong(fmt::format("--link-bytes: expected a multiple of 4, found \"{}\"", o.linkBytes));
  if (namesChannel(o.channel, "local"))
    o.threads = true;
  if (o.threads && namesChannel(o.channel, "ucx"))
    return wrong("--threads: ranks of channel ucx are processes");
  TANDEM_RETURN_IF_ERROR(setModes(o));
  if (!o.folder.empty() || !o.probeFigures.empty())
    return o;
  if (!hasCompiler())
    return wrong("expected a folder of programs: this tandem-bench was built without the compiler "
                 "(tandem-bench --stage=FOLDER writes them on another machine)");
  if (!o.stage.empty() && !o.ranks)
    return wrong("--stage: expected -n N");
  if (o.target.empty())
    o.target = targetFor(o.device, o.channel);
  std::string base = o.target.substr(0, o.target.find(':')); // without architectures
  TANDEM_RETURN_IF_ERROR(checkChoice(base, targetNames()).withPrefix("--target: "));
  if (o.programs.empty()) {
    TANDEM_ASSIGN_OR_RETURN(o.cases, parseCases(o.shapes, o.tokens, o.dtypes));
  }
  TANDEM_ASSIGN_OR_RETURN(o.schedules, parseSchedules(o.scheduleList));
  return o;
}
