//===- Instance.cpp - binding and running ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InstanceImpl.h"

#include <algorithm>
#include <fmt/format.h>
#include <thread>
#include <utility>

namespace tandem {

namespace core {

using Clock = std::chrono::steady_clock;

/// How long an abort waits for a run that is being captured or launched.
static constexpr std::chrono::milliseconds kCapture{500};

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
    if (step.operation) {
      if (Status status = step.operation->enqueue(stream, slot.frame); !status.ok())
        return status.withPrefix(describe(static_cast<uint32_t>(step.marker)) + ": ");
    } else {
      TANDEM_RETURN_IF_ERROR(step.records ? stream.record(*step.event, step.marker)
                                          : stream.wait(*step.event, step.marker));
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
