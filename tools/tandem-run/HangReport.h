//===- HangReport.h - who waits for whom ------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_HANGREPORT_H
#define TANDEM_RUN_HANGREPORT_H

#include "HangBoard.h"
#include "Session.h"

#include <functional>
#include <string>
#include <vector>

namespace tandem::run {

/// Writes the report of --hang-report, see docs/operations.md. `states`: of each rank's process, as
/// text ("running", "stopped", "ended by signal 9"), or empty: threads. `program`: the bytes of a
/// program of the command line. Says on stderr who waits for whom.
Status writeHangReport(const std::string &path, const HangBoard &board,
                       const std::vector<std::string> &states,
                       const std::function<Expected<ProgramBytes>(size_t)> &program);

} // namespace tandem::run

#endif // TANDEM_RUN_HANGREPORT_H
