//===- Options.cpp - the command line of tandem-run -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include "CommandLine.h"
#include "tandem/Runtime/Link.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <sstream>

using namespace tandem;
using namespace tandem::run;

std::string run::dumpFolder(const Options &options, const std::string &program) {
  return options.several() ? options.dumpNpy + "/" + std::filesystem::path(program).stem().string()
                           : options.dumpNpy;
}

/// An error if two programs would dump into one folder.
static Status checkFolders(const Options &o) {
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

static constexpr const char *kDescription =
    R"(Runs a stream program on all its ranks with seeded random inputs. Several programs run one after
another on the same ranks; -n or the first program sets their number. A program that is rejected or
gives a wrong result fails alone. An error after which the ranks cannot continue ends the series.
Each output line then begins with the program's file, and the last line is a summary:
"3 passed, 1 failed, 2 not run: FILE FILE". Exit status 0: all passed.)";

static Status parseExtent(const std::string &text, int64_t least, int64_t &extent) {
  char *end = nullptr;
  extent = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != 0 || extent < least)
    return Status(Code::InvalidArgument,
                  fmt::format("expected a number of at least {}, found \"{}\"", least, text));
  return Status();
}

namespace {
/// The command line, and the options that others rule out.
class Parser {
public:
  Expected<Options> parse(const std::vector<std::string> &arguments);

private:
  void addRanks();
  void addRuns();
  void addReports();
  /// Refuses options that do not go together.
  Status check();

  Options o;
  CommandLine line{"tandem-run", kDescription};
  CLI::Option *link = nullptr, *trace = nullptr;
};
} // namespace

void Parser::addRanks() {
  const char *ranks = "Ranks";
  line.number("-n", o.ranks, 1, 65536, "N",
              "start N ranks on this host. Default: the ranks started by mpirun, srun or\n"
              "torchrun (see Environment.h), else the number of ranks of the program")
      ->group(ranks);
  line.choice("--device", o.device, {"cpu", "null", "cuda", "hip"},
              "cpu (default); cuda, hip: GPU (local rank mod GPU count); null: computes nothing,\n"
              "to measure dispatch")
      ->group(ranks);
  line.channels(
          "--channel", o.channel,
          "default ucx: one process per rank; local: ranks are threads of one process;\n"
          "ccl, peer: GPUs, one process per rank, or with --threads one thread. Each channel of\n"
          "the program uses the first in the list with the capabilities that it needs.\n"
          "node:NAME comes first for ranks of one host, network:NAME for others")
      ->group(ranks);
  link = line.text("--link", o.link, "RATE,LATENCY[,stop=BYTES]",
                   "channels local and ucx: delay what ranks send as a link of this rate and\n"
                   "latency would, such as 2GB/s,20us (docs/benchmarking.md). With\n"
                   "2GB/s,20us,stop=1MB the link of each rank fails after a megabyte")
             ->group(ranks);
  line.add_flag("--threads", o.threads, "with ccl or peer: ranks are threads of one process")
      ->group(ranks);
  line.add_flag("--no-graph", o.noGraph,
                "cuda: launch every command separately; default: replay a graph if all commands\n"
                "can be captured")
      ->group(ranks);
  line.seconds("--timeout", o.timeout, "end a run that makes no progress; default 60")
      ->group(ranks);
}

void Parser::addRuns() {
  const char *runs = "Runs";
  line.add_flag(
          "--verify", o.verify,
          "compare with the unsharded reference in the file; exit status 0 only if they agree.\n"
          "All runs of a deterministic program must give the same bits")
      ->group(runs);
  line.add_flag("--require-proof", o.requireProof,
                "refuse a program without a complete certificate (tandem-compile writes it)")
      ->group(runs);
  line.add_flag("--no-native", o.noNative,
                "refuse a program with native code (PTX, code objects), which nothing checks "
                "before it runs")
      ->group(runs);
  line.list("--kernels", o.kernels, "FILE.so",
            "kernels of fusion.call: a shared library, see tandem-c/Kernel.h; repeatable")
      ->group(runs);
  line.custom(
          "--extent", "N[,...]",
          "extents of the dimensions that vary, each for one run, the last one for all others;\n"
          "default: the bound. Results are compared after each",
          [&](const std::string &value) {
            std::istringstream list(value);
            for (std::string one; std::getline(list, one, ',');)
              TANDEM_RETURN_IF_ERROR(parseExtent(one, 0, o.extents.emplace_back()));
            return Status();
          })
      ->group(runs);
  line.number("--repeat", o.repeat, 1, 100000000, "K", "timed runs; default 1")->group(runs);
  line.number("--warmup", o.warmup, 0, 100000000, "K", "untimed runs first; default 0")
      ->group(runs);
  line.number("--seed", o.seed, 0, ~uint64_t(0), "S", "of the inputs; default 0")->group(runs);
}

void Parser::addReports() {
  const char *reports = "Reports";
  line.text("--json", o.json, "FILE",
            "times, errors, bytes moved, commands; for several programs: a list, \"programs\"")
      ->group(reports);
  trace =
      line.text("--trace", o.trace, "FILE",
                "trace one extra run as a Chrome trace (for Perfetto, tandem-sim --compare, and\n"
                "tandem-sim --with to draw it); one program only")
          ->group(reports);
  line.text("--hang-report", o.hangReport, "FILE",
            "record in FILE.rank0, ... what each rank does; when ranks fail, stop or are killed,\n"
            "and on SIGUSR1: write who waits for whom (JSON). Ranks that are threads or that "
            "another\n"
            "launcher has started only record (docs/operations.md)")
      ->group(reports);
  line.text("--dump-npy", o.dumpNpy, "DIR",
            "write logical inputs and outputs as .npy (bf16 as uint16), listed in index.json;\n"
            "several programs: each into a folder named after its file, without the extension")
      ->group(reports);
}

Status Parser::check() {
  if (o.programs.empty())
    return Status(Code::InvalidArgument, "expected a program (.tsp); --help says more");
  if (o.several()) {
    TANDEM_RETURN_IF_ERROR(
        refuseOptions({trace}, fmt::format("expected one program, found {}", o.programs.size())));
    TANDEM_RETURN_IF_ERROR(checkFolders(o));
  }
  if (!o.link.empty()) {
    TANDEM_RETURN_IF_ERROR(LinkShape::parse(o.link).status().withPrefix("--link: "));
    for (const char *other : {"ccl", "peer"})
      if (namesChannel(o.channel, other))
        TANDEM_RETURN_IF_ERROR(refuseOptions(
            {link}, fmt::format("expected channel local or ucx, found \"{}\"", o.channel)));
  }
  if (namesChannel(o.channel, "local"))
    o.threads = true;
  if (o.threads && namesChannel(o.channel, "ucx"))
    return Status(Code::InvalidArgument, "--threads: ranks of channel ucx are processes");
  if (o.device == "null") {
    if (o.verify)
      return Status(Code::InvalidArgument, "--verify: device null computes nothing");
    TANDEM_RETURN_IF_ERROR(refuseOptions({trace}, "device null runs nothing"));
  }
  return Status();
}

Expected<Options> Parser::parse(const std::vector<std::string> &arguments) {
  line.add_option("program", o.programs, "stream programs, of tandem-compile")
      ->type_name("program.tsp");
  addRanks();
  addRuns();
  addReports();
  TANDEM_ASSIGN_OR_RETURN(o.text, line.parse(arguments));
  if (o.text.empty())
    TANDEM_RETURN_IF_ERROR(check());
  return std::move(o);
}

Expected<Options> run::parseOptions(const std::vector<std::string> &arguments) {
  return Parser().parse(arguments);
}
