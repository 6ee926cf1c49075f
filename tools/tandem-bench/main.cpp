//===- main.cpp - tandem-bench ----------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bench.h"
#include "Ranks.h"
#include "Suite.h"

#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <system_error>
#include <unistd.h>

using namespace tandem;
using namespace tandem::bench;

static int fail(const Status &status) {
  fmt::print(stderr, "tandem-bench: {}\n", status.message());
  return kUsageError;
}

namespace {

/// Each instance tunes its matmuls anew unless what was chosen is written down: a product that is
/// in several programs is to be computed by one algorithm, and tuned once. A file of the caller's,
/// if there is one; else one that goes with this. Ranks that are started here use it, too.
class AlgorithmFile {
public:
  explicit AlgorithmFile(const Options &options) {
    std::error_code none;
    std::filesystem::path folder = std::filesystem::temp_directory_path(none);
    if (options.device != "cuda" || std::getenv(kName) || none)
      return;
    path = folder / fmt::format("tandem-bench-{}.algorithms", getpid());
    std::filesystem::remove(path, none);
    setenv(kName, path.c_str(), 1);
  }
  ~AlgorithmFile() {
    std::error_code ignored;
    if (!path.empty())
      std::filesystem::remove(path, ignored);
  }
  AlgorithmFile(const AlgorithmFile &) = delete;
  AlgorithmFile &operator=(const AlgorithmFile &) = delete;

private:
  static constexpr const char *kName = "TANDEM_ALGORITHMS";
  std::filesystem::path path;
};

} // namespace

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
                                    [&](Bootstrap &bootstrap, tandem_local_world *world) {
                                      return runBench(options, bootstrap, world);
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
  if (!options->text.empty()) {
    fmt::print("{}", options->text);
    return 0;
  }
  if (!options->stage.empty())
    return stage(*options);
  if (!options->probeFigures.empty())
    return calibrateAgain(*options);
  AlgorithmFile algorithms(*options);
  auto environment = readBootstrapEnvironment();
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
  auto bootstrap = run::joinRanks(*environment, options->timeout);
  if (!bootstrap)
    return fail(bootstrap.status());
  return runBench(*options, **bootstrap, nullptr);
}
