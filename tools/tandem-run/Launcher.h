//===- Launcher.h - ranks as processes and as threads -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_LAUNCHER_H
#define TANDEM_RUN_LAUNCHER_H

#include "Options.h"
#include "tandem/Runtime/Environment.h"

#include <string>

namespace tandem::run {

/// Set for the ranks that tandem-run starts: the file descriptor of a SharedPrograms.
inline constexpr const char *kProgramsVariable = "TANDEM_RUN_PROGRAMS_FD";

/// The bytes of the .tsp: read, or compiled for `ranks` ranks (0: as many as it needs).
Expected<std::string> programBytes(const Options &options, const std::string &program,
                                   uint32_t ranks);

// Each prints what there is to say and returns the exit code.

/// One process a rank, of this binary with these arguments.
int runProcesses(const Options &options, const std::vector<std::string> &arguments);
/// One thread a rank.
int runThreads(const Options &options);
/// This process is one rank of a job that somebody has started.
int runAsRank(const Options &options, const BootstrapEnvironment &environment);

} // namespace tandem::run

#endif // TANDEM_RUN_LAUNCHER_H
