//===- Measure.h - a measured run as a timeline -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_MEASURE_H
#define TANDEM_RUN_MEASURE_H

#include "tandem-c/Runtime.h"
#include "tandem/Program/Program.h"
#include "tandem/Runtime/Bootstrap.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::run {

/// One rank's run, in nanoseconds of its own monotonic clock.
struct MeasuredRun {
  int64_t begin = 0, end = 0;
  const tandem_command_time *times = nullptr; ///< `count` of them, one per command
  uint64_t count = 0;
};

/// Gathers the ranks' runs; rank 0 writes `trace` and `svg` (empty: not wanted). Collective; an
/// error of rank 0's files is an error on all ranks.
Status drawRun(const ProgramFile &file, Bootstrap &bootstrap, const MeasuredRun &mine,
               const std::string &origin, const std::string &trace, const std::string &svg);

} // namespace tandem::run

#endif // TANDEM_RUN_MEASURE_H
