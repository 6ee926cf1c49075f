//===- main.cpp - tandem-run ------------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One binary is launcher and rank: with -n, or where nothing else has started it as part of a job,
// it starts the ranks; otherwise it is one.
//
//===----------------------------------------------------------------------===//

#include "Launcher.h"
#include "Ranks.h"
#include "tandem-c/Runtime.h"

#include <fmt/format.h>

using namespace tandem;
using namespace tandem::run;

static int fail(const Status &status) {
  fmt::print(stderr, "tandem-run: {}\n", status.message());
  return 2;
}

int main(int argc, char **argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  auto options = parseOptions(arguments);
  if (!options)
    return fail(options.status());
  if (options->help) {
    fmt::print("{}", kUsage);
    return 0;
  }
  if (options->version) {
    fmt::print("tandem-run {}\n", tandem_version());
    return 0;
  }
  auto environment = readLaunchEnvironment();
  if (!environment)
    return fail(environment.status());

  auto launches = startsRanks(*environment, options->ranks, options->threads, options->channel);
  if (!launches)
    return fail(launches.status());
  if (*launches)
    return options->threads ? runThreads(*options) : runProcesses(*options, arguments);
  return runAsRank(*options, *environment);
}
