//===- Session.h - one rank's runs ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_SESSION_H
#define TANDEM_RUN_SESSION_H

#include "Report.h"
#include "tandem-c/Runtime.h"
#include "tandem/Runtime/Launch.h"

#include <memory>

namespace tandem::run {

/// What runRank works with. The runtime is used through its C API, as an embedder would; the file
/// is read in C++, because only tools look at shards and oracles.
struct RankJob {
  const Options &options;
  std::string_view bytes; ///< of the .tsp
  Launch &launch;
  /// Ranks as threads; null: processes.
  tandem_local_world *localWorld = nullptr;
};

/// Makes inputs, runs, gathers and compares. Collective. Fills `report` on rank 0. An error is this
/// rank's; the others end with one of their own. A result that does not agree with the oracle is an
/// error and Report::failure on all ranks.
Status runRank(const RankJob &job, Report &report);

/// The program's ranks are those that were launched.
Status checkRanks(const ProgramFile &file, uint32_t launched);

} // namespace tandem::run

#endif // TANDEM_RUN_SESSION_H
