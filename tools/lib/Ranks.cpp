//===- Ranks.cpp - ranks as processes and as threads ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ranks.h"
#include "ToolMain.h"

#include "SharedFolder.h"
#include "tandem/Runtime/Local.h"
#include "tandem/Runtime/Rendezvous.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

using namespace tandem;
using namespace tandem::run;

extern char **environ;

namespace {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// True for the variables that startOne sets.
bool isOurs(std::string_view variable) {
  for (const char *name :
       {"TANDEM_RANK=", "TANDEM_WORLD_SIZE=", "TANDEM_LOCAL_RANK=", "TANDEM_LOCAL_WORLD_SIZE=",
        "TANDEM_MASTER_ADDR=", "TANDEM_MASTER_PORT=", "TANDEM_LISTEN_ADDR=", "TANDEM_SECRET=",
        "TANDEM_SECRET_FILE=", "TANDEM_LISTEN_FD=", "TANDEM_LAUNCHER_FD="})
    if (variable.substr(0, std::strlen(name)) == name)
      return true;
  return false;
}

/// The signal that ends the launcher; 0: none yet.
volatile std::sig_atomic_t interruption = 0;
/// SIGUSR1 has come, and was not answered yet.
volatile std::sig_atomic_t inquiry = 0;

/// While it exists, signals that would end this process only set `interruption`, and SIGUSR1 (if
/// `inquiries`) only `inquiry`.
class Interruptions {
public:
  explicit Interruptions(bool inquiries) : inquiries(inquiries) {
    interruption = inquiry = 0;
    if (inquiries) {
      struct sigaction handler{};
      handler.sa_handler = [](int) { inquiry = 1; };
      ::sigaction(SIGUSR1, &handler, &beforeInquiries);
    }
    struct sigaction handler{};
    handler.sa_handler = [](int signal) { interruption = signal; };
    for (size_t i = 0; i < kEndingSignals.size(); ++i) {
      ::sigaction(kEndingSignals[i], nullptr, &before[i]);
      if (endsProcess(kEndingSignals[i]))
        ::sigaction(kEndingSignals[i], &handler, nullptr);
    }
  }
  ~Interruptions() {
    if (inquiries)
      ::sigaction(SIGUSR1, &beforeInquiries, nullptr);
    for (size_t i = 0; i < kEndingSignals.size(); ++i)
      ::sigaction(kEndingSignals[i], &before[i], nullptr);
    if (interruption) // everything is cleaned up: now it may end this process
      ::raise(interruption);
  }

private:
  struct sigaction before[kEndingSignals.size()];
  struct sigaction beforeInquiries{};
  const bool inquiries;
};

class Ranks {
public:
  explicit Ranks(const SpawnOptions &options)
      : options(options), pids(options.ranks, -1), exits(options.ranks) {}

  ~Ranks() {
    killAll();
    while (alive)
      reap(true);
    if (noticeFd >= 0)
      ::close(noticeFd);
  }

  Status start() {
    // Where a parent ignores it, the kernel reaps children itself, and their ends are lost.
    std::signal(SIGCHLD, SIG_DFL);
    auto listener = ListenSocket::open(0, "127.0.0.1");
    if (!listener)
      return listener.status();
    noticeFd = ::memfd_create("notice", MFD_CLOEXEC);
    if (noticeFd < 0)
      return Status(Code::Io, fmt::format("memfd_create: {}", std::strerror(errno)));
    // What ranks that are killed leave of their shared memory goes with the folder.
    if (!std::getenv("UCX_POSIX_DIR"))
      sharedFolder.make();
    std::random_device random; // the kernel's generator
    std::string secret;
    for (int i = 0; i < 8; ++i)
      secret += fmt::format("{:08x}", random());
    for (uint32_t rank = 0; rank < options.ranks; ++rank)
      TANDEM_RETURN_IF_ERROR(startOne(rank, *listener, secret));
    return Status::success();
  }

