//===- Environment.cpp - what the environment says of the job ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/Environment.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <iterator>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

using namespace tandem;

namespace {

struct Variable {
  std::string name, value;
  bool set() const { return !name.empty(); }
};

class Reader {
public:
  explicit Reader(const EnvironmentLookup &lookup) : lookup(lookup) {}

  /// The first variable of "NAME OTHER" that is set; none of them: without a name.
  Variable get(std::string_view names) const {
    while (!names.empty()) {
      std::string name = take(names);
      if (const char *value = lookup(name.c_str()); value && *value)
        return {name, value};
    }
    return {};
  }
  bool has(const char *name) const { return get(name).set(); }
  bool hasAll(std::string_view names) const {
    while (!names.empty())
      if (!get(take(names)).set())
        return false;
    return true;
  }

  /// Keeps `result` where no variable is set.
  template <typename T>
  Status number(std::string_view names, T &result, uint64_t least, uint64_t most) const {
    Variable variable = get(names);
    if (!variable.set())
      return Status::success();
    const std::string &text = variable.value;
    uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
      return Status(Code::InvalidArgument,
                    fmt::format("environment variable {}: expected a number from {} to {}, found "
                                "\"{}\"",
                                variable.name, least, most, text));
    result = static_cast<T>(value);
    return Status::success();
  }

  /// 0, 1 or not set.
  Status flag(const char *name) const {
    Variable variable = get(name);
    if (!variable.set() || variable.value == "0" || variable.value == "1")
      return Status::success();
    return Status(Code::InvalidArgument,
                  fmt::format("environment variable {}: expected 0 or 1, found \"{}\"", name,
                              variable.value));
  }

private:
  /// The first of "NAME OTHER".
  static std::string take(std::string_view &names) {
    std::string name(names.substr(0, names.find(' ')));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    return name;
  }

