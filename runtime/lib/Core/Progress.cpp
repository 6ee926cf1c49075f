//===- Progress.cpp - how far runs are, for the watchdog and for messages ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InstanceImpl.h"

#include "tandem/Program/Commands.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tandem::core {

using Clock = std::chrono::steady_clock;

/// A rank that lives but does not begin a run is waited for so many timeouts.
static constexpr int kMostTimeouts = 60;

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
  timedRun = slot->run.load();
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
      CommandInFlight &found = all.emplace_back();
      found.stream = s;
      found.isCertain = isCertain;
      found.text = describe(command);
      if (command >= kBarrier)
        continue;
      found.command = command;
      const sp::Name &name = *data.names()->Get(data.commands()->Get(command)->name());
      found.location = name.location() ? name.location()->str() : "";
    }
  }
  if (late && all.empty()) {
    all.emplace_back().isCertain = false;
    all.back().text = "no command that waits for another rank";
  }
  for (CommandInFlight &found : all) {
    found.program = programHandle->name();
    found.id = programHandle->id();
    found.run = late->run;
    if (timedRun == late->run)
      found.waited =
          std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - timedSince.load());
  }
  return all;
}

void InstanceImpl::addChannels(std::vector<Snapshot::Channel> &into) {
  for (uint32_t c = 0; c < channels.size() && mayWait(); ++c)
    if (channels[c]) {
      const sp::Channel &in = *data.channels()->Get(c);
      into.push_back({std::string(programHandle->name()),
                      in.name() ? in.name()->str() : "",
                      transports[c],
                      {in.group()->begin(), in.group()->end()},
                      channels[c]->progress()});
    }
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

} // namespace tandem::core