  std::vector<RankExit> wait() {
    Deadline limit = Deadline::max(), grace = Deadline::max();
    if (options.limit.count())
      limit = Clock::now() + options.limit;
    while (alive) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      reap(false);
      if ((failed || (options.endTogether && alive < options.ranks)) && grace == Deadline::max())
        grace = Clock::now() + options.grace;
      if (inquiry) {
        inquiry = 0;
        tellTrouble();
      }
      allStopped = allStopped || areStopped();
      if (!interruption && !allStopped && Clock::now() < std::min(grace, limit))
        continue;
      if (!killing && alive)
        tellTrouble();
      killAll();
    }
    if (failed && !killing)
      tellTrouble();
    return exits;
  }

private:
  Status startOne(uint32_t rank, const ListenSocket &listener, const std::string &secret) {
    // Everything that allocates happens before fork. What tandem-run was itself told does not hold
    // for its ranks.
    std::vector<std::string> variables;
    for (char **variable = environ; *variable; ++variable)
      if (!isOurs(*variable))
        variables.push_back(*variable);
    auto set = [&](const char *name, const std::string &value) {
      variables.push_back(fmt::format("{}={}", name, value));
    };
    set("TANDEM_RANK", std::to_string(rank));
    set("TANDEM_WORLD_SIZE", std::to_string(options.ranks));
    set("TANDEM_LOCAL_RANK", std::to_string(rank));
    set("TANDEM_LOCAL_WORLD_SIZE", std::to_string(options.ranks));
    set("TANDEM_MASTER_ADDR", "127.0.0.1");
    set("TANDEM_MASTER_PORT", std::to_string(listener.port()));
    set("TANDEM_SECRET", secret);
    set("TANDEM_LAUNCHER_FD", std::to_string(noticeFd));
    // All ranks are on this host: their network need not be open to others.
    if (!std::getenv("UCX_NET_DEVICES"))
      set("UCX_NET_DEVICES", "lo");
    if (!sharedFolder.path().empty())
      set("UCX_POSIX_DIR", sharedFolder.path());
    if (rank == 0)
      set("TANDEM_LISTEN_FD", std::to_string(listener.fd()));
    std::vector<char *> argv, envp;
    for (const std::string &argument : options.argv)
      argv.push_back(const_cast<char *>(argument.c_str()));
    for (const std::string &variable : variables)
      envp.push_back(const_cast<char *>(variable.c_str()));
    argv.push_back(nullptr);
    envp.push_back(nullptr);

    pid_t parent = ::getpid();
    pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) // died in between
        ::_exit(127);
      if (rank == 0)
        ::fcntl(listener.fd(), F_SETFD, 0);
      ::fcntl(noticeFd, F_SETFD, 0);
      if (options.onTrouble) // who asks the launcher may well ask all processes of this name
        std::signal(SIGUSR1, SIG_IGN);
      ::execve(argv[0], argv.data(), envp.data());
      const char *text = "cannot start a rank: execve failed\n";
      if (::write(2, text, std::strlen(text)) < 0)
        ::_exit(126);
      ::_exit(127);
    }
    int error = errno;
    if (pid < 0)
      return Status(Code::Io, fmt::format("cannot start rank {}: {}", rank, std::strerror(error)));
    pids[rank] = pid;
    ++alive;
    return Status::success();
  }

  void reap(bool wait) {
    for (uint32_t rank = 0; rank < options.ranks; ++rank) {
      int status = 0;
      if (pids[rank] < 0 || ::waitpid(pids[rank], &status, wait ? 0 : WNOHANG) != pids[rank])
        continue;
      pids[rank] = -1;
      --alive;
      RankExit &exit = exits[rank];
      if (WIFEXITED(status))
        exit.code = WEXITSTATUS(status);
      else
        exit.signal = WTERMSIG(status);
      exit.killed = killing && exit.signal == SIGKILL;
      exit.stopped = exit.killed && allStopped;
      if (!exit.ok() && !failed)
        notify(fmt::format("rank {} ended before all ranks had connected ({})", rank,
                           exit.signal ? fmt::format("signal {}", exit.signal)
                                       : fmt::format("exit code {}", exit.code)));
      failed |= !exit.ok();
    }
  }

  /// Ranks that wait for others look into this file.
  void notify(const std::string &text) {
    if (::pwrite(noticeFd, text.data(), text.size(), 0) < 0)
      return; // then they wait for their timeout
  }

  /// The letter of proc(5) for a rank's process: 'T': stopped, 't': by a debugger.
  char letterOf(uint32_t rank) const {
    std::ifstream file(fmt::format("/proc/{}/stat", pids[rank]));
    std::string text((std::istreambuf_iterator<char>(file)), {});
    size_t name = text.rfind(')');
    return name != std::string::npos && name + 2 < text.size() ? text[name + 2] : '?';
  }

  std::string stateOf(uint32_t rank) const {
    const RankExit &exit = exits[rank];
    if (pids[rank] < 0)
      return exit.signal ? fmt::format("ended by signal {}", exit.signal)
                         : fmt::format("ended with code {}", exit.code);
    char letter = letterOf(rank);
    return letter == 'T' || letter == 't' ? "stopped" : "running";
  }

  /// Whether all ranks that have not ended were stopped for `mostStopped`.
  bool areStopped() {
    Deadline now = Clock::now();
    if (!options.mostStopped.count() || now - lookedAt < kLook)
      return false;
    // After a longer pause the launcher itself was stopped, or had no processor.
    auto passed = std::min<Clock::duration>(now - lookedAt, 2 * kLook);
    lookedAt = now;
    for (uint32_t rank = 0; rank < options.ranks; ++rank)
      if (pids[rank] >= 0 && letterOf(rank) != 'T') {
        stoppedFor = Clock::duration(0);
        return false;
      }
    stoppedFor += passed;
    return alive && stoppedFor >= options.mostStopped;
  }
  static constexpr std::chrono::milliseconds kLook{100}; ///< between two looks at the states

  void tellTrouble() {
    if (!options.onTrouble)
      return;
    std::vector<std::string> states;
    for (uint32_t rank = 0; rank < options.ranks; ++rank)
      states.push_back(stateOf(rank));
    options.onTrouble(states);
  }

  void killAll() {
    killing = true;
    for (pid_t pid : pids)
      if (pid > 0)
        ::kill(pid, SIGKILL);
  }

  const SpawnOptions &options;
  std::vector<pid_t> pids;
  std::vector<RankExit> exits;
  uint32_t alive = 0;
  int noticeFd = -1;
  SharedFolder sharedFolder; ///< of UCX
  bool failed = false, killing = false;
  Deadline lookedAt = Clock::now(); ///< when areStopped() last looked at the ranks
  Clock::duration stoppedFor{0};    ///< for how long it has found all stopped
  bool allStopped = false;          ///< for too long
};

} // namespace

