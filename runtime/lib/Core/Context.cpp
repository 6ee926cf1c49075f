//===- Context.cpp - one rank's streams, watchdog and health ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ContextImpl.h"

#include <algorithm>
#include <fmt/format.h>
#include <sstream>

namespace tandem {

namespace core {

using Clock = std::chrono::steady_clock;

Watched::~Watched() = default;

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
  if (watchdog.joinable())
    watchdog.join();
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
  std::string mine;
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
    for (uint32_t number : inUse)
      mine += fmt::format("{} ", number);
    // Those retired since are still unfinished.
    for (const auto &[number, instance] : retired)
      if (std::find(ending.begin(), ending.end(), instance.get()) == ending.end())
        mine += fmt::format("{} ", number);
  }
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap(), mine));
  std::set<uint32_t> used;
  for (const std::string &theirs : all) {
    std::istringstream numbers(theirs);
    for (uint32_t number = 0; numbers >> number;)
      used.insert(number);
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

Status ContextImpl::health() const {
  std::lock_guard<std::mutex> lock(mutex);
  return reason;
}

std::vector<CommandInFlight> ContextImpl::collectInFlight() const {
  std::vector<CommandInFlight> all;
  for (Watched *instance : watched)
    for (CommandInFlight &command : instance->inFlight())
      all.push_back(std::move(command));
  return all;
}

std::vector<CommandInFlight> ContextImpl::inFlight() const {
  std::lock_guard<std::mutex> lock(mutex);
  return reason.ok() ? collectInFlight() : atFailure;
}

void ContextImpl::poison(const Status &why) {
  std::unique_lock<std::mutex> lock(mutex);
  if (!reason.ok())
    return;
  reason = why;
  atFailure = collectInFlight(); // an abort releases the commands
  isAborting = true;
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
    forEachWatched([&](Watched &instance) { instance.abortChannels(why, oneSided); });
  // A thread that used a graph may have waited in a channel of another instance.
  forEachWatched([](Watched &instance) { instance.dropGraphs(); });
  lock.lock();
  isAborting = false;
  changed.notify_all();
}

void ContextImpl::forEachWatched(const std::function<void(Watched &)> &body) {
  std::unique_lock<std::mutex> lock(mutex);
  const std::vector<Watched *> all(watched.begin(), watched.end());
  for (Watched *instance : all) {
    if (std::find(watched.begin(), watched.end(), instance) == watched.end())
      continue; // destroyed since
    inUseByAbort = instance;
    lock.unlock();
    body(*instance);
    lock.lock();
    inUseByAbort = nullptr;
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

Expected<bool> ContextImpl::isOnOneHost(const ChannelDesc &channel, std::string &apart) {
  if (hosts.empty()) {
    TANDEM_ASSIGN_OR_RETURN(hosts, allGatherStrings(bootstrap(), bootstrap().host()));
  }
  for (uint32_t member : channel.group)
    if (hosts[member] != hosts[channel.group.front()]) {
      apart = fmt::format("ranks {} and {}", channel.group.front(), member);
      return false;
    }
  return true;
}

Expected<std::string> ContextImpl::ranksApart(const ChannelDesc &channel) {
  std::string apart;
  TANDEM_RETURN_IF_ERROR(isOnOneHost(channel, apart).status());
  std::vector<std::string> answers;
  TANDEM_ASSIGN_OR_RETURN(answers, allGatherStrings(bootstrap(), apart));
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
  bool hasClasses = false, isApartKnown = false;
  std::vector<size_t> candidates;
  for (size_t i = 0; i < options.transports.size(); ++i) {
    const Transport &transport = *options.transports[i];
    have += fmt::format("{}{} ({}{})", have.empty() ? "" : ", ", transport.name(),
                        capabilitiesToString(transport.capabilities()),
                        transport.reach() == Transport::Reach::Host ? ", one host" : "");
    hasClasses |= rankOf(options.linkClasses, i, "") != 1;
    if ((transport.capabilities() & channel.capabilities) == channel.capabilities)
      candidates.push_back(i);
  }
  std::string apart; // where it matters
  auto learnApart = [&]() -> Status {
    if (!isApartKnown) {
      TANDEM_ASSIGN_OR_RETURN(apart, ranksApart(channel));
    }
    isApartKnown = true;
    return Status();
  };
  if (hasClasses && candidates.size() > 1) {
    std::string wanted = channel.linkClass;
    if (wanted.empty()) {
      TANDEM_RETURN_IF_ERROR(learnApart());
      wanted = apart.empty() ? "node" : "network";
    }
    // In the given order otherwise.
    auto place = [&](size_t i) { return std::pair(rankOf(options.linkClasses, i, wanted), i); };
    std::sort(candidates.begin(), candidates.end(),
              [&](size_t a, size_t b) { return place(a) < place(b); });
  }
  for (size_t i : candidates) {
    if (options.transports[i]->reach() == Transport::Reach::Host) {
      TANDEM_RETURN_IF_ERROR(learnApart());
      if (!apart.empty())
        continue;
    }
    return options.transports[i].get();
  }
  return Status(Code::Unsupported,
                fmt::format("needs {}{}, this context has {}",
                            capabilitiesToString(channel.capabilities),
                            apart.empty() ? "" : " between hosts (" + apart + ")",
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
  bootstrap().noteBegun(runs);
  return agree(what);
}

Status ContextImpl::agree(std::string_view call) {
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
  board.connect(all);
  isBoardConnected = true;
  return Status();
}

Status ContextImpl::awaitRuns() {
  constexpr std::chrono::microseconds kPause{20};
  std::map<Watched *, std::vector<uint64_t>> awaited;
  std::unique_lock<std::mutex> lock(mutex);
  for (Watched *instance : watched)
    if (auto runs = instance->runsInFlight(); !runs.empty())
      awaited[instance] = std::move(runs);
  // Ignore later runs of other instances: they may continue without end.
  auto isOver = [&](const auto &entry) {
    auto known = std::find(watched.begin(), watched.end(), entry.first);
    if (known == watched.end())
      return true;
    std::vector<uint64_t> now = (*known)->runsInFlight();
    return std::none_of(entry.second.begin(), entry.second.end(), [&](uint64_t run) {
      return std::find(now.begin(), now.end(), run) != now.end();
    });
  };
  while (reason.ok() && !std::all_of(awaited.begin(), awaited.end(), isOver)) {
    lock.unlock();
    std::this_thread::sleep_for(kPause);
    lock.lock();
  }
  return reason;
}

void ContextImpl::watch(Watched *instance) {
  std::lock_guard<std::mutex> lock(mutex);
  watched.push_back(instance);
  if (!watchdog.joinable())
    watchdog = std::thread([this] { guard(); });
}

void ContextImpl::unwatch(Watched *instance) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return inUseByAbort != instance; });
  watched.remove(instance);
}

static constexpr std::chrono::milliseconds kOthersReason{50};

void ContextImpl::guard() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!stopping) {
    // Runs do not notify the watchdog; it polls, so runs pay nothing for it.
    Clock::time_point now = Clock::now();
    std::string stall;
    // What the ranks know of each other matters only to those that wait for each other.
    auto isRunning = [](Watched *instance) { return !instance->runsInFlight().empty(); };
    if (reason.ok())
      for (Watched *instance : watched)
        if (stall.empty() && instance->deadline() <= now)
          stall = fmt::format("no end after {} ms: {}", options.timeout.count(),
                              instance->describeStall());
    if (Status same = reason.ok() ? board.compare() : Status(); !same.ok()) {
      lock.unlock();
      poison(same.withPrefix(fmt::format("rank {}: ", rank())));
      lock.lock();
      continue;
    }
    if (reason.ok() && stall.empty())
      if (Status known = bootstrap().health(); !known.ok())
        if (auto running = std::find_if(watched.begin(), watched.end(), isRunning);
            running != watched.end())
          stall = fmt::format("{}: {}", (*running)->describeStall(), known.message());
    if (!stall.empty()) {
      // Ranks that wait for the same rank time out together. An operation that was released by
      // another rank's abort is about to report a better reason.
      changed.wait_for(lock, kOthersReason, [&] { return stopping || !reason.ok(); });
      if (stopping || !reason.ok())
        continue;
      Status timeout(Code::Timeout, fmt::format("rank {}: {}", options.bootstrap->rank(), stall));
      lock.unlock();
      poison(timeout);
      lock.lock();
      continue;
    }
    changed.wait_for(lock, std::chrono::milliseconds(20));
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
