//===- Measured.h - a trace of a measured run -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_MEASURED_H
#define TANDEM_RUN_MEASURED_H

#include "tandem/Program/Program.h"
#include "tandem/Runtime/Bootstrap.h"

#include <string>

namespace tandem::run {

/// One rank's run, in nanoseconds of its own monotonic clock.
struct MeasuredRun {
  int64_t begin = 0, end = 0;
  const int64_t *times = nullptr; ///< begin and end of each of `count` commands
  uint64_t count = 0;
};

/// Gathers the ranks' runs; rank 0 writes the trace `path`. Collective; an error of rank 0's file
/// is an error on all ranks.
Status traceRun(const ProgramFile &file, Bootstrap &bootstrap, const MeasuredRun &mine,
                const std::string &origin, const std::string &path);

} // namespace tandem::run

#endif // TANDEM_RUN_MEASURED_H
