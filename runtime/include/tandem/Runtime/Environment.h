//===- Environment.h - the job, from environment variables ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The environment variables that identify this process. Launchers are looked up in this order; the
// first one found wins:
//
//   tandem    TANDEM_RANK, TANDEM_WORLD_SIZE                  (set by tandem-run -n)
//   torchrun  TORCHELASTIC_RUN_ID, RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
//   openmpi   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE      (mpirun)
//   torch     RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT      (set by hand or by a job system)
//   slurm     SLURM_PROCID, SLURM_NTASKS                      (srun)
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_ENVIRONMENT_H
#define TANDEM_RUNTIME_ENVIRONMENT_H

#include "tandem/Program/Status.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// The launcher of this process.
enum class Launcher : uint8_t { None, Tandem, Torchrun, OpenMpi, Torch, Slurm };
/// "none", "tandem", "torchrun", "openmpi", "torch", "slurm".
std::string_view toString(Launcher launcher);

/// One process's place in its job. Each field lists its variables; the first one set wins. A
/// malformed value is an error that names the variable.
struct BootstrapEnvironment {
  Launcher launcher = Launcher::None;

  /// TANDEM_RANK | RANK | OMPI_COMM_WORLD_RANK | SLURM_PROCID
  uint32_t rank = 0;
  /// TANDEM_WORLD_SIZE | WORLD_SIZE | OMPI_COMM_WORLD_SIZE | SLURM_STEP_NUM_TASKS, SLURM_NTASKS
  uint32_t worldSize = 1;
  /// TANDEM_LOCAL_RANK | LOCAL_RANK | OMPI_COMM_WORLD_LOCAL_RANK | SLURM_LOCALID. Not set: the
  /// rank.
  uint32_t localRank = 0;
  /// TANDEM_LOCAL_WORLD_SIZE | LOCAL_WORLD_SIZE | OMPI_COMM_WORLD_LOCAL_SIZE |
  /// SLURM_STEP_TASKS_PER_NODE, SLURM_TASKS_PER_NODE (entry SLURM_NODEID). Not set: the world's
  /// size.
  uint32_t localSize = 1;
  /// Which of the two are set. joinJob() finds the others.
  bool localRankKnown = false, localSizeKnown = false;

  /// A text that is equal on the ranks of one host, and only there. TANDEM_NODE | GROUP_RANK (under
  /// torchrun) | SLURM_NODEID. Empty: not said; then hosts are distinguished by name.
  std::string node;

  /// Hosts or addresses where rank 0 listens, tried in turn. TANDEM_MASTER_ADDR (commas separate) |
  /// MASTER_ADDR | the first host of SLURM_STEP_NODELIST, SLURM_JOB_NODELIST. Under mpirun:
  /// 127.0.0.1 if all ranks are on one host; on several, MASTER_ADDR and MASTER_PORT are required.
  std::vector<std::string> addresses;
  /// TANDEM_MASTER_PORT | MASTER_PORT, plus one under torchrun if TORCHELASTIC_USE_AGENT_STORE is
  /// True (its own store listens there) | from the job: 20000 + hash(id) % 12000, where id is
  /// SLURM_JOB_ID.SLURM_STEP_ID or PMIX_NAMESPACE, OMPI_MCA_ess_base_jobid. 0: not known yet.
  uint16_t port = 0;
  /// The job's secret: ranks prove to each other that they have it (HMAC-SHA256); it is never sent.
  /// TANDEM_SECRET | the first line of TANDEM_SECRET_FILE, which others must not be able to read |
  /// a public name of the job: TORCHELASTIC_RUN_ID, the Slurm or the MPI job, else the port. Such a
  /// name separates jobs, but does not keep strangers out.
  std::string secret;
  bool secretGiven = false; ///< it is no public name
  /// Told on rank 0, while ranks connect, what the user should know of their connections.
  std::function<void(const std::string &message)> warn;
  /// TANDEM_LISTEN_ADDR: the address or the interface on which rank 0 listens. Empty: the loopback
  /// if `addresses` names only that (a name that resolves to it counts only if the launcher says
  /// that all ranks are on this host), else the first of `addresses` that is one of this host, else
  /// all interfaces.
  std::string listenAddress;
  /// TANDEM_LISTEN_FD: a listening socket that rank 0 inherited, so that no other process can take
  /// the port meanwhile. -1: none.
  int listenFd = -1;
  /// TANDEM_LAUNCHER_FD: a file into which the launcher writes how a rank has ended; a rank that
  /// waits for others looks into it. -1: none.
  int launcherFd = -1;
  /// The process that has started this one, if it is mpirun, srun or torchrun (or the daemon of
  /// theirs on this host): this rank gives up when that has ended, as it may have been killed by
  /// SIGKILL. -1: any other, such as a shell, which may end by itself.
  int launcherProcess = -1;
  /// TANDEM_LAUNCH_TIMEOUT, seconds: how long ranks wait for each other at start. Default 60.
  std::chrono::milliseconds timeout{60000};
  bool timeoutGiven = false; ///< it was set
  /// How long an exchange waits for a rank that sends no heartbeat; default `timeout`. A rank that
  /// lives is waited for 60 times as long.
  std::optional<std::chrono::milliseconds> exchangeTimeout;
  /// How long a rank that gives up waits until all ranks have heard of it.
  std::chrono::milliseconds noticeTimeout{1000};
};

/// Looks up one variable; empty or unset: nullptr or "".
using EnvironmentLookup = std::function<const char *(const char *name)>;

/// Reads the variables above. No launcher found is no error (Launcher::None, a world of one).
Expected<BootstrapEnvironment> readBootstrapEnvironment(const EnvironmentLookup &lookup);
/// The same, from the process's environment.
Expected<BootstrapEnvironment> readBootstrapEnvironment();

/// Whether the variables that set the runtime's behaviour have values that it knows, as
/// TANDEM_GRAPH. readBootstrapEnvironment() checks that, too.
Status checkRuntimeEnvironment();

/// BootstrapEnvironment::node alone, of the process's environment, whatever its other variables
/// say.
std::string readNode();

/// The hosts of a Slurm node list, in order: "n[1-3,07],gpu5" -> n1 n2 n3 n07 gpu5. At most 65536.
Expected<std::vector<std::string>> parseSlurmNodeList(std::string_view text);
/// Tasks per node of Slurm, one number per node: "2(x3),1" -> 2 2 2 1. At most 65536.
Expected<std::vector<uint32_t>> parseSlurmTasksPerNode(std::string_view text);

} // namespace tandem

#endif // TANDEM_RUNTIME_ENVIRONMENT_H
