//===- Graphs.cpp - runs as graphs of the device ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InstanceImpl.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <iterator>

namespace tandem::core {

std::string InstanceImpl::whyNoGraph() const {
  const char *off = std::getenv("TANDEM_GRAPH");
  if (!context.wantsGraphs() || !context.device().hasGraphs() || (off && *off == '0'))
    return "-";
  for (const auto &operation : operations)
    if (std::string why = operation->whyNoGraph(); !why.empty())
      return fmt::format("{}: {}", describe(static_cast<uint32_t>(operation->marker)), why);
  return "";
}

Status InstanceImpl::tryCapture() {
  uint64_t most = 0;
  for (const ArgumentInfo &info : programHandle->arguments())
    most = std::max(most, info.present ? info.localBytes() : 0);
  auto placeholder = context.device().allocate(most, MemoryKind::Plain);
  if (placeholder.status().code() == Code::OutOfMemory)
    return Status(); // then the first run tells
  TANDEM_RETURN_IF_ERROR(placeholder.status());
  std::vector<void *> addresses(bound.size(), (*placeholder)->data());
  bound.swap(addresses);
  Slot &slot = slots[0];
  resolve(slot);
  slot.main = streams[0];
  slot.replays = true;
  slot.run = kTrial;
  slot.enqueuing = true;
  slot.inFlight = true;
  Status status = capture(slot, nullptr).status();
  slot.inFlight = false;
  slot.enqueuing = false;
  bound.swap(addresses);
  ++bindings; // what was resolved is of no use
  return status;
}

Status InstanceImpl::agreeOnGraphs() {
  graphs = true;
  // Says whether all ranks can, else which cannot, and why.
  auto gather = [&](const std::string &mine) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(context.bootstrap(), mine));
    for (uint32_t r = 0; r < all.size() && graphs; ++r) {
      const std::string &why = all[r];
      graphs = why.empty();
      if (!graphs && why != "-" && context.rank() == 0)
        context.device().log(LogLevel::Warning, fmt::format("@{} runs without a graph: rank {}: {}",
                                                            programHandle->name(), r, why));
    }
    return Status();
  };
  TANDEM_RETURN_IF_ERROR(gather(whyNoGraph()).withPrefix(prefix()));
  if (!graphs)
    return Status();
  Status status;
  for (uint32_t s = 0; s < streams.size(); ++s) {
    graphStreams.emplace_back();
    if (usesStream[s] && status.ok()) {
      auto stream = context.device().createStream(priorities[s]);
      status = stream.status();
      if (!stream)
        continue;
      if (context.sharesMemory())
        (*stream)->shareWorkspace(s);
      if (multiplies[s])
        status = (*stream)->allocateWorkspace();
      graphStreams.back() = std::move(*stream);
    }
  }
  if (status.ok() && !captureBarrier.waits.empty()) {
    auto stream = context.device().createStream(StreamPriority::High);
    auto event = context.device().createEvent();
    status = stream ? event.status() : stream.status();
    if (status.ok()) {
      barrierStream = std::move(*stream);
      barrierEnded = std::move(*event);
    }
  }
  if (status.ok())
    status = context.awaitRuns(); // of other instances
  bool refused = false;
  // What the device refuses to capture is known before the first run: some ranks with a graph and
  // some without would be another order of what communication libraries see.
  if (status.ok()) {
    status = tryCapture();
    refused = status.code() == Code::Unsupported;
  }
  TANDEM_RETURN_IF_ERROR(gather(refused ? status.message() : "").withPrefix(prefix()));
  if (!graphs) {
    graphStreams.clear();
    barrierStream.reset();
  }
  return agree(refused ? Status() : status, "prepare graphs");
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

void InstanceImpl::dropGraphs() {
  std::lock_guard<std::mutex> lock(graphMutex);
  for (GraphCache &cache : graphCaches)
    cache.clear();
}

} // namespace tandem::core
