//===- Context.cpp - one rank's streams, watchdog and health ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ContextImpl.h"

#include "Encode.h"
#include "OwnThread.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <optional>

namespace tandem {

namespace core {

using Clock = std::chrono::steady_clock;

Watched::~Watched() = default;

/// So long an abort waits for the driver to say what the streams do: another thread may be in a
/// call that returns only when the device is idle, so after the abort.
static constexpr std::chrono::milliseconds kAnswer{1000};

template <typename T> std::optional<T> ContextImpl::askDevice(std::function<T()> ask) {
  auto answer = std::make_shared<T>();
  {
    std::lock_guard<std::mutex> lock(mutex);
    ++numAsking;
  }
  OwnThread asks([this, answer, ask = std::move(ask)] {
    *answer = ask();
    std::lock_guard<std::mutex> lock(mutex);
    --numAsking;
    changed.notify_all();
  });
  if (!asks.isDone(kAnswer))
    return std::nullopt;
  return std::move(*answer);
}

ContextImpl::~ContextImpl() {
  // A peer in a run that this rank never started may write until this rank's transports have left.
  std::vector<std::shared_ptr<Memory>> written;
  for (auto &[number, instance] : retired) {
    instance->finishRuns(); // the watchdog still runs
    written.push_back(instance->symmetricMemory());
  }
  retired.clear();
  {
    std::unique_lock<std::mutex> lock(mutex);
    stopping = true;
    changed.notify_all();
    changed.wait(lock, [&] { return !isAborting; }); // another thread may have called poison()
  }
  for (std::thread *thread : {&watchdog, &timer})
    if (thread->joinable())
      thread->join();
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return numAsking == 0; }); // no instance is left that could keep them
  }
  options.transports.clear();
}

uint32_t ContextImpl::nextInstance() {
  std::lock_guard<std::mutex> lock(retiredMutex);
  inUse.insert(++instances);
  return instances;
}

void ContextImpl::retire(uint32_t number, std::unique_ptr<Watched> instance) {
  std::lock_guard<std::mutex> lock(retiredMutex);
  inUse.erase(number);
  retired.emplace(number, std::move(instance));
}

void ContextImpl::forget(uint32_t number) {
  std::lock_guard<std::mutex> lock(retiredMutex);
  inUse.erase(number);
}

Status ContextImpl::releaseRetired() {
  // Peers may access an instance while it has runs in flight here.
  std::vector<Watched *> ending;
  std::vector<uint32_t> mine;
  {
    std::lock_guard<std::mutex> lock(retiredMutex);
    for (const auto &[number, instance] : retired)
      ending.push_back(instance.get()); // only this function removes them
  }
  for (Watched *instance : ending)
    instance->finishRuns();
  std::map<uint32_t, std::unique_ptr<Watched>> released;
  {
    std::lock_guard<std::mutex> lock(retiredMutex);
    mine.assign(inUse.begin(), inUse.end());
    // Those retired since are still unfinished.
    for (const auto &[number, instance] : retired)
      if (std::find(ending.begin(), ending.end(), instance.get()) == ending.end())
        mine.push_back(number);
  }
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap(), encode(std::tie(mine))));
  std::set<uint32_t> used;
  for (uint32_t r = 0; r < all.size(); ++r) {
    std::vector<uint32_t> theirs;
    if (!decode(all[r], std::tie(theirs)))
      return Status(Code::Io, fmt::format("rank {} gives no list of its programs", r));
    used.insert(theirs.begin(), theirs.end());
  }
  {
    std::lock_guard<std::mutex> lock(retiredMutex);
    for (auto entry = retired.begin(); entry != retired.end();)
      entry = used.count(entry->first) ? std::next(entry)
                                       : (released.insert(retired.extract(entry++)), entry);
  }
  // In the order of their numbers, which is the same on all ranks: channels pool communicators.
  for (auto &[number, instance] : released)
    instance.reset();
  return Status();
}

std::vector<std::shared_ptr<SymmetricPool>>
ContextImpl::symmetricPools(const std::vector<uint32_t> &members) {
  std::vector<std::shared_ptr<SymmetricPool>> found;
  for (const auto &known : pools[members])
    if (auto pool = known.lock())
      found.push_back(std::move(pool));
  return found;
}

void ContextImpl::addSymmetricPool(const std::vector<uint32_t> &members,
                                   const std::shared_ptr<SymmetricPool> &pool) {
  if (!members.empty())
    pools[members].push_back(pool);
}