bool run::endsProcess(int signal) {
  struct sigaction now{};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL;
}

Expected<std::vector<RankExit>> run::spawnRanks(const SpawnOptions &options) {
  if (options.argv.empty() || options.ranks == 0)
    return Status(Code::InvalidArgument, "spawn: expected a command and at least one rank");
  Interruptions interruptions(bool(options.onTrouble)); // outlives the ranks
  Ranks ranks(options);
  TANDEM_RETURN_IF_ERROR(ranks.start());
  return ranks.wait();
}

int run::exitCodeOf(const std::vector<RankExit> &exits) {
  int byCode = 0, byLauncher = 0;
  for (const RankExit &exit : exits) {
    if (exit.signal && !exit.killed)
      return 128 + exit.signal;
    if (exit.killed)
      byLauncher = 128 + exit.signal;
    else if (!byCode)
      byCode = exit.code;
  }
  return byCode ? byCode : byLauncher;
}

Expected<bool> run::startsRanks(const BootstrapEnvironment &environment, uint32_t asked,
                                bool threads, const std::string &channels) {
  Launcher launcher = environment.launcher;
  if (launcher == Launcher::None || (launcher == Launcher::Slurm && asked != 0))
    return true;
  if (asked && asked != environment.worldSize)
    return Status(Code::InvalidArgument,
                  fmt::format("-n {}, but {} has started this as rank {} of {}", asked,
                              toString(launcher), environment.rank, environment.worldSize));
  if (threads && environment.worldSize > 1)
    return Status(Code::InvalidArgument,
                  fmt::format("--channel={}: ranks must be threads, but {} has started {} "
                              "processes",
                              channels, toString(launcher), environment.worldSize));
  return false;
}

