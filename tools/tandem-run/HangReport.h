//===- HangReport.h - who waits for whom ------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_HANGREPORT_H
#define TANDEM_RUN_HANGREPORT_H

#include "tandem/Program/Status.h"

#include <string>
#include <vector>

namespace tandem::run {

/// Writes the report of --hang-report to `path`, from the files of the ranks' flight recorders,
/// `path`.rank0 and so on (docs/operations.md). `states`: of each rank's process ("running",
/// "stopped", "ended by signal 9"), or "": a thread. Prints the summary on stderr.
Status writeHangReport(const std::string &path, const std::vector<std::string> &states);
/// Removes files of ranks that an earlier job has left.
void removeRecords(const std::string &path);

} // namespace tandem::run

#endif // TANDEM_RUN_HANGREPORT_H
