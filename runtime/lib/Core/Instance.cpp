//===- Instance.cpp - binding and running ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InstanceImpl.h"

#include "tandem/Program/Container.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <thread>

namespace tandem {

namespace core {

using Clock = std::chrono::steady_clock;

namespace {
/// How long an abort waits for a run that is being captured or launched.
constexpr std::chrono::milliseconds kCapture{500};
/// A rank that lives but does not begin a run is waited for so many timeouts.
constexpr int kMostTimeouts = 60;
} // namespace

InstanceImpl::~InstanceImpl() {
  wait().ignore();
  shared->leave(*this);
  if (watched)
    context.unwatch(this);
  context.forget(number);
}

void InstanceImpl::retire() {
  shared->detach(*this); // another thread may be moving it
  // After an error, to finish a run means to wait until the device has let go of its work.
  if (context.failure().ok())
    query().status().ignore();
  bool idle = std::none_of(slots.begin(), slots.end(),
                           [](const Slot &slot) { return slot.inFlight.load(); });
  bool alone = std::all_of(channels.begin(), channels.end(),
                           [](const auto &channel) { return channel == nullptr; });
  std::unique_ptr<InstanceImpl> self(this);
  if (idle && alone)
    return;
  if (idle)
    releaseOwn();
  context.retire(number, std::move(self));
}

void InstanceImpl::finishRuns() {
  wait().ignore();
  releaseOwn();
}

void InstanceImpl::releaseOwn() {
  captured = false;           // its graphs are not replayed any more
  context.awaitLookers(this); // later ones find no run in flight
  dropGraphs();
  steps.clear();
  operations.clear();
  captureBarrier = Barrier();
  runBarrier = Barrier();
  graphStreams.clear();
  barrierStream.reset();
  shared->leave(*this);
  arena.reset();
  varying.reset();
}

void InstanceImpl::moveArena(const std::shared_ptr<Memory> &to) {
  if (captured)
    return;
  nextArena = to;
  // A thread that prepares another instance must not wait for runs that need the peers.
  if (!oldest())
    followArena();
}

void InstanceImpl::followArena() {
  if (!nextArena)
    return;
  wait().ignore();
  dropGraphs();
  arena = std::move(nextArena);
  ++bindings; // addresses in the arena are computed again
}

void *InstanceImpl::baseOf(const sp::Buffer &buffer, unsigned parity) const {
  auto at = [&](void *base) { return static_cast<std::byte *>(base) + buffer.offset(); };
  switch (buffer.space()) {
  case sp::Space::argument:
    return bound[buffer.argument()];
  case sp::Space::symmetric:
    return at(symmetric->memory.base) + parity * symmetric->memory.bufferBytes;
  default:
    return at(arena->data());
  }
}

void InstanceImpl::resolve(Slot &slot) {
  if (slot.bindings == bindings)
    return;
  resolve(slot.pointers, slot.frame.parity);
  slot.bindings = bindings;
}

void InstanceImpl::resolve(std::vector<void *> &pointers, unsigned parity) const {
  for (size_t v = 0; v < pointers.size(); ++v) {
    const sp::View &view = *data.views()->Get(static_cast<uint32_t>(v));
    auto *base = static_cast<std::byte *>(baseOf(*data.buffers()->Get(view.buffer()), parity));
    pointers[v] = base ? base + view.offset() : nullptr;
  }
}

Status InstanceImpl::run() {
  TANDEM_RETURN_IF_ERROR(enqueue(nullptr, {}));
  return wait();
}

void InstanceImpl::setMain(Slot &slot, std::shared_ptr<Stream> main) {
  Stream *stream = main ? main.get() : streams[0];
  if (slot.main == stream && slot.mainHeld == main)
    return;
  // The earlier stream ends after the lock, if this run was its last user and the watchdog is not
  // looking at it.
  auto lock = context.lockWatched();
  slot.main = stream;
  slot.mainHeld.swap(main);
}

std::shared_ptr<Stream> InstanceImpl::mainOf(const Slot &slot) const {
  auto lock = context.lockWatched();
  return slot.mainHeld ? slot.mainHeld
                       : std::shared_ptr<Stream>(std::shared_ptr<Stream>(), slot.main);
}

InstanceImpl::Slot &InstanceImpl::nextSlot() {
  if (!context.device().hostMemory())
    return slots[epoch % depth()];
  // Few slots, whose addresses are known, if the host waits now and then. The number of a slot is
  // even if its run's is: so runs seldom change to the other parity.
  Slot *first = nullptr;
  for (size_t i = epoch % 2; i < slots.size(); i += 2) {
    Slot &slot = slots[i];
    if (!slot.inFlight || hasEnded(slot))
      return slot;
    if (!first || slot.run < first->run)
      first = &slot;
  }
  return *first;
}

InstanceImpl::Slot *InstanceImpl::earliest(const Slot *other) {
  Slot *first = nullptr;
  for (Slot &slot : slots)
    if (&slot != other && slot.inFlight && (!first || slot.run < first->run))
      first = &slot;
  return first;
}

Status InstanceImpl::holdBack(Slot &slot) {
  auto before = std::find_if(slots.begin(), slots.end(), [&](const Slot &other) {
    return other.inFlight && other.run + kRuns == slot.run;
  });
  if (before == slots.end() || hasEnded(*before))
    return Status();
  Stream *main = slot.main;
  for (uint32_t s = 0; s < streams.size(); ++s)
    if (usesStream[s])
      TANDEM_RETURN_IF_ERROR(main->wait(*before->ends[s], kNoMarker));
  TANDEM_RETURN_IF_ERROR(main->record(*slot.mayBegin, kNoMarker));
  for (uint32_t s = 1; s < streams.size(); ++s)
    if (usesStream[s])
      TANDEM_RETURN_IF_ERROR(streams[s]->wait(*slot.mayBegin, kNoMarker));
  return Status();
}

Status InstanceImpl::checkCapture(bool isCapturing) const {
  const char *why = varying   ? "a program with an extent that varies cannot be captured"
                    : tracing ? "a traced run cannot be captured"
                    : graphs  ? nullptr
                              : "the run cannot be captured: this program runs without a graph";
  return isCapturing && why ? Status(Code::Unsupported, prefix() + why) : Status();
}

Status InstanceImpl::enqueue(std::shared_ptr<Stream> main, void *const *addresses,
                             const uint64_t *bytes, std::string_view call) {
  TANDEM_RETURN_IF_ERROR(context.failure());
  bool isCapturing = main && main->isCapturing();
  TANDEM_RETURN_IF_ERROR(checkCapture(isCapturing));
  TANDEM_RETURN_IF_ERROR(bindAll(addresses, bytes));
  return enqueueBound(std::move(main), isCapturing, call);
}

Status InstanceImpl::enqueue(std::shared_ptr<Stream> main, std::string_view call) {
  TANDEM_RETURN_IF_ERROR(context.failure());
  bool isCapturing = main && main->isCapturing();
  TANDEM_RETURN_IF_ERROR(checkCapture(isCapturing));
  return enqueueBound(std::move(main), isCapturing, call);
}

std::string_view InstanceImpl::describeRun(std::string_view call) {
  if (shapes.empty())
    shapes = fmt::format(" (program {} of the context: {})", number, logicalShapes());
  // What differs most often is in front, because a board keeps the beginning.
  what.assign("run @").append(programHandle->name());
  if (varying)
    fmt::format_to(std::back_inserter(what), ", extent {}", varying->extent());
  if (!call.empty())
    what.append(", ").append(call);
  return what.append(shapes);
}

Status InstanceImpl::enqueueBound(std::shared_ptr<Stream> main, bool isCapturing,
                                  std::string_view call) {
  TANDEM_RETURN_IF_ERROR(checkBindings());
  if (isCapturing)
    return captureInto(*main).withPrefix(prefix());
  followArena();
  Slot &slot = nextSlot();
  TANDEM_RETURN_IF_ERROR(finish(slot));
  slot.frame.epoch = epoch;
  slot.frame.extent = varying ? varying->extent() : -1;
  slot.frame.times = tracing ? commandTimes.data() : nullptr;
  setMain(slot, std::move(main));
  ++epoch;
  // Whether the time limit starts behind other work on the stream.
  slot.hasBegin = slot.mainHeld || !context.sharesMemory() || shared->isBehindOthers(*this);
  slot.run = slot.frame.epoch;
  uint64_t order = 0;
  Status status = context.noteRun(describeRun(call), order);
  slot.order = order;
  slot.enqueuing = true;
  slot.inFlight = true;
  if (status.ok())
    status = shared->follow(*slot.main.load(), slot.followed);
  if (status.ok() && slot.hasBegin)
    status = slot.main.load()->record(*slot.begin, kNoMarker);
  beginGeneration(slot);
  if (status.ok() && context.device().hostMemory())
    status = holdBack(slot);
  if (status.ok() && varying)
    status = varying->before(slot.number, *slot.main.load(), given, *this);
  if (status.ok()) {
    slot.replays = graphs && !tracing;
    if (slot.replays)
      status = replay(slot);
    else
      status = dispatch(slot);
  }
  if (status.ok())
    shared->note(*this, *slot.main.load(), slot.ends[0]);
  slot.enqueuing = false;
  // The caller's next work on its stream must be behind the run.
  if (status.ok() && slot.mainHeld)
    status = slot.mainHeld->awaitIssue();
  if (!status.ok())
    context.poison(status.withPrefix(prefix()));
  return context.failure();
}

Status InstanceImpl::issue(Slot &slot, Stream *main, const std::vector<Stream *> &others,
                           Event *barrierEnded) {
  auto streamOf = [&](uint32_t s) { return s == 0 ? main : others[s]; };
  std::vector<char> isBehind(barrierEnded ? others.size() : 0);
  for (const Step &step : steps) {
    Stream &stream = *streamOf(step.stream);
    if (barrierEnded && !step.isLocal && !std::exchange(isBehind[step.stream], 1))
      TANDEM_RETURN_IF_ERROR(stream.wait(*barrierEnded, kNoMarker));
    switch (step.kind) {
    case Step::Run:
      if (Status status = step.operation->enqueue(stream, slot.frame); !status.ok())
        return status.withPrefix(describe(static_cast<uint32_t>(step.marker)) + ": ");
      break;
    case Step::Record:
      TANDEM_RETURN_IF_ERROR(stream.record(*step.event, step.marker));
      break;
    case Step::Wait:
      TANDEM_RETURN_IF_ERROR(stream.wait(*step.event, step.marker));
      break;
    }
  }
  return Status();
}

Status InstanceImpl::dispatch(Slot &slot) {
  TANDEM_RETURN_IF_ERROR(enterBarrier(slot));
  resolve(slot);
  Stream *main = slot.main;
  for (uint32_t s = 0; s < streams.size(); ++s)
    if (usesStream[s])
      (s == 0 ? main : streams[s])->timeEvents(slot.frame.times);
  TANDEM_RETURN_IF_ERROR(issue(slot, main, streams));
  if (varying)
    TANDEM_RETURN_IF_ERROR(varying->after(slot.number, *main));
  for (uint32_t s = 0; s < streams.size(); ++s)
    if (usesStream[s])
      TANDEM_RETURN_IF_ERROR((s == 0 ? main : streams[s])->record(*slot.ends[s], kNoMarker));
  return Status();
}

std::vector<Stream *> InstanceImpl::captureStreams() const {
  std::vector<Stream *> byNumber;
  for (const auto &stream : graphStreams)
    byNumber.push_back(stream.get());
  return byNumber;
}

Expected<std::unique_ptr<Graph>> InstanceImpl::capture(Slot &slot,
                                                       std::unique_ptr<Graph> previous) {
  std::vector<Stream *> byNumber = captureStreams(), used;
  std::copy_if(byNumber.begin(), byNumber.end(), std::back_inserter(used),
               [](Stream *stream) { return stream; });
  return context.device().capture(used, std::move(previous),
                                  [&] { return issue(slot, byNumber[0], byNumber); });
}

Expected<GraphCache::Entry *> InstanceImpl::makeGraph(Slot &slot,
                                                      std::unique_lock<std::mutex> &lock) {
  resolve(slot);
  GraphCache &cache = graphCaches[slot.frame.parity];
  const GraphCache::Addresses &key = graphKey();
  bool returns = cache.noteMiss(key);
  GraphCache::Entry *entry = &cache.place(returns);
  entry->addresses.clear();
  bool fits = false;
  if (entry->graph && entry->graph->patches()) {
    std::vector<Stream *> byNumber = captureStreams();
    TANDEM_ASSIGN_OR_RETURN(
        fits, entry->graph->patch([&] { return issue(slot, byNumber[0], byNumber); }));
  }
  if (!fits && entry->graph && entry->graph->updates()) {
    TANDEM_ASSIGN_OR_RETURN(entry->graph, capture(slot, std::move(entry->graph)));
    fits = entry->graph != nullptr;
  }
  if (!fits) {
    // This run first, which also asks the channels for errors. Unlock: an abort needs the lock,
    // too.
    uint64_t cleared = cache.timesCleared();
    lock.unlock();
    while (Slot *other = earliest(&slot))
      TANDEM_RETURN_IF_ERROR(finish(*other));
    TANDEM_RETURN_IF_ERROR(context.awaitRuns());
    lock.lock();
    if (cache.timesCleared() != cleared) {
      lock.unlock();
      return context.failure(); // an abort has dropped the graphs
    }
    TANDEM_ASSIGN_OR_RETURN(entry->graph, capture(slot, std::move(entry->graph)));
    if (!entry->graph) { // the update was refused
      TANDEM_ASSIGN_OR_RETURN(entry->graph, capture(slot, nullptr));
    }
  }
  entry->addresses = key;
  return cache.find(key);
}

const GraphCache::Addresses &InstanceImpl::graphKey() {
  if (!callsVary)
    return bound;
  boundAndExtent = bound;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  boundAndExtent.push_back(reinterpret_cast<void *>(varying->extent()));
  return boundAndExtent;
}

Status InstanceImpl::replay(Slot &slot) {
  std::unique_lock<std::mutex> lock(graphMutex);
  GraphCache::Entry *entry = graphCaches[slot.frame.parity].find(graphKey());
  if (!entry) {
    TANDEM_ASSIGN_OR_RETURN(entry, makeGraph(slot, lock));
  }
  TANDEM_RETURN_IF_ERROR(enterBarrier(slot));
  TANDEM_RETURN_IF_ERROR(entry->graph->launch(*slot.main, slot.frame));
  if (varying)
    TANDEM_RETURN_IF_ERROR(varying->after(slot.number, *slot.main));
  return slot.main.load()->record(*slot.ends[0], kNoMarker);
}

Status InstanceImpl::captureInto(Stream &main) {
  Slot run;
  run.pointers.assign(slots[0].pointers.size(), nullptr);
  run.frame.pointers = run.pointers.data();
  run.frame.errors = this;
  run.frame.firstSignal = data.signal_slots() ? data.signal_slots()->size() : 0;
  resolve(run.pointers, 0);
  Frame ofBarrier = run.frame;
  ofBarrier.firstSignal = 0;
  std::vector<Stream *> byNumber = captureStreams(), used;
  std::copy_if(byNumber.begin(), byNumber.end(), std::back_inserter(used),
               [](Stream *stream) { return stream; });
  Device::CapturedParts parts;
  if (barrierStream) {
    used.push_back(barrierStream.get());
    parts.countsRuns = true;
    parts.firstCounts = captureBarrier.signals.empty() && captureBarrier.waits.size() == 1;
    parts.first = [&]() -> Status {
      for (const auto *list : {&captureBarrier.signals, &captureBarrier.waits})
        for (const auto &operation : *list)
          TANDEM_RETURN_IF_ERROR(operation->enqueue(*barrierStream, ofBarrier));
      return barrierStream->record(*barrierEnded, kNoMarker);
    };
  }
  parts.body = [&] { return issue(run, byNumber[0], byNumber, barrierEnded.get()); };
  // An abort must not drop graphs while NCCL is being captured.
  std::lock_guard<std::mutex> lock(graphMutex);
  TANDEM_RETURN_IF_ERROR(context.failure()); // nor be followed by a capture
  captured = true;
  if (symmetric)
    (**symmetric).noteCapture();
  nextArena.reset();
  return context.device().captureInto(main, used, parts);
}

Status InstanceImpl::wait() {
  while (Slot *slot = earliest())
    finish(*slot).ignore();
  return context.failure();
}

Expected<bool> InstanceImpl::query() {
  bool ended = true;
  for (Slot &slot : slots) {
    if (slot.inFlight && hasEnded(slot))
      finish(slot).ignore();
    ended &= !slot.inFlight;
  }
  TANDEM_RETURN_IF_ERROR(context.failure());
  return ended;
}

Status InstanceImpl::trace(bool on) {
  if (on && !context.device().timesCommands())
    return Status(Code::Unsupported,
                  fmt::format("device {} cannot time commands", context.device().name()));
  // Runs in flight still write to the old addresses.
  TANDEM_RETURN_IF_ERROR(wait());
  commandTimes.assign(on ? data.commands()->size() : 0, {});
  tracing = on;
  return Status();
}

Status InstanceImpl::finish(Slot &slot) {
  if (!slot.inFlight)
    return context.failure();
  for (uint32_t s = 0; s < streams.size(); ++s)
    if (usesStream[s])
      if (Status status = slot.ends[s]->synchronize(); !status.ok())
        context.poison(status.withPrefix(prefix())); // the device's message is more specific
  if (context.failure().ok())
    if (Status status = context.checkRun(); !status.ok())
      context.poison(status.withPrefix(prefix()));
  if (slot.frame.times && context.failure().ok())
    for (uint32_t s = 0; s < streams.size(); ++s)
      if (usesStream[s])
        if (Status status = (s == 0 ? slot.main.load() : streams[s])->noteTimes(); !status.ok())
          context.poison(status.withPrefix(prefix()));
  // Poisoned: work that ran when the device was aborted must end before its buffers are freed.
  Status health = context.failure();
  if (!health.ok())
    for (uint32_t s = 0; s < streams.size(); ++s)
      (s == 0 ? slot.main.load() : streams[s])->synchronize().ignore();
  slot.inFlight = false;
  return health;
}

bool InstanceImpl::hasEnded(Slot &slot) const {
  if (slot.enqueuing) // until then its ends belong to an earlier run
    return false;
  for (uint32_t s = 0; s < streams.size(); ++s)
    if (usesStream[s] && !slot.ends[s]->reached())
      return false;
  return true;
}

InstanceImpl::Slot *InstanceImpl::oldest() {
  Slot *first = nullptr;
  for (Slot &slot : slots)
    if (slot.inFlight && (!first || slot.run < first->run) && !hasEnded(slot))
      first = &slot;
  return first;
}

Clock::time_point InstanceImpl::deadline() {
  // A run's time starts when the watchdog first finds that nothing is before it any more: neither
  // an earlier run nor work of the caller.
  Slot *slot = oldest();
  if (!slot || (!slot->enqueuing && slot->hasBegin && !slot->begin->reached()))
    return Clock::time_point::max();
  // A command that begins is progress, and so are data that move. The streams of a graph have no
  // positions.
  uint64_t position = 0;
  bool isBehindOthers = false;
  for (uint32_t s = 0; s < streams.size() && !slot->replays; ++s) {
    // A stream that is through with this run shows the progress of later ones. One that is still in
    // another instance's run has yet to come to this one.
    if (!usesStream[s] || (!slot->enqueuing && slot->ends[s]->reached()))
      continue;
    Marker at = s == 0 ? mainOf(*slot)->position() : streams[s]->position();
    isBehindOthers |= at != kNoMarker && at >> 32 != number;
    position = position * 31 + at;
  }
  for (const auto &channel : channels)
    position += channel && !isBehindOthers ? channel->progress() : 0;
  if (isBehindOthers)
    position += context.progress();
  Clock::time_point now = Clock::now();
  if (timedRun != slot->run)
    timedFirst = timedLate = now;
  if (timedRun != slot->run || timedPosition != position)
    timedSince = now;
  timedRun = slot->run;
  timedPosition = position;
  // While a rank that lives has yet to begin the run, its commands may wait for that rank. Ranks
  // are asked only about a run that seems to wait: that costs messages.
  if (now - timedSince.load() >= context.timeout() / 4 &&
      now - timedFirst < kMostTimeouts * context.timeout() &&
      context.bootstrap().begunByAll() < slot->order)
    timedLate = now;
  return std::max(timedSince.load(), timedLate) + context.timeout();
}

bool InstanceImpl::mayWait() {
  return captured || std::any_of(slots.begin(), slots.end(),
                                 [](const Slot &slot) { return slot.inFlight.load(); });
}

std::vector<uint64_t> InstanceImpl::runsInFlight() {
  std::vector<uint64_t> runs;
  for (Slot &slot : slots)
    if (slot.inFlight && !slot.enqueuing && !hasEnded(slot))
      runs.push_back(slot.run);
  return runs;
}

std::string InstanceImpl::describe(uint32_t i) const {
  if (i >= kBarrier)
    return fmt::format(
        "the barrier of ranks before the run (a wait for {}{})",
        i - kBarrier < context.worldSize() ? fmt::format("rank {}", i - kBarrier) : "all others",
        symmetric && (**symmetric).isCaptured() ? "; all ranks must capture between the same runs"
                                                : "");
  const sp::Command &command = *data.commands()->Get(i);
  std::string text = fmt::format("command {} ({}", i, sp::EnumNameCommandKind(command.kind()));
  auto member = [&](uint32_t peer) {
    return data.channels()->Get(command.channel())->group()->Get(peer);
  };
  if (command.kind() == sp::CommandKind::collective)
    text += fmt::format(" {}", toString(static_cast<CollectiveKind>(command.op())));
  if (command.kind() == sp::CommandKind::group)
    for (uint32_t k = 1; k <= command.aux(); ++k) {
      if (k > 4) {
        text += ", ...";
        break;
      }
      const sp::Command &message = *data.commands()->Get(i + k);
      bool isSend = message.kind() == sp::CommandKind::send;
      text += fmt::format("{} {} rank {}", k > 1 ? "," : ":", isSend ? "send to" : "recv from",
                          member(message.peer()));
    }
  if (command.kind() == sp::CommandKind::put || command.kind() == sp::CommandKind::signal)
    text += fmt::format(" to rank {}", member(command.peer()));
  if (command.kind() == sp::CommandKind::wait_signal)
    text += fmt::format(" slot {} value {}", command.aux(), command.value());
  if (program::infoOf(command.kind()).isHead())
    text += fmt::format(" of {} parts", command.aux());
  return text + fmt::format(" \"{}\")", programHandle->nameText(command.name()));
}

std::vector<CommandInFlight> InstanceImpl::inFlight() {
  // Called by the watchdog: uses only constant or atomic state.
  std::vector<CommandInFlight> all;
  const Slot *late = oldest();
  std::shared_ptr<Stream> main = late ? mainOf(*late) : nullptr;
  for (uint32_t s = 0; late && s < streams.size(); ++s) {
    if (!usesStream[s])
      continue;
    Stream *stream = late->replays ? graphStreams[s].get() : s == 0 ? main.get() : streams[s];
    std::vector<Marker> at{stream->position()};
    // A graph runs on stream 0 alone, after the barrier. It has no position: list the commands
    // that may wait.
    if (Marker position = late->replays && s == 0 ? main->position() : kNoMarker;
        position != kNoMarker)
      at[0] = position;
    bool isCertain = at[0] != kNoMarker || !late->replays;
    if (!isCertain)
      at = stream->capturedWaits();
    for (Marker marker : at) {
      if (marker == kNoMarker || marker >> 32 != number)
        continue;
      auto command = static_cast<uint32_t>(marker);
      all.push_back({std::string(programHandle->name()), late->run, s,
                     command < kBarrier ? command : CommandInFlight::kNone, isCertain,
                     describe(command)});
    }
  }
  if (late && all.empty())
    all.push_back({std::string(programHandle->name()), late->run, 0, CommandInFlight::kNone, false,
                   "no command that waits for another rank"});
  return all;
}

std::string InstanceImpl::describeStall() {
  constexpr size_t kMost = 4; // of a graph's commands
  std::map<uint32_t, std::vector<std::string>> byStream;
  for (CommandInFlight &command : inFlight())
    if (command.isCertain || command.command != CommandInFlight::kNone)
      byStream[command.stream].push_back(std::move(command.text));
  std::vector<std::string> parts;
  for (auto &[stream, commands] : byStream) {
    bool isLong = commands.size() > kMost;
    commands.resize(std::min(commands.size(), kMost));
    parts.push_back(fmt::format("stream {} in {}{}", stream, fmt::join(commands, " or "),
                                isLong ? " or a later one" : ""));
  }
  std::string where = parts.empty() ? "no stream is in one of its commands"
                                    : fmt::format("{}", fmt::join(parts, "; "));
  const Slot *run = oldest();
  if (!run && captured) {
    // Nothing is known of a replay but where its kernels wait.
    std::string waits;
    for (uint32_t s = 0; s <= graphStreams.size(); ++s)
      if (Stream *stream = s < graphStreams.size() ? graphStreams[s].get() : barrierStream.get())
        if (Marker at = stream->position(); at != kNoMarker && at >> 32 == number)
          waits += "; waits in " + describe(static_cast<uint32_t>(at));
    return fmt::format("replay of @{} in a graph of the caller{}", programHandle->name(), waits);
  }
  // What ranks know of each other is new only if deadline() has asked for a while.
  if (run && Clock::now() - timedSince.load() >= context.timeout() / 2)
    if (std::string late = context.bootstrap().late(run->order); !late.empty())
      where += "; " + late;
  return fmt::format("run of @{}: {}", programHandle->name(), where);
}

void InstanceImpl::abortChannels(const Status &reason, bool oneSided) {
  auto abortAll = [&] {
    for (uint32_t c = 0; c < channels.size(); ++c)
      if (channels[c] && ((data.channels()->Get(c)->capabilities() & OneSided) != 0) == oneSided)
        channels[c]->abort(reason);
  };
  // One-sided ones first release what waits in kernels, by which the calls below may be blocked.
  if (oneSided)
    return abortAll();
  // NCCL's abort ends only when no graph contains its work. But a thread that captures one may wait
  // for a peer in NCCL until the channel is aborted. Then dropGraphs() drops it.
  std::unique_lock<std::mutex> lock(graphMutex, std::defer_lock);
  for (auto giveUp = Clock::now() + kCapture; !lock.try_lock() && Clock::now() < giveUp;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (lock) {
    for (GraphCache &cache : graphCaches)
      cache.clear();
    // An abort may block, and retire() needs the lock. No graph is made any more: health() is an
    // error.
    lock.unlock();
  }
  abortAll();
}

void InstanceImpl::dropGraphs() {
  std::lock_guard<std::mutex> lock(graphMutex);
  for (GraphCache &cache : graphCaches)
    cache.clear();
}

void InstanceImpl::report(const Status &error, Marker marker) {
  std::string where = prefix();
  if (marker != kNoMarker)
    where += describe(static_cast<uint32_t>(marker)) + ": ";
  context.poison(error.withPrefix(where));
}

} // namespace core

Expected<InstancePtr> Instance::create(Context &context, std::shared_ptr<const Program> program) {
  if (!program)
    return Status(Code::InvalidArgument, "no program");
  // Contexts come from Context::create only, which makes one kind.
  auto instance = std::make_unique<core::InstanceImpl>(static_cast<core::ContextImpl &>(context),
                                                       std::move(program));
  TANDEM_RETURN_IF_ERROR(instance->prepare());
  return InstancePtr(instance.release());
}

} // namespace tandem