Status ContextImpl::failure() const {
  std::lock_guard<std::mutex> lock(mutex);
  return reason;
}

Status ContextImpl::health() const {
  TANDEM_RETURN_IF_ERROR(failure());
  return options.bootstrap->health().withPrefix(
      fmt::format("rank {}: ", options.bootstrap->rank()));
}

std::vector<CommandInFlight> ContextImpl::collectInFlight() const {
  std::vector<CommandInFlight> all;
  visit([&](Watched &instance) {
    for (CommandInFlight &command : instance.inFlight())
      all.push_back(std::move(command));
  });
  return all;
}

std::vector<CommandInFlight> ContextImpl::inFlight() const {
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return reason.ok() || isDescribed; });
    if (!reason.ok())
      return atFailure;
  }
  return collectInFlight();
}

Snapshot ContextImpl::snapshot() const {
  Snapshot found;
  found.commands = inFlight();
  found.failure = failure();
  visit([&](Watched &instance) { instance.addChannels(found.channels); });
  board.list(found);
  if (runs > 0 && options.bootstrap->worldSize() > 1)
    found.late = options.bootstrap->late(runs);
  return found;
}

void ContextImpl::poison(const Status &why) {
  std::unique_lock<std::mutex> lock(mutex);
  if (!reason.ok())
    return;
  reason = why;
  isAborting = true;
  changed.notify_all();
  lock.unlock();
  auto found = askDevice<std::vector<CommandInFlight>>( // an abort releases the commands
      [this] { return collectInFlight(); });
  lock.lock();
  atFailure = found.value_or(std::vector<CommandInFlight>());
  isDescribed = true;
  changed.notify_all();
  lock.unlock();
  // From here on the lock is not held in calls, because each of them may block. Drop queued work
  // before waiting work is released: no command may run after an aborted one.
  device().abort(why);
  // Before any channel: an aborted one may let the operations of its peers end with wrong data.
  bootstrap().giveUp(why);
  // One-sided channels first: after an aborted collective, a queued signal could announce data that
  // was never sent.
  for (bool oneSided : {true, false})
    visit([&](Watched &instance) { instance.abortChannels(why, oneSided); }, false);
  // A thread that used a graph may have waited in a channel of another instance.
  visit([](Watched &instance) { instance.dropGraphs(); }, false);
  lock.lock();
  isAborting = false;
  changed.notify_all();
}

template <typename Body> void ContextImpl::visit(const Body &body, bool looks) const {
  std::unique_lock<std::mutex> lock(mutex);
  for (Watched *instance : watched) { // it stays in the list
    ++instance->visitors;
    instance->lookers += looks;
    lock.unlock();
    body(*instance);
    lock.lock();
    --instance->visitors;
    instance->lookers -= looks;
    changed.notify_all();
  }
}

Expected<Stream *> ContextImpl::stream(uint32_t i, StreamPriority priority) {
  std::unique_ptr<Stream> &stream = streams[{priority, i}];
  if (!stream) {
    TANDEM_ASSIGN_OR_RETURN(stream, device().createStream(priority));
    if (sharesMemory())
      stream->shareWorkspace(i);
  }
  return stream.get();
}

Expected<bool> ContextImpl::isOnOneHost(const ChannelDesc &channel, std::string &distant) {
  if (hosts.empty()) {
    TANDEM_ASSIGN_OR_RETURN(hosts, allGatherStrings(bootstrap(), bootstrap().host()));
  }
  for (uint32_t member : channel.group)
    if (hosts[member] != hosts[channel.group.front()]) {
      distant = fmt::format("ranks {} and {}", channel.group.front(), member);
      return false;
    }
  return true;
}

Expected<std::string> ContextImpl::distantRanks(const ChannelDesc &channel) {
  std::string distant;
  TANDEM_RETURN_IF_ERROR(isOnOneHost(channel, distant).status());
  std::vector<std::string> answers;
  TANDEM_ASSIGN_OR_RETURN(answers, allGatherStrings(bootstrap(), distant));
  auto other = std::find_if(answers.begin(), answers.end(),
                            [](const std::string &answer) { return !answer.empty(); });
  return other == answers.end() ? std::string() : *other;
}

/// Where `classes` puts transport i for a channel of class `wanted`: 0 first, 2 last.
static int rankOf(const std::vector<std::string> &classes, size_t i, const std::string &wanted) {
  if (i >= classes.size() || classes[i].empty())
    return 1;
  return classes[i] == wanted ? 0 : 2;
}

