//===- Bench.h - a whole bench on one rank ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BENCH_BENCH_H
#define TANDEM_BENCH_BENCH_H

#include "Options.h"
#include "tandem-c/Runtime.h"
#include "tandem/Runtime/Bootstrap.h"

#include <cstdint>

namespace tandem::bench {

/// Exit statuses.
inline constexpr int kWrong = 1; ///< a rank failed, or a result is wrong
inline constexpr int kUsageError = 2;
inline constexpr int kSlower = 3; ///< --fail-if-slower
inline constexpr int kTimeUp = 4; ///< --total-time: rows are left

/// Whether there is such a machine, if one was named, and it has room for so many ranks.
Status checkMachine(const Options &options, uint32_t ranks);
/// Checks what can be checked before ranks are started: files, folder, number of ranks.
Expected<uint32_t> checkSuite(const Options &options, uint32_t ranks);

/// Makes a machine file of --probe-figures. The exit status.
int calibrateAgain(const Options &options);

/// Collective. Rank 0 prints and writes the reports. The exit status.
int runBench(const Options &options, Bootstrap &bootstrap, tandem_local_world *world);

} // namespace tandem::bench

#endif // TANDEM_BENCH_BENCH_H
