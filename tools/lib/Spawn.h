//===- Spawn.h - ranks as child processes -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_LIB_SPAWN_H
#define TANDEM_TOOLS_LIB_SPAWN_H

#include "tandem/Program/Status.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

struct SpawnOptions {
  uint32_t ranks = 1;
  /// What to run; argv[0] is the path of the binary ("/proc/self/exe" is oneself).
  std::vector<std::string> argv;
  /// Puts "[rank] " before each line that a rank writes; without it ranks inherit the streams.
  bool prefixOutput = false;
  /// Once a rank has died or failed: how long the others may go on, so that they can say what they
  /// were waiting for; then they are killed.
  std::chrono::milliseconds grace{5000};
  /// All ranks are killed after this; 0: never.
  std::chrono::milliseconds limit{0};
};

/// How one rank ended.
struct RankExit {
  int code = -1;       ///< exit code; -1 if a signal ended it
  int signal = 0;      ///< the signal that ended it, else 0
  bool killed = false; ///< by the launcher, because of another rank or the limit
  bool ok() const { return code == 0; }
};

/// Starts `ranks` processes with the TANDEM_* variables of Environment.h (rank 0 inherits a
/// listening socket), and waits until all have ended. None outlives the calling thread
/// (PR_SET_PDEATHSIG) or this call. An error: none was started, or one could not be.
Expected<std::vector<RankExit>> spawnRanks(const SpawnOptions &options);

/// What a launcher exits with: 0 if all ranks did; 128 + signal if a signal has ended one that the
/// launcher did not kill (that rank is the cause, others that failed are the effect); else the code
/// of the first that failed.
int exitCodeOf(const std::vector<RankExit> &exits);

} // namespace tandem

#endif // TANDEM_TOOLS_LIB_SPAWN_H
