//===- Plan.cpp - the commands of one rank ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Predict.h"

#include <algorithm>

namespace tandem::machine {

using Kind = PlanStep::Kind;

uint32_t Plan::compute(uint32_t stream, Cost launch, double seconds) {
  PlanStep step;
  step.stream = stream;
  step.launch = launch;
  step.seconds = seconds;
  return add(step);
}

static PlanStep transfer(Kind kind, uint32_t stream, double bytes, bool network) {
  PlanStep step;
  step.kind = kind;
  step.stream = stream;
  step.bytes = bytes;
  step.network = network;
  return step;
}

uint32_t Plan::message(uint32_t stream, double bytes, bool network) {
  return add(transfer(Kind::Message, stream, bytes, network));
}

uint32_t Plan::put(uint32_t stream, double bytes, bool network) {
  return add(transfer(Kind::Put, stream, bytes, network));
}

uint32_t Plan::collective(uint32_t stream, const CollectiveCost &cost) {
  PlanStep step;
  step.kind = Kind::Collective;
  step.stream = stream;
  step.collective = cost;
  return add(step);
}

static PlanStep ordering(Kind kind, uint32_t stream, uint32_t after) {
  PlanStep step;
  step.kind = kind;
  step.stream = stream;
  step.after = after;
  return step;
}

uint32_t Plan::signal(uint32_t stream) { return add(ordering(Kind::Signal, stream, 0)); }

uint32_t Plan::waitSignal(uint32_t stream, uint32_t after) {
  return add(ordering(Kind::WaitSignal, stream, after));
}

uint32_t Plan::sync(uint32_t stream, uint32_t after) {
  return add(ordering(Kind::Sync, stream, after));
}

void Plan::fork(uint32_t workers) {
  for (uint32_t worker = 1; worker <= workers; ++worker)
    sync(worker, 0);
}

void Plan::join(uint32_t workers) {
  for (uint32_t worker = 1; worker <= workers; ++worker)
    sync(0, worker);
}

namespace {

/// What a stream is ordered after while a plan is walked.
struct StreamState {
  uint32_t issued = 0; ///< steps but syncs
  uint32_t waits = 0;
  uint32_t recordedIssued = 0, recordedWaits = 0; ///< what the last record covers
  bool hasRecord = false;
  std::vector<uint32_t> known; ///< by stream: how many of its steps come before what is next here
};

/// Whether what comes next on `to` is not yet ordered after all that `from` has.
bool ordersMore(const StreamState &source, const StreamState &target, uint32_t from, uint32_t to) {
  if (source.issued > target.known[from])
    return true;
  for (uint32_t stream = 0; stream < source.known.size(); ++stream)
    if (stream != to && source.known[stream] > target.known[stream])
      return true;
  return false;
}

} // namespace

uint32_t Plan::numStreams() const {
  uint32_t streams = 1;
  for (const PlanStep &step : steps)
    streams = std::max({streams, step.stream + 1, step.kind == Kind::Sync ? step.after + 1 : 0});
  return streams;
}

std::vector<uint8_t> Plan::countEvents() const {
  std::vector<uint8_t> events(steps.size(), 0);
  std::vector<StreamState> streams(numStreams());
  for (StreamState &stream : streams)
    stream.known.assign(streams.size(), 0);
  streams[0].issued = 1; // what was there before the run
  for (size_t i = 0; i < steps.size(); ++i) {
    const PlanStep &step = steps[i];
    StreamState &target = streams[step.stream];
    if (step.kind != Kind::Sync) {
      ++target.issued;
      continue;
    }
    StreamState &source = streams[step.after];
    if (step.stream == step.after || !ordersMore(source, target, step.after, step.stream))
      continue;
    bool recorded = source.hasRecord && source.recordedIssued == source.issued &&
                    source.recordedWaits == source.waits;
    events[i] = recorded ? 1 : 2;
    source.hasRecord = true;
    source.recordedIssued = source.issued;
    source.recordedWaits = source.waits;
    for (size_t s = 0; s < streams.size(); ++s)
      target.known[s] = std::max(target.known[s], source.known[s]);
    target.known[step.after] = std::max(target.known[step.after], source.issued);
    ++target.waits;
  }
  // Workers that end in waits wait for nobody's sake.
  std::vector<bool> used(streams.size(), false);
  used[0] = true;
  for (size_t i = steps.size(); i-- > 0;) {
    const PlanStep &step = steps[i];
    if (step.kind != Kind::Sync)
      used[step.stream] = true;
    else if (!used[step.stream])
      events[i] = 0;
    else if (events[i] > 0)
      used[step.after] = true;
  }
  return events;
}

} // namespace tandem::machine