Expected<Transport *> ContextImpl::transport(const ChannelDesc &channel) {
  std::string have;
  bool hasClasses = false, isKnown = false;
  std::vector<size_t> candidates;
  for (size_t i = 0; i < options.transports.size(); ++i) {
    const Transport &transport = *options.transports[i];
    have += fmt::format("{}{} ({}{})", have.empty() ? "" : ", ", transport.name(),
                        program::capabilitiesToString(transport.capabilities()),
                        transport.reach() == Transport::Reach::Host ? ", one host" : "");
    hasClasses |= rankOf(options.linkClasses, i, "") != 1;
    if ((transport.capabilities() & channel.capabilities) == channel.capabilities)
      candidates.push_back(i);
  }
  std::string distant; // where it matters
  auto findDistantRanks = [&]() -> Status {
    if (!isKnown) {
      TANDEM_ASSIGN_OR_RETURN(distant, distantRanks(channel));
    }
    isKnown = true;
    return Status();
  };
  if (hasClasses && candidates.size() > 1) {
    std::string wanted = channel.linkClass;
    if (wanted.empty()) {
      TANDEM_RETURN_IF_ERROR(findDistantRanks());
      wanted = distant.empty() ? "node" : "network";
    }
    // In the given order otherwise.
    auto place = [&](size_t i) { return std::pair(rankOf(options.linkClasses, i, wanted), i); };
    std::sort(candidates.begin(), candidates.end(),
              [&](size_t a, size_t b) { return place(a) < place(b); });
  }
  for (size_t i : candidates) {
    if (options.transports[i]->reach() == Transport::Reach::Host) {
      TANDEM_RETURN_IF_ERROR(findDistantRanks());
      if (!distant.empty())
        continue;
    }
    return options.transports[i].get();
  }
  return Status(Code::Unsupported,
                fmt::format("needs {}{}, this context has {}",
                            program::capabilitiesToString(channel.capabilities),
                            distant.empty() ? "" : " between hosts (" + distant + ")",
                            have.empty() ? "no channels" : have));
}

bool ContextImpl::copiesGaps(uint32_t capabilities) const {
  for (const auto &transport : options.transports) {
    if ((transport->capabilities() & capabilities) != capabilities)
      continue;
    if (transport->copiesGaps(*options.device))
      return true;
    if (transport->reach() == Transport::Reach::World && options.linkClasses.empty())
      return false;
  }
  return false;
}

std::string ContextImpl::description() {
  std::string text = options.device->description();
  const char *separator = "; ";
  for (const auto &transport : options.transports) {
    text += separator + transport->description();
    separator = ", ";
  }
  return text;
}

Status ContextImpl::checkRun() {
  for (const auto &transport : options.transports)
    TANDEM_RETURN_IF_ERROR(transport->checkRun());
  // A rank that gives up releases its operations only once this rank's bootstrap has heard of it.
  return bootstrap().health();
}

uint64_t ContextImpl::progress() const {
  uint64_t sum = 0;
  for (const auto &transport : options.transports)
    sum += transport->progress();
  return sum;
}

Status ContextImpl::noteRun(std::string_view what, uint64_t &number) {
  number = ++runs;
  bootstrap().noteBegun(number);
  return agree(what);
}

Status ContextImpl::agree(std::string_view call) {
  TANDEM_RETURN_IF_ERROR(failure());
  Status same = board.begin(++calls, call).withPrefix(fmt::format("rank {}: ", rank()));
  if (!same.ok())
    poison(same);
  return same;
}

Status ContextImpl::connectRuns() {
  if (isBoardConnected || worldSize() == 1)
    return Status();
  std::vector<RunBoard::Address> all(worldSize());
  TANDEM_RETURN_IF_ERROR(bootstrap().allGather(&board.address(), sizeof all[0], all.data()));
  char mine = board.connect(all) ? 1 : 0;
  // Callers choose by it what else they exchange, so it is the same on all ranks.
  std::vector<char> reached(worldSize());
  TANDEM_RETURN_IF_ERROR(bootstrap().allGather(&mine, 1, reached.data()));
  isComplete = std::find(reached.begin(), reached.end(), 0) == reached.end();
  isBoardConnected = true;
  return Status();
}

