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

  // A batch script of Slurm looks like rank 0 of its job: there -n decides.
  Launcher launcher = environment->launcher;
  bool launches =
      launcher == Launcher::None || (launcher == Launcher::Slurm && options->ranks != 0);
  if (launches)
    return options->threads ? runThreads(*options) : runProcesses(*options, arguments);
  if (options->ranks && options->ranks != environment->worldSize)
    return fail(
        Status(Code::InvalidArgument,
               fmt::format("-n {}, but {} has started this as rank {} of {}", options->ranks,
                           toString(launcher), environment->rank, environment->worldSize)));
  if (options->threads && environment->worldSize > 1)
    return fail(Status(Code::InvalidArgument,
                       fmt::format("--channel={}: ranks must be threads, but {} has started "
                                   "{} processes",
                                   options->channel, toString(launcher), environment->worldSize)));
  return runAsRank(*options, *environment);
}
