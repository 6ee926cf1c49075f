//===- Ranks.h - ranks as processes and as threads --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_RANKS_H
#define TANDEM_RUN_RANKS_H

#include "tandem-c/Runtime.h"
#include "tandem/Runtime/Bootstrap.h"
#include "tandem/Runtime/Environment.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tandem::run {

/// Signals by which somebody ends a job.
constexpr std::array<int, 3> kEndingSignals = {SIGINT, SIGTERM, SIGHUP};
/// Whether this process neither ignores the signal (as below nohup) nor handles it.
bool endsProcess(int signal);

struct SpawnOptions {
  uint32_t ranks = 1;
  /// What to run; argv[0] is the path of the binary ("/proc/self/exe" is oneself).
  std::vector<std::string> argv;
  /// Once a rank has died or failed: how long the others may go on, so that they can say what they
  /// were waiting for; then they are killed.
  std::chrono::milliseconds grace{5000};
  /// `grace` also starts when a rank has ended well: none has anything to do alone then.
  bool endTogether = false;
  /// Called with the state of each rank's process ("running", "stopped", "ended by signal 9"), when
  /// ranks are about to be killed; when all have ended and one has failed, and was not killed; and
  /// on SIGUSR1, which the ranks ignore.
  std::function<void(const std::vector<std::string> &states)> onTrouble;
  /// All ranks are killed after this; 0: never.
  std::chrono::milliseconds limit{0};
  /// Ranks notice if some of them are stopped. If all are that have not ended, they are killed
  /// after this; 0: never. Time in which the launcher is stopped, too, does not count, and a rank
  /// that a debugger has stopped counts as running.
  std::chrono::milliseconds mostStopped{0};
};

/// How one rank ended.
struct RankExit {
  int code = -1;        ///< exit code; -1 if a signal ended it
  int signal = 0;       ///< the signal that ended it, else 0
  bool killed = false;  ///< by the launcher, because of another rank or a limit
  bool stopped = false; ///< killed because of mostStopped
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

/// Whether this process starts the ranks, and is none: where nothing has started it as part of a
/// job. A batch script of Slurm looks like rank 0 of its job: there -n (`asked`; 0: not given)
/// decides. An error if this is a rank of another world than was asked for, or ranks should be
/// threads and are processes.
Expected<bool> startsRanks(const BootstrapEnvironment &environment, uint32_t asked, bool threads,
                           const std::string &channels);

/// Starts `ranks` processes of this binary with these arguments, waits for their end and says how
/// each ended that did not end well. `timeout`: within which ranks notice that one has died;
/// `endTogether`, `onTrouble`: as in SpawnOptions.
Expected<std::vector<RankExit>>
spawnSelf(const std::string &tool, uint32_t ranks, const std::vector<std::string> &arguments,
          std::chrono::milliseconds timeout, bool endTogether,
          std::function<void(const std::vector<std::string> &states)> onTrouble = {});

/// What one rank does; the result is its exit code. `world`: of ranks that are threads, else null.
using RankMain = std::function<int(Bootstrap &bootstrap, tandem_local_world *world)>;

/// One thread a rank, in a world of the runtime and with a bootstrap of its own for what the tool
/// exchanges. The largest exit code.
Expected<int> runThreadRanks(uint32_t ranks, std::chrono::milliseconds timeout,
                             const RankMain &main);

/// This process as a rank of the job that `environment` says: connects to the others, within
/// TANDEM_LAUNCH_TIMEOUT if it is set, else within `timeout`.
Expected<std::unique_ptr<Bootstrap>> joinRanks(const BootstrapEnvironment &environment,
                                               std::chrono::milliseconds timeout);

/// "rank 3: message", once: the runtime's own errors begin with the rank.
std::string rankMessage(uint32_t rank, const std::string &message);

} // namespace tandem::run

#endif // TANDEM_RUN_RANKS_H
