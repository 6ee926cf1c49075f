//===- main.cpp - tandem-bench ----------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bench.h"
#include "Ranks.h"
#include "Suite.h"
#include "tandem-c/Runtime.h"

#include <fmt/format.h>

using namespace tandem;
using namespace tandem::bench;

static int fail(const Status &status) {
  fmt::print(stderr, "tandem-bench: {}\n", status.message());
  return kUsageError;
}

static int stage(const Options &options) {
  if (Status machine = checkMachine(options, options.ranks); !machine.ok())
    return fail(machine);
  auto suite = compileSuite(options, options.ranks);
  auto written = writeSuite(*suite, options.stage);
  if (!written)
    return fail(written.status());
  fmt::print("{}\n", *written);
  return 0;
}

static int start(const Options &options, const std::vector<std::string> &arguments) {
  auto ranks = checkSuite(options, options.ranks);
  if (!ranks)
    return fail(ranks.status());
  if (options.threads) {
    auto code = run::runThreadRanks(*ranks, options.timeout,
                                    [&](Launch &launch, tandem_local_world *world) {
                                      return runBench(options, launch, world);
                                    });
    return code ? *code : fail(code.status());
  }
  auto exits = run::spawnSelf("tandem-bench", *ranks, arguments, options.prefix, options.timeout);
  return exits ? exitCodeOf(*exits) : fail(exits.status());
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
    fmt::print("tandem-bench {}\n", tandem_version());
    return 0;
  }
  if (!options->stage.empty())
    return stage(*options);
  if (!options->probeFigures.empty())
    return calibrateAgain(*options);
  auto environment = readLaunchEnvironment();
  if (!environment)
    return fail(environment.status());
  auto starts = run::startsRanks(*environment, options->ranks, options->threads, options->channel);
  if (!starts)
    return fail(starts.status());
  if (*starts)
    return start(*options, arguments);
  auto ranks = checkSuite(*options, environment->worldSize);
  if (!ranks)
    return fail(ranks.status());
  auto launch = run::joinRanks(*environment, options->timeout);
  if (!launch)
    return fail(launch.status());
  return runBench(*options, **launch, nullptr);
}