Status ContextImpl::awaitRuns() {
  constexpr std::chrono::microseconds kPause{20};
  std::map<Watched *, std::vector<uint64_t>> awaited;
  visit([&](Watched &instance) {
    if (auto runs = instance.runsInFlight(); !runs.empty())
      awaited[&instance] = std::move(runs);
  });
  // Ignore later runs of other instances: they may continue without end.
  for (bool waits = !awaited.empty(); waits && failure().ok();) {
    waits = false;
    visit([&](Watched &instance) {
      auto known = awaited.find(&instance);
      if (known == awaited.end())
        return;
      std::vector<uint64_t> now = instance.runsInFlight();
      waits |= std::any_of(known->second.begin(), known->second.end(), [&](uint64_t run) {
        return std::find(now.begin(), now.end(), run) != now.end();
      });
    });
    if (waits)
      std::this_thread::sleep_for(kPause);
  }
  return failure();
}

void ContextImpl::watch(Watched *instance) {
  std::lock_guard<std::mutex> lock(mutex);
  watched.push_back(instance);
  if (!watchdog.joinable())
    watchdog = std::thread([this] { guard(&ContextImpl::findLost); });
  if (!timer.joinable())
    timer = std::thread([this] { guard(&ContextImpl::findLate); });
}

void ContextImpl::unwatch(Watched *instance) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return instance->visitors == 0; });
  watched.remove(instance);
}

void ContextImpl::awaitLookers(Watched *instance) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return instance->lookers == 0; });
}

static constexpr std::chrono::milliseconds kOthersReason{50};

std::string ContextImpl::findLost() {
  // What the ranks know of each other matters only to those that wait for each other.
  Status known = bootstrap().health();
  if (known.ok())
    return "";
  bool mayWait = false;
  visit([&](Watched &instance) { mayWait |= instance.mayWait(); });
  if (!mayWait)
    return "";
  auto where = askDevice<std::string>([this] {
    std::string text;
    visit([&](Watched &instance) {
      if (text.empty() && instance.isRunning())
        text = instance.describeStall();
    });
    return text;
  });
  if (where && where->empty())
    return "";
  return fmt::format("{}: {}", where.value_or("a run, of which the driver says nothing"),
                     known.message());
}

std::string ContextImpl::findLate() {
  Clock::time_point now = Clock::now();
  std::string late;
  visit([&](Watched &instance) {
    if (late.empty() && instance.deadline() <= now)
      late =
          fmt::format("no end after {} ms: {}", options.timeout.count(), instance.describeStall());
  });
  return late;
}

void ContextImpl::guard(std::string (ContextImpl::*find)()) {
  // Runs do not notify the watchdog; it polls, so runs pay nothing for it.
  constexpr std::chrono::milliseconds kPause{20};
  std::unique_lock<std::mutex> lock(mutex);
  while (!changed.wait_for(lock, kPause, [&] { return stopping; })) {
    if (!reason.ok())
      continue;
    lock.unlock();
    if (Status same = find == &ContextImpl::findLate ? board.compare() : Status(); !same.ok())
      poison(same.withPrefix(fmt::format("rank {}: ", rank())));
    std::string stall = (this->*find)();
    lock.lock();
    // Ranks that wait for the same rank time out together. An operation that was released by
    // another rank's abort is about to report a better reason.
    if (stall.empty() ||
        changed.wait_for(lock, kOthersReason, [&] { return stopping || !reason.ok(); }))
      continue;
    Status failed(Code::Timeout, fmt::format("rank {}: {}", options.bootstrap->rank(), stall));
    lock.unlock();
    poison(failed);
    lock.lock();
  }
}

} // namespace core

Expected<std::unique_ptr<Context>> Context::create(ContextOptions options) {
  if (!options.device || !options.bootstrap)
    return Status(Code::InvalidArgument, "a context needs a device and a bootstrap");
  if (options.timeout.count() <= 0)
    return Status(
        Code::InvalidArgument,
        fmt::format("timeout: expected a positive time, found {} ms", options.timeout.count()));
  for (const std::string &link : options.linkClasses)
    if (!link.empty() && link != "node" && link != "network")
      return Status(
          Code::InvalidArgument,
          fmt::format("link class: expected \"node\" or \"network\", found \"{}\"", link));
  options.device->log = std::move(options.log);
  options.device->useAllocator(std::move(options.allocator));
  for (auto &transport : options.transports) {
    TANDEM_RETURN_IF_ERROR(transport->open(*options.device));
    if (!transport->moves(*options.device))
      transport = stageThroughHost(std::move(transport));
  }
  return std::make_unique<core::ContextImpl>(std::move(options));
}

} // namespace tandem
