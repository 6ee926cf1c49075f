//===- main.cpp - tandem-check: can this program hang or race ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Program.h"
#include "tandem/Replay/Check.h"
#include "tandem/Replay/World.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <string>
#include <string_view>

using namespace tandem;

namespace {

constexpr const char *kUsage = R"(usage: tandem-check [options] program.tsp

Replays the command lists of all ranks and says whether the program can hang, race, read what
nobody wrote, or compute something else than the fusion it was made of. What is proven stands in
docs/semantics.md.

  --buffered        two-sided sends complete without their receives (default: they may block)
  --queues=K        the streams of a rank share K in-order hardware queues, in any way
                    (default: 8 for GPU targets; 0 = every stream has its own)
  --lint            also say what is legal but costs
  --json            print a JSON object instead of text
  --data=STEPS      compare results with the oracle's: at all indices if that takes at most so many
                    steps, else at some; what is not looked at counts as not decided (default:
                    50000000 steps, and what is not looked at is only said); 0 = never
  --max-findings=N  of each kind (default 8)
  --threads=N       default: one a core, at most 8
  --time            say on the standard error what took how long
  --help, --version

exit status: 0 no error (lint warnings do not count), 1 errors were found, 2 bad arguments, or the
file cannot be read or is no valid stream program, 3 nothing is known to be wrong, but not all could
be decided
)";

constexpr int kOk = 0, kErrors = 1, kBadInput = 2, kUndecided = 3;

struct Options {
  check::CheckOptions check;
  std::string path;
  bool json = false, time = false, queuesGiven = false, done = false;
};

int fail(const std::string &message) {
  fmt::print(stderr, "tandem-check: error: {}\n", message);
  return kBadInput;
}

bool parseNumber(std::string_view text, unsigned &out) {
  if (text.empty() || text.size() > 6 || text.find_first_not_of("0123456789") != text.npos)
    return false;
  out = static_cast<unsigned>(std::strtoul(std::string(text).c_str(), nullptr, 10));
  return true;
}

bool parseSteps(std::string_view text, uint64_t &out) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != text.npos)
    return false;
  out = std::strtoull(std::string(text).c_str(), nullptr, 10);
  return true;
}

/// 0, or an exit status.
int parse(int argc, char **argv, Options &options) {
  for (int i = 1; i < argc; ++i) {
    std::string_view arg = argv[i];
    auto number = [&](std::string_view flag, unsigned &out) {
      if (arg.substr(0, flag.size() + 1) != std::string(flag) + "=")
        return 1; // not this one
      return parseNumber(arg.substr(flag.size() + 1), out)
                 ? 0
                 : fail(fmt::format("{}: expected a number, found \"{}\"", flag,
                                    arg.substr(flag.size() + 1)));
    };
    if (arg == "--help" || arg == "-h") {
      fmt::print("{}", kUsage);
      options.done = true;
      return kOk;
    }
    if (arg == "--version") {
      fmt::print("tandem-check {}\n", TANDEM_VERSION);
      options.done = true;
      return kOk;
    }
    if (arg == "--buffered") {
      options.check.bufferedSends = true;
    } else if (arg == "--lint") {
      options.check.lint = true;
    } else if (arg == "--json") {
      options.json = true;
    } else if (arg == "--time") {
      options.time = true;
    } else if (int code = number("--queues", options.check.queues); code != 1) {
      if (code)
        return code;
      options.queuesGiven = true;
    } else if (int code = number("--max-findings", options.check.maxFindings); code != 1) {
      if (code)
        return code;
    } else if (int code = number("--threads", options.check.threads); code != 1) {
      if (code)
        return code;
    } else if (arg.substr(0, 7) == "--data=") {
      if (!parseSteps(arg.substr(7), options.check.dataSteps))
        return fail(fmt::format("--data: expected a number, found \"{}\"", arg.substr(7)));
      options.check.dataWanted = options.check.dataSteps > 0;
    } else if (arg.size() > 1 && arg[0] == '-') {
      return fail(fmt::format("unknown option \"{}\"; see --help", arg));
    } else if (!options.path.empty()) {
      return fail(fmt::format("one program at a time: \"{}\" and \"{}\"", options.path, arg));
    } else {
      options.path = arg;
    }
  }
  return options.path.empty() ? fail("no program given; see --help") : kOk;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  if (int code = parse(argc, argv, options); code || options.done)
    return code;
  using Clock = std::chrono::steady_clock;
  auto start = Clock::now();
  auto file = ProgramFile::open(options.path);
  if (!file)
    return fail(file.status().message());
  auto world = replay::World::load(**file);
  if (!world)
    return fail(world.status().message());
  auto loaded = Clock::now();
  if (!options.queuesGiven)
    options.check.queues = check::defaultQueues((*world)->target);
  check::Report report = check::check(**world, options.check);
  auto checked = Clock::now();
  fmt::print("{}", options.json ? check::toJson(**world, report) : check::toText(**world, report));
  if (options.time) {
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
