//===- FlightRecorder.cpp - what a rank does, as a file ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FlightRecorder.h"

#include "tandem/Program/Files.h"
#include "tandem/Runtime/StartThread.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <set>
#include <unistd.h>

using namespace tandem;
using namespace tandem::capi;

namespace {

constexpr std::chrono::milliseconds kInterval{50};

/// Signals so far: the handler does no more than count, and the recorders' threads look at it.
std::atomic<uint32_t> numSignals{0};
static_assert(std::atomic<uint32_t>::is_always_lock_free, "for a signal handler");
constexpr int kSignals = 65;
struct sigaction handlersBefore[kSignals];

void countSignal(int signal, siginfo_t *info, void *where) {
  int error = errno;
  numSignals.fetch_add(1, std::memory_order_relaxed);
  const struct sigaction &before = handlersBefore[signal];
  if (before.sa_flags & SA_SIGINFO)
    before.sa_sigaction(signal, info, where);
  else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    before.sa_handler(signal);
  errno = error;
}

Status handleSignal(uint64_t signal) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  auto number = static_cast<int>(std::min(signal, uint64_t(kSignals)));
  struct sigaction now{}, ours{};
  ours.sa_sigaction = countSignal;
  ours.sa_flags = SA_SIGINFO | SA_RESTART;
  if (number >= kSignals || ::sigaction(number, nullptr, &now) != 0)
    return Status(Code::InvalidArgument,
                  fmt::format("flight_recorder_signal: expected a signal, found {}", signal));
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == countSignal)
    return Status();
  // The handler stays, so the library has to.
  Dl_info library{};
  if (::dladdr(reinterpret_cast<void *>(countSignal), &library) && library.dli_fname)
    ::dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  handlersBefore[number] = now;
  if (::sigaction(number, &ours, nullptr) != 0)
    return Status(Code::InvalidArgument, fmt::format("flight_recorder_signal: signal {}: {}",
                                                     signal, std::strerror(errno)));
  return Status();
}

/// The files of this process's recorders. A second context of a rank gets ".2" behind the name.
std::mutex pathsMutex;
std::set<std::string> paths;

std::string takePath(const std::string &path) {
  std::lock_guard<std::mutex> lock(pathsMutex);
  std::string taken = path;
  for (int i = 2; !paths.insert(taken).second; ++i)
    taken = fmt::format("{}.{}", path, i);
  return taken;
}

/// What changes when a rank goes on.
std::string positionOf(const Snapshot &snapshot) {
  std::string text;
  for (const CommandInFlight &command : snapshot.commands)
    fmt::format_to(std::back_inserter(text), "{:x} {} {} {};", command.id, command.run,
                   command.stream, command.command);
  return text;
}

} // namespace

/// "USR1", "SIGUSR2", or a number.
static Expected<uint64_t> readSignal(const std::string &text) {
  std::string name = text.compare(0, 3, "SIG") == 0 ? text.substr(3) : text;
  if (name == "USR1" || name == "USR2")
    return name == "USR1" ? SIGUSR1 : SIGUSR2;
  char *end = nullptr;
  uint64_t number = std::strtoull(name.c_str(), &end, 10);
  if (!name.empty() && *end == 0)
    return number;
  return Status(Code::InvalidArgument,
                fmt::format("environment variable TANDEM_FLIGHT_RECORDER_SIGNAL: expected USR1, "
                            "USR2 or a number, found \"{}\"",
                            text));
}

Expected<std::unique_ptr<FlightRecorder>>
FlightRecorder::create(ContextState &context, const std::string &prefix, uint64_t signal) {
  if (const char *name = std::getenv("TANDEM_FLIGHT_RECORDER_SIGNAL"); name && *name && !signal) {
    TANDEM_ASSIGN_OR_RETURN(signal, readSignal(name));
  }
  std::unique_ptr<FlightRecorder> made(
      new FlightRecorder(context, takePath(fmt::format("{}.rank{}", prefix, *context.rank))));
  TANDEM_RETURN_IF_ERROR(
      writeFile(made->path, dumpContext(context, context.context->snapshot(), "start")));
  if (signal)
    TANDEM_RETURN_IF_ERROR(handleSignal(signal));
  TANDEM_RETURN_IF_ERROR(startThread(made->thread, "the flight recorder",
                                     [self = made.get(), answered = numSignals.load()]() mutable {
                                       std::unique_lock<std::mutex> lock(self->mutex);
                                       while (!self->changed.wait_for(
                                           lock, kInterval, [&] { return self->stopping; })) {
                                         lock.unlock();
                                         uint32_t signals = numSignals;
                                         self->update(std::exchange(answered, signals) != signals)
                                             .ignore(); // the disk may be full
                                         lock.lock();
                                       }
                                     }));
  return made;
}

FlightRecorder::FlightRecorder(ContextState &context, std::string path)
    : context(context), path(std::move(path)) {}

FlightRecorder::~FlightRecorder() {
  if (!keeps)
    ::unlink(path.c_str());
  std::lock_guard<std::mutex> lock(pathsMutex);
  paths.erase(path);
}

void FlightRecorder::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
    changed.notify_all();
  }
  if (!thread.joinable())
    return;
  thread.join();
  update(false).ignore();
}

Status FlightRecorder::update(bool isRequested) {
  std::lock_guard<std::recursive_mutex> lock(writing);
  if (isUpdating || (hasFailed && !isRequested))
    return Status();
  isUpdating = true;
  Snapshot snapshot = context.context->snapshot();
  isUpdating = false;
  std::chrono::milliseconds longest{0};
  for (const CommandInFlight &command : snapshot.commands)
    longest = std::max(longest, command.waited);
  std::string position = positionOf(snapshot);
  // What waits is written again each time that it has waited twice as long.
  if (!isRequested && snapshot.failure.ok() && position == written && longest < 2 * waited)
    return Status();
  hasFailed = !snapshot.failure.ok();
  keeps |= isRequested || hasFailed;
  written = std::move(position);
  waited = std::max(longest, kInterval);
  const char *reason = isRequested ? "signal" : hasFailed ? "failure" : "progress";
  return writeFile(path, dumpContext(context, snapshot, reason));
}
