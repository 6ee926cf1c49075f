//===- Options.cpp - the command line of tandem-run -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include "CommandLine.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

using namespace tandem;
using namespace tandem::run;

const char *const run::kUsage =
    R"(usage: tandem-run program.tsp|program.mlir... [options]

Runs a stream program on all its ranks with seeded random inputs. Several run one after the other on
the same ranks, as many as -n or the first says. One that is refused or gives a wrong result fails
by itself; what the ranks cannot go on after ends the whole, and the rest is not run. Each line then
begins with the program's file, and a last one counts: "3 passed, 1 failed, 2 not run: FILE FILE".
Exit 0: all passed.

Ranks
  -n N                start N ranks here. Without it the ranks come from mpirun, srun or torchrun
                      (see Environment.h), and where there is none of them the program says how many
  --device=cpu|null|cuda
                      default cpu; null does nothing and measures dispatch; cuda: a rank uses the
                      GPU of its number on its node, modulo those there are
  --channel=ucx|local|ccl|peer[,...]
                      default ucx: one process a rank; local: ranks are threads of one process; ccl,
                      peer: GPUs, one process a rank, or with --threads one thread. Of several, each
                      channel of the program gets the first that can do what it needs
  --threads           with ccl or peer: ranks are threads of one process
  --no-graph          cuda: every command is launched by itself; default: a graph replays the run
                      where everything in it can be captured
  --timeout=SECONDS   ends a run that makes no progress; default 60
  --prefix            puts "[rank] " before each line that a rank prints

Compilation (of each program.mlir)
  --entry=NAME        function; default: the only one
  --mesh=x=4[,y=2]    sizes of mesh axes; an axis of unknown size gets N
  --shape=arg0=8x16   extents of an argument; may be given several times
  --target=NAME       default cpu-CHANNEL; cuda-nccl with ccl

Runs
  --verify            compare with the oracle of the file; exit 0 only if it agrees
  --repeat=K          timed runs; default 1
  --warmup=K          runs before them; default 0
  --seed=S            of the inputs; default 0

Reports
  --per-rank          one line a rank
  --json=FILE         times, errors, bytes moved, commands; of several: a list, "programs"
  --trace=FILE        one more run, measured, as a Chrome trace (Perfetto opens it; tandem-sim compares);
                      of one program only
  --svg=FILE          the same as a picture
  --dump-npy=DIR      logical inputs and outputs as .npy and their list as index.json (bf16 as uint16);
                      of several: in a folder each, called as the file without its extension

tandem-run --calibrate=FILE [options]
                      a machine file of what is here: the same as tandem-bench --calibrate, whose
                      options it takes
)";

bool run::isSource(const std::string &program) {
  return program.size() > 5 && program.compare(program.size() - 5, 5, ".mlir") == 0;
}

std::string run::dumpFolder(const Options &options, const std::string &program) {
  return options.several() ? options.dumpNpy + "/" + std::filesystem::path(program).stem().string()
                           : options.dumpNpy;
}

/// What several programs cannot have together.
static Status checkSeveral(const Options &o) {
  for (auto [option, given] : {std::pair("--trace", !o.trace.empty()), {"--svg", !o.svg.empty()}})
    if (given)
      return Status(Code::InvalidArgument,
                    fmt::format("{}: expected one program, found {}", option, o.programs.size()));
  std::map<std::string, std::string> folders;
  for (const std::string &program : o.programs) {
    if (o.dumpNpy.empty())
      break;
    auto [other, isNew] = folders.emplace(dumpFolder(o, program), program);
    if (!isNew)
      return Status(Code::InvalidArgument,
                    fmt::format("--dump-npy: \"{}\" and \"{}\" would both be written to \"{}\"",
                                other->second, program, other->first));
  }
  return Status::success();
}

Expected<Options> run::parseOptions(const std::vector<std::string> &arguments) {
  Options o;
  auto appendTo = [](std::vector<std::string> &list) -> OptionHandler {
    return [&list](const std::string &, const std::string &value) {
      for (std::string &part : splitList(value))
        list.push_back(std::move(part));
      return Status::success();
    };
  };
  CommandLine line;
  line.flags = {{"--verify", &o.verify},   {"--per-rank", &o.perRank}, {"--prefix", &o.prefix},
                {"--version", &o.version}, {"--help", &o.help},        {"-h", &o.help},
                {"--threads", &o.threads}, {"--no-graph", &o.noGraph}};
  line.values = {{"-n", numberOption(o.ranks, 1, 65536)},
                 {"--entry", textOption(o.entry)},
                 {"--target", textOption(o.target)},
                 {"--json", textOption(o.json)},
                 {"--dump-npy", textOption(o.dumpNpy)},
                 {"--trace", textOption(o.trace)},
                 {"--svg", textOption(o.svg)},
                 {"--mesh", appendTo(o.mesh)},
                 {"--shape", appendTo(o.shapes)},
                 {"--device", choiceOption(o.device, {"cpu", "null", "cuda"})},
                 {"--channel", channelsOption(o.channel)},
                 {"--timeout", secondsOption(o.timeout)},
                 {"--repeat", numberOption(o.repeat, 1, 100000000)},
                 {"--warmup", numberOption(o.warmup, 0, 100000000)},
                 {"--seed", numberOption(o.seed, 0, ~uint64_t(0))}};
  line.positional = [&](const std::string &argument) {
    o.programs.push_back(argument);
    return Status::success();
  };
  TANDEM_RETURN_IF_ERROR(line.parse(arguments));
  if (o.help || o.version)
    return o;
  if (o.programs.empty())
    return Status(Code::InvalidArgument, "expected a program (.tsp or .mlir); --help says more");
  if (o.several())
    TANDEM_RETURN_IF_ERROR(checkSeveral(o));
  if (std::none_of(o.programs.begin(), o.programs.end(), isSource))
    for (auto [option, given] : {std::pair("--entry", !o.entry.empty()),
                                 {"--mesh", !o.mesh.empty()},
                                 {"--shape", !o.shapes.empty()},
                                 {"--target", !o.target.empty()}})
      if (given)
        return Status(Code::InvalidArgument,
                      fmt::format("{}: only for a program that is still to be compiled (.mlir), "
                                  "found \"{}\"",
                                  option, o.programs[0]));
  if (namesChannel(o.channel, "local"))
    o.threads = true;
  if (o.threads && namesChannel(o.channel, "ucx"))
    return Status(Code::InvalidArgument, "--threads: ranks of channel ucx are processes");
  if (o.verify && o.device == "null")
    return Status(Code::InvalidArgument, "--verify: device null computes nothing");
  if ((!o.trace.empty() || !o.svg.empty()) && o.device == "null")
    return Status(Code::InvalidArgument, "--trace, --svg: device null runs nothing");
  return o;
}