  const EnvironmentLookup &lookup;
};

constexpr uint32_t kMaxWorld = 65536;

/// Below Linux's range of ephemeral ports.
uint16_t portOf(std::string_view job) {
  return static_cast<uint16_t>(20000 + XXH3_64bits(job.data(), job.size()) % 12000);
}

// Where rank 0 listens, and the public name of the job.

Status readNothing(const Reader &, BootstrapEnvironment &) { return Status::success(); }

Status readTorch(const Reader &reader, BootstrapEnvironment &env) {
  env.addresses = {reader.get("MASTER_ADDR").value};
  TANDEM_RETURN_IF_ERROR(reader.number("MASTER_PORT", env.port, 1, 65534));
  if (Variable store = reader.get("TORCHELASTIC_USE_AGENT_STORE"); store.value == "True")
    ++env.port;
  if (Variable id = reader.get("TORCHELASTIC_RUN_ID"); id.set())
    env.secret = "torchrun " + id.value;
  return Status::success();
}

Status readOpenMpi(const Reader &reader, BootstrapEnvironment &env) {
  Variable job = reader.get("PMIX_NAMESPACE OMPI_MCA_ess_base_jobid OMPI_MCA_orte_ess_jobid");
  if (job.set())
    env.secret = "mpi " + job.value;
  Variable address = reader.get("MASTER_ADDR"), port = reader.get("MASTER_PORT");
  if (address.set() && port.set()) {
    env.addresses = {address.value};
    return reader.number("MASTER_PORT", env.port, 1, 65535);
  }
  // mpirun does not tell the host of rank 0.
  if (env.localSize == env.worldSize) {
    env.addresses = {"127.0.0.1"};
    env.port = portOf("mpi " + job.value);
  }
  return Status::success();
}

Status readSlurm(const Reader &reader, BootstrapEnvironment &env) {
  Variable tasks = reader.get("SLURM_STEP_TASKS_PER_NODE SLURM_TASKS_PER_NODE");
  if (tasks.set()) {
    auto perNode = parseSlurmTasksPerNode(tasks.value);
    if (!perNode)
      return perNode.status().withPrefix(fmt::format("environment variable {}: ", tasks.name));
    uint32_t node = 0;
    TANDEM_RETURN_IF_ERROR(reader.number("SLURM_NODEID", node, 0, kMaxWorld - 1));
    if (node >= perNode->size())
      return Status(Code::InvalidArgument,
                    fmt::format("environment variable SLURM_NODEID: {} is not below the {} nodes "
                                "of {}",
                                node, perNode->size(), tasks.name));
    env.localSize = (*perNode)[node];
    env.localSizeKnown = true;
  }
  Variable nodes = reader.get("SLURM_STEP_NODELIST SLURM_JOB_NODELIST SLURM_NODELIST");
  if (nodes.set()) {
    auto hosts = parseSlurmNodeList(nodes.value);
    if (!hosts)
      return hosts.status().withPrefix(fmt::format("environment variable {}: ", nodes.name));
    env.addresses = {hosts->front()};
  } else if (env.localSize == env.worldSize) {
    env.addresses = {"127.0.0.1"};
  } else {
    return Status(Code::InvalidArgument,
                  "slurm job without a node list: expected SLURM_STEP_NODELIST or "
                  "SLURM_JOB_NODELIST, or TANDEM_MASTER_ADDR");
  }
  std::string job = "slurm " + reader.get("SLURM_JOB_ID SLURM_JOBID").value + "." +
                    reader.get("SLURM_STEP_ID SLURM_STEPID").value;
  env.port = portOf(job);
  env.secret = job;
  return Status::success();
}

Status lacks(const Variable &found, const char *missing) {
  return Status(Code::InvalidArgument, fmt::format("environment variable {}={}: expected {}, too",
                                                   found.name, found.value, missing));
}

/// These are set by hand, so one without the others is a mistake, with any launcher.
Status checkOwnPlace(const Reader &reader) {
  Variable rank = reader.get("TANDEM_RANK"), size = reader.get("TANDEM_WORLD_SIZE"),
           local = reader.get("TANDEM_LOCAL_RANK TANDEM_LOCAL_WORLD_SIZE");
  if (!size.set() && (rank.set() || local.set()))
    return lacks(rank.set() ? rank : local, "TANDEM_WORLD_SIZE");
  return size.set() && !rank.set() ? lacks(size, "TANDEM_RANK") : Status();
}

/// Variables of a job that do not suffice to find it. A world of one would compute another result.
Status readAlone(const Reader &reader, BootstrapEnvironment &) {
  Variable rank = reader.get("RANK"), size = reader.get("WORLD_SIZE");
  if (rank.set() && !size.set() && rank.value != "0")
    return lacks(rank, "WORLD_SIZE");
  if (!size.set() || (size.value == "1" && (!rank.set() || rank.value == "0")))
    return Status::success();
  if (!rank.set())
    return lacks(size, "RANK");
  return Status(
      Code::InvalidArgument,
      fmt::format("environment variables RANK={}, WORLD_SIZE={}: expected MASTER_ADDR and "
                  "MASTER_PORT, too, found {}",
                  rank.value, size.value,
                  reader.has("MASTER_ADDR")   ? "no MASTER_PORT"
                  : reader.has("MASTER_PORT") ? "no MASTER_ADDR"
                                              : "neither"));
}

/// A launcher, and the variables by which it tells a rank its place.
struct KnownLauncher {
  Launcher launcher;
  const char *name;
  const char *marks; ///< it is the first launcher that has set all of these
  const char *rank, *worldSize, *localRank, *localSize, *node;
  /// Where rank 0 listens, and the public name of the job.
  Status (*read)(const Reader &, BootstrapEnvironment &);
};

constexpr KnownLauncher kLaunchers[] = {
    {Launcher::Tandem, "tandem", "TANDEM_RANK TANDEM_WORLD_SIZE", "TANDEM_RANK",
     "TANDEM_WORLD_SIZE", "TANDEM_LOCAL_RANK", "TANDEM_LOCAL_WORLD_SIZE", "", readNothing},
    {Launcher::Torchrun, "torchrun", "RANK WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID",
     "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", readTorch},
    {Launcher::OpenMpi, "openmpi", "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "", readOpenMpi},
    {Launcher::Torch, "torch", "RANK WORLD_SIZE MASTER_ADDR MASTER_PORT", "RANK", "WORLD_SIZE",
     "LOCAL_RANK", "LOCAL_WORLD_SIZE", "", readTorch},
    {Launcher::Slurm, "slurm", "SLURM_PROCID SLURM_NTASKS", "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS SLURM_NTASKS", "SLURM_LOCALID", "", "SLURM_NODEID", readSlurm},
    {Launcher::None, "none", "", "", "", "", "", "", readAlone}};

const KnownLauncher &detect(const Reader &reader) {
  return *std::find_if(std::begin(kLaunchers), std::end(kLaunchers),
                       [&](const KnownLauncher &known) { return reader.hasAll(known.marks); });
}

/// Where the local variables are not set, all ranks are on one node.
Status readRank(const Reader &reader, const KnownLauncher &known, BootstrapEnvironment &env) {
  TANDEM_RETURN_IF_ERROR(reader.number(known.rank, env.rank, 0, kMaxWorld - 1));
  TANDEM_RETURN_IF_ERROR(reader.number(known.worldSize, env.worldSize, 1, kMaxWorld));
  env.localRank = env.rank;
  env.localSize = env.worldSize;
  env.localRankKnown = reader.get(known.localRank).set();
  env.localSizeKnown = reader.get(known.localSize).set();
  TANDEM_RETURN_IF_ERROR(reader.number(known.localRank, env.localRank, 0, kMaxWorld - 1));
  return reader.number(known.localSize, env.localSize, 1, kMaxWorld);
}

std::string readNode(const Reader &reader, const KnownLauncher &known) {
  return reader.get(fmt::format("TANDEM_NODE {}", known.node)).value;
}

Status readSecret(const Reader &reader, BootstrapEnvironment &env) {
  if (Variable secret = reader.get("TANDEM_SECRET"); secret.set()) {
    env.secret = secret.value;
    env.secretGiven = true;
    return Status::success();
  }
  Variable path = reader.get("TANDEM_SECRET_FILE");
  if (!path.set())
    return Status::success();
  auto wrong = [&](const std::string &why) {
    return Status(Code::InvalidArgument, fmt::format("environment variable TANDEM_SECRET_FILE: "
                                                     "\"{}\": {}",
                                                     path.value, why));
  };
  // The checks below are of this descriptor, which is then read. O_NONBLOCK: a pipe must not block.
  int fd = ::open(path.value.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return wrong(std::strerror(errno));
  std::unique_ptr<FILE, int (*)(FILE *)> file(::fdopen(fd, "r"), ::fclose);
  struct stat info{};
  if (!file || ::fstat(fd, &info))
    return wrong(std::strerror(errno));
  if (info.st_uid != ::geteuid())
    return wrong(
        fmt::format("expected a file of user {}, found one of user {}", ::geteuid(), info.st_uid));
  if (!S_ISREG(info.st_mode) || (info.st_mode & (S_IRWXG | S_IRWXO)))
    return wrong(fmt::format("expected a file that only its owner can read, found mode {:o}",
                             info.st_mode & 07777));
  env.secret.clear();
  constexpr size_t kMost = 4096;
  for (int c; (c = std::fgetc(file.get())) != EOF && c != '\n' && env.secret.size() <= kMost;)
    env.secret += static_cast<char>(c);
  if (!env.secret.empty() && env.secret.back() == '\r')
    env.secret.pop_back();
  if (env.secret.size() > kMost)
    return wrong(fmt::format("expected a secret of at most {} bytes in the first line", kMost));
  if (env.secret.empty())
    return wrong("expected a secret in the first line");
  env.secretGiven = true;
  return Status::success();
}

/// Variables that the runtime's parts read where they need them.
Status checkRuntime(const Reader &reader) {
  uint64_t microseconds = 0;
  TANDEM_RETURN_IF_ERROR(reader.number("TANDEM_UCX_SPIN", microseconds, 0, 3'600'000'000));
  for (const char *name : {"TANDEM_UCX_NETWORK_ONLY", "TANDEM_UCX_GPU_DIRECT", "TANDEM_EPILOGUES",
                           "TANDEM_GRAPH", "TANDEM_TUNE", "TANDEM_TF32", "TANDEM_WATCH_LAUNCHER"})
    TANDEM_RETURN_IF_ERROR(reader.flag(name));
  return Status::success();
}

Status readOwnSettings(const Reader &reader, BootstrapEnvironment &env) {
  TANDEM_RETURN_IF_ERROR(checkRuntime(reader));
  if (Variable hosts = reader.get("TANDEM_MASTER_ADDR"); hosts.set()) {
    env.addresses.clear();
    for (size_t begin = 0; begin <= hosts.value.size();) {
      size_t end = std::min(hosts.value.find(',', begin), hosts.value.size());
      if (end > begin)
        env.addresses.push_back(hosts.value.substr(begin, end - begin));
      begin = end + 1;
    }
    if (env.addresses.empty())
      return Status(Code::InvalidArgument,
                    fmt::format("environment variable TANDEM_MASTER_ADDR: expected hosts or "
                                "addresses, found \"{}\"",
                                hosts.value));
  }
  TANDEM_RETURN_IF_ERROR(reader.number("TANDEM_MASTER_PORT", env.port, 1, 65535));
  TANDEM_RETURN_IF_ERROR(readSecret(reader, env));
  env.listenAddress = reader.get("TANDEM_LISTEN_ADDR").value;
  TANDEM_RETURN_IF_ERROR(reader.number("TANDEM_LAUNCHER_FD", env.launcherFd, 3, 1u << 20));
  TANDEM_RETURN_IF_ERROR(reader.number("TANDEM_LISTEN_FD", env.listenFd, 3, 1u << 20));
  uint64_t seconds = 60;
  TANDEM_RETURN_IF_ERROR(reader.number("TANDEM_LAUNCH_TIMEOUT", seconds, 1, 86400));
  env.timeout = std::chrono::seconds(seconds);
  env.timeoutGiven = reader.has("TANDEM_LAUNCH_TIMEOUT");
  return Status::success();
}

} // namespace

std::string_view tandem::toString(Launcher launcher) {
  for (const KnownLauncher &known : kLaunchers)
    if (known.launcher == launcher)
      return known.name;
  return "?";
}

Expected<BootstrapEnvironment> tandem::readBootstrapEnvironment(const EnvironmentLookup &lookup) {
  Reader reader(lookup);
  BootstrapEnvironment env;
  const KnownLauncher &known = detect(reader);
  env.launcher = known.launcher;
  env.node = readNode(reader, known);
  TANDEM_RETURN_IF_ERROR(checkOwnPlace(reader));
  TANDEM_RETURN_IF_ERROR(readRank(reader, known, env));
  TANDEM_RETURN_IF_ERROR(known.read(reader, env));
  TANDEM_RETURN_IF_ERROR(readOwnSettings(reader, env));
  if (env.rank >= env.worldSize)
    return Status(
        Code::InvalidArgument,
        fmt::format("environment of the job ({}): rank {} is not below the world's size {}",
                    toString(env.launcher), env.rank, env.worldSize));
  // A rank that is not said need not fit a size that is.
  bool isRankKnown = env.localRankKnown || !env.localSizeKnown;
  if ((isRankKnown && env.localRank >= env.localSize) || env.localSize > env.worldSize)
    return Status(
        Code::InvalidArgument,
        fmt::format("environment of the job ({}): local rank {} of {} does not fit rank {} of "
                    "{}",
                    toString(env.launcher), env.localRank, env.localSize, env.rank, env.worldSize));
  bool isFound = !env.addresses.empty() && (env.port || env.listenFd >= 0);
  if (env.worldSize > 1 && !isFound)
    return Status(Code::InvalidArgument,
                  fmt::format("environment of the job ({}): {} ranks, but no address of rank 0: "
                              "expected TANDEM_MASTER_ADDR and TANDEM_MASTER_PORT{}",
                              toString(env.launcher), env.worldSize,
                              env.launcher == Launcher::OpenMpi
                                  ? " (mpirun -x NAME=VALUE), as the ranks are on several hosts"
                                  : ""));
  // Neither the spelling of the host nor the world's size: ranks that differ in them shall connect,
  // and say so.
  if (env.secret.empty())
    env.secret = fmt::format("{} {}", toString(env.launcher), env.port);
  return env;
}

static const char *variableOfProcess(const char *name) { return std::getenv(name); }

Expected<BootstrapEnvironment> tandem::readBootstrapEnvironment() {
  TANDEM_ASSIGN_OR_RETURN(BootstrapEnvironment env, readBootstrapEnvironment(variableOfProcess));
  // tandem-run lets the kernel end its ranks.
  bool isWatched = env.launcher == Launcher::OpenMpi || env.launcher == Launcher::Slurm ||
                   env.launcher == Launcher::Torchrun;
  const char *watch = std::getenv("TANDEM_WATCH_LAUNCHER");
  if (isWatched && !(watch && std::string_view(watch) == "0"))
    env.launcherProcess = ::getppid();
  return env;
}

Status tandem::checkRuntimeEnvironment() {
  EnvironmentLookup lookup = variableOfProcess;
  return checkRuntime(Reader(lookup));
}

std::string tandem::readNode() {
  EnvironmentLookup lookup = variableOfProcess;
  Reader reader(lookup);
  return ::readNode(reader, detect(reader));
}
