//===- main.cpp - tandem-check: can this program hang or race ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"
#include "ToolMain.h"

#include "tandem/Program/Printable.h"
#include "tandem/Program/Program.h"
#include "tandem/Replay/Check.h"
#include "tandem/Replay/World.h"

#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <string>

using namespace tandem;

namespace {

constexpr const char *kDescription =
    R"(Replays the command lists of all ranks and reports whether the program can hang, race, read
unwritten memory, or compute another result than its unsharded reference. docs/semantics.md states
what is proven.

Exit status: 0 no error (lint warnings do not count); 1 errors; 2 bad arguments, an unreadable file or
an invalid stream program; 3 no error found, but not everything could be decided.)";

constexpr int kOk = 0, kErrors = 1, kBadInput = 2, kUndecided = 3;

int fail(const std::string &message) {
  fmt::print(stderr, "tandem-check: error: {}\n", escapeControls(message));
  return kBadInput;
}

} // namespace

static int checkMain(int argc, char **argv) {
  check::CheckOptions options;
  std::string path, otherPath;
  bool json = false, time = false;
  run::CommandLine line("tandem-check", kDescription);
  line.add_option("program", path, "a stream program")->type_name("program.tsp");
  line.add_flag("--buffered", options.bufferedSends,
                "two-sided sends complete without their receives (default: they may block)");
  CLI::Option *queues =
      line.number("--queues", options.queues, 0, 999999, "K",
                  "map each rank's streams to K in-order hardware queues, in all ways\n(default: 8 "
                  "for GPU targets; 0: each stream has its own)");
  CLI::Option *sms = line.number(
      "--sms", options.sms.total, 0, 999999, "N",
      "SMs of each rank's GPU, which kernels that wait may hold (default: 132 for GPU targets,\n"
      "96 for hip targets; 0: not checked)");
  line.add_flag("--lint", options.lint, "also report legal but slow code");
  line.add_flag("--json", json, "print a JSON object instead of text");
  CLI::Option *data =
      line.number("--data", options.dataSteps, 0, 999999999999999999, "STEPS",
                  "compare results with the unsharded reference at all indices if this takes at\n"
                  "most STEPS steps, else at some. Commands that are not covered count as not\n"
                  "decided. Default: 50000000, where they are only reported. 0: never");
  line.add_option(
          "--same-bits", otherPath,
          "also prove that the results have the same bits as those of this program, e.g. the\n"
          "baseline of a deterministic one (tandem-compile --baseline)")
      ->type_name("FILE");
  line.number("--max-findings", options.maxFindings, 0, 999999, "N",
              "report at most N findings of each kind (default 8)");
  line.number("--threads", options.threads, 0, 999999, "N", "default: one per core, at most 8");
  line.add_flag("--time", time, "print the time that each part took to the standard error");
  auto text = line.parse({argv + 1, argv + argc});
  if (!text)
    return fail(text.status().message());
  fmt::print("{}", *text);
  if (!text->empty())
    return kOk;
  if (path.empty())
    return fail("no program given; see --help");
  options.dataWanted = data->count() > 0 && options.dataSteps > 0;
  using Clock = std::chrono::steady_clock;
  auto start = Clock::now();
  auto file = ProgramFile::open(path);
  if (!file)
    return fail(file.status().message());
  auto world = replay::World::load(**file);
  if (!world)
    return fail(world.status().message());
  std::shared_ptr<const replay::World> other;
  if (!otherPath.empty()) {
    auto otherFile = ProgramFile::open(otherPath);
    auto loadedOther = otherFile
                           ? replay::World::load(**otherFile)
                           : Expected<std::shared_ptr<const replay::World>>(otherFile.status());
    if (!loadedOther)
      return fail(loadedOther.status().message());
    other = *loadedOther;
    options.sameBits = other.get();
    options.dataWanted = true;
  }
  auto loaded = Clock::now();
  if (queues->count() == 0)
    options.queues = check::defaultQueues((*world)->target);
  if (sms->count() == 0)
    options.sms = check::defaultSMs((*world)->target);
  check::Report report = check::check(**world, options);
  auto checked = Clock::now();
  fmt::print("{}", json ? check::toJson(**world, report)
                        : escapeControls(check::toText(**world, report)));
  if (time) {
    auto ms = [](Clock::duration d) {
      return std::chrono::duration<double, std::milli>(d).count();
    };
    fmt::print(stderr, "loaded in {:.1f} ms, checked in {:.1f} ms\n", ms(loaded - start),
               ms(checked - loaded));
  }
  if (report.hasErrors())
    return kErrors;
  return report.limits.empty() ? kOk : kUndecided;
}

int main(int argc, char **argv) {
  return run::runTool("tandem-check", kBadInput, [&] { return checkMain(argc, argv); });
}
