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

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::run;

static int fail(const Status &status) {
  fmt::print(stderr, "tandem-run: {}\n", status.message());
  return 2;
}

/// Who measures a machine is tandem-bench, which lies beside this binary; it takes all arguments.
static Status calibrate(char **argv) {
  std::error_code error;
  auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string tool = (self.parent_path() / "tandem-bench").string();
  if (!error)
    ::execv(tool.c_str(), argv);
  return Status(Code::Io, fmt::format("--calibrate: cannot start \"{}\": {}", tool,
                                      error ? error.message() : std::strerror(errno)));
}

int main(int argc, char **argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (std::any_of(arguments.begin(), arguments.end(), [](const std::string &argument) {
        return argument.rfind("--calibrate", 0) == 0;
      }))
    return fail(calibrate(argv));
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
    return options->threads ? runThreads(*options) : runProcesses(*options, arguments);
  return runAsRank(*options, *environment);
}