Expected<std::vector<RankExit>>
run::spawnSelf(const std::string &tool, uint32_t ranks, const std::vector<std::string> &arguments,
               std::chrono::milliseconds timeout, bool endTogether,
               std::function<void(const std::vector<std::string> &)> onTrouble) {
  SpawnOptions spawn;
  spawn.ranks = ranks;
  spawn.argv = {"/proc/self/exe"};
  spawn.argv.insert(spawn.argv.end(), arguments.begin(), arguments.end());
  spawn.endTogether = endTogether;
  spawn.onTrouble = std::move(onTrouble);
  // The others notice within the timeout, and then some time to say so.
  spawn.grace = timeout + std::chrono::seconds(3);
  spawn.mostStopped = timeout + std::chrono::seconds(10);
  TANDEM_ASSIGN_OR_RETURN(std::vector<RankExit> exits, spawnRanks(spawn));
  for (uint32_t rank = 0; rank < exits.size(); ++rank) {
    const RankExit &exit = exits[rank];
    if (exit.stopped)
      run::print(stderr,
                 "{}: rank {} was stopped for {:g} s, as were all others that had not ended, and "
                 "was killed\n",
                 tool, rank, std::chrono::duration<double>(spawn.mostStopped).count());
    else if (exit.killed)
      run::print(stderr, "{}: rank {} did not end by itself and was killed\n", tool, rank);
    else if (exit.signal)
      run::print(stderr, "{}: rank {} was ended by signal {} ({})\n", tool, rank, exit.signal,
                 ::strsignal(exit.signal));
  }
  return exits;
}

Expected<int> run::runThreadRanks(uint32_t ranks, std::chrono::milliseconds timeout,
                                  const RankMain &main) {
  tandem_local_world *world = nullptr;
  if (tandem_local_world_create(ranks, static_cast<uint32_t>(timeout.count()), &world))
    return Status(Code::OutOfMemory, "cannot make a local world");
  auto exchange = LocalWorld::create(ranks, timeout);
  std::vector<int> codes(ranks, 1);
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  Status started;
  for (uint32_t rank = 0; rank < ranks && started.ok(); ++rank)
    try {
      threads.emplace_back([&, rank] {
        auto bootstrap = exchange->bootstrap(rank);
        codes[rank] = main(*bootstrap, world);
      });
    } catch (const std::exception &error) { // no thread, or no memory
      started = Status(Code::Internal,
                       fmt::format("cannot start a thread for rank {}: {}", rank, error.what()));
      exchange->bootstrap(rank)->giveUp(started); // the others wait for it
    }
  for (std::thread &thread : threads)
    thread.join();
  tandem_local_world_destroy(world);
  TANDEM_RETURN_IF_ERROR(started);
  return *std::max_element(codes.begin(), codes.end());
}

Expected<std::unique_ptr<Bootstrap>> run::joinRanks(const BootstrapEnvironment &environment,
                                                    std::chrono::milliseconds timeout) {
  BootstrapEnvironment env = environment;
  env.exchangeTimeout = timeout;
  if (!env.timeoutGiven)
    env.timeout = timeout;
  env.warn = [](const std::string &message) { run::print(stderr, "tandem: {}\n", message); };
  return joinJob(env);
}

std::string run::rankMessage(uint32_t rank, const std::string &message) {
  std::string prefix = fmt::format("rank {}", rank);
  return message.compare(0, prefix.size(), prefix) ? prefix + ": " + message : message;
}
