//===- LocalPass.cpp - what one rank does to its memory ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalPass.h"

#include "Contents.h"
#include "Lint.h"

#include <algorithm>
#include <optional>

namespace tandem::check {

using namespace replay;

namespace {

/// Pairs kept per rank.
constexpr size_t kMaxOpen = 64;

class RankChecker {
public:
  RankChecker(const World &world, uint32_t r, const CheckOptions &options,
              const Execution &execution, FootprintTable &footprints, Findings &findings)
      : world(world), rank(world.ranks[r]), r(r), options(options), execution(execution),
        footprints(footprints), findings(findings) {}

  LocalResult run() {
    collectPlaces();
    readers.assign(graph->places.size(), kNone);
    streams = rank.numStreams;
    clock.assign(size_t(streams) * streams, 0);
    ticks.assign(streams, 0);
    ticks[0] = clock[0] = 1; // START is the first of stream 0
    eventClocks.assign(size_t(rank.numEvents) * streams, 0);
    lastAccess.resize(streams);
    if (options.lint)
      lint.emplace(world, r, footprints, graph, findings);
    for (CommandId i = rank.begin; i < rank.end; ++i)
      step(i);
    finish();
    return std::move(result);
  }

private:
  // Places

  bool isTracked(const View &view) const {
    return view.space != Space::Argument || world.arguments[view.argument].isResult;
  }

  void collectPlaces() {
    std::vector<Place> places;
    placeOfView.assign(rank.views.size(), kNone);
    std::vector<Place> ofView(rank.views.size());
    for (size_t v = 0; v < rank.views.size(); ++v) {
      const View &view = rank.views[v];
      if (!isTracked(view))
        continue;
      ofView[v] = {view.space, view.argument, view.address, view.layout};
      places.push_back(ofView[v]);
    }
    for (CommandId put : world.incoming[r])
      places.push_back(placeOfPut(put));
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    graph = footprints.overlaps(std::move(places));
    result.overlaps = graph;
    result.numOverlaps = graph->edges.size();
    for (size_t v = 0; v < rank.views.size(); ++v)
      if (isTracked(rank.views[v]))
        placeOfView[v] = find(ofView[v]);
    contents.emplace(world, r, execution, footprints, graph, findings);
    for (CommandId put : world.incoming[r])
      contents->put(put, find(placeOfPut(put)));
  }

  Place placeOfPut(CommandId put) const {
    const Command &command = world.commands[put];
    const View &dst = *world.operand(world.ranks[world.rankOf(put)], command, 0);
    return {Space::Symmetric, 0, dst.address, dst.layout};
  }

  uint32_t find(const Place &place) const {
    return static_cast<uint32_t>(
        std::lower_bound(graph->places.begin(), graph->places.end(), place) -
        graph->places.begin());
  }

  // Order

  uint32_t *clockOf(uint32_t stream) { return clock.data() + size_t(stream) * streams; }
  /// Whether `last` has ended before the next command of `stream`.
  bool ended(const Last &last, uint32_t stream) {
    return clockOf(stream)[last.stream] >= last.tick;
  }
  static void join(uint32_t *into, const uint32_t *from, uint32_t n) {
    for (uint32_t s = 0; s < n; ++s)
      into[s] = std::max(into[s], from[s]);
  }

  void step(CommandId i) {
    const Command &command = world.commands[i];
    uint32_t stream = command.stream;
    if (command.kind == Kind::Wait) {
      const uint32_t *event = &eventClocks[size_t(command.aux) * streams];
      if (lint && std::equal(event, event + streams, clockOf(stream), std::less_equal<>()))
        lint->redundantWait(i);
      join(clockOf(stream), event, streams);
    }
    if (!isMessage(command.kind)) {
      // Earlier commands of the stream have ended.
      clockOf(stream)[stream] = ticks[stream];
      ticks[stream] += takesPart(command.kind);
    }
    if (lint)
      observe(i, command);
    if (command.kind == Kind::Put || command.kind == Kind::Signal)
      result.oneSided.emplace_back(i, noteClock(stream));
    if (command.kind == Kind::Record) {
      uint32_t *event = &eventClocks[size_t(command.aux) * streams];
      join(event, clockOf(stream), streams);
      return;
    }
    accesses.clear();
    localAccesses(world, rank, command, accesses);
    if (accesses.empty())
      return;
    Last here{i, stream, ticks[stream], kNone};
    if (!clockOf(stream)[0] && !startReported) {
      startReported = true;
      notJoined(i, fmt::format("rank {}: stream {} begins without waiting for the main stream", r,
                               stream));
    }
    lastAccess[stream] = here;
    for (const Access &access : accesses)
      if (placeOfView[access.view] != kNone)
        apply(here, access, placeOfView[access.view]);
      else if (lint)
        lint->inputRead(rank.views[access.view]);
  }

  void observe(CommandId i, const Command &command) {
    switch (command.kind) {
    case Kind::Record:
    case Kind::Wait:
    case Kind::Signal:
    case Kind::WaitSignal:
    case Kind::Send:
    case Kind::Recv:
      return;
    default:
      lint->work(i, ended(lastWork, command.stream));
      lastWork = {i, command.stream, ticks[command.stream], kNone};
    }
    if (command.kind != Kind::Copy)
      return;
    const View &to = *world.operand(rank, command, 0), &from = *world.operand(rank, command, 1);
    lint->copy(i, placeOfView[rank.operands[command.operands]],
               placeOfView[rank.operands[command.operands + 1]], to.layout == from.layout);
  }

  // Accesses

  void apply(Last here, const Access &access, uint32_t place) {
    here.buffer = rank.views[access.view].buffer;
    const Place &where = graph->places[place];
    if (lint)
      lint->access(here.command, place, access.reads, access.writes);
    if (access.reads) {
      compareWithWrites(here, place, access.writes);
      contents->checkInitialized(here, place);
      if (where.space == Space::Arena)
        contents->checkLife(here, place);
    }
    if (access.writes) {
      if (!access.reads)
        compareWithWrites(here, place, true);
      compareWithReads(here, place);
    }
    if (where.space == Space::Symmetric)
      noteSymmetric(here, place, access.writes);
    if (access.writes) {
      contents->write(here, place);
      readers[place] = kNone;
    } else {
      addReader(here, place);
    }
  }

  void compareWithWrites(const Last &here, uint32_t place, bool isWrite) {
    for (const Overlaps::Edge *e = graph->begin(place); e != graph->end(place); ++e) {
      const Last &last = contents->lastWrite(e->to);
      if (last.command != kNone && last.command != here.command && !ended(last, here.stream))
        open({last.command, here.command, true, isWrite, e->to, place});
    }
  }

  void compareWithReads(const Last &here, uint32_t place) {
    for (const Overlaps::Edge *e = graph->begin(place); e != graph->end(place); ++e)
      for (uint32_t n = readers[e->to]; n != kNone; n = pool[n].next)
        if (pool[n].read.command != here.command && !ended(pool[n].read, here.stream))
          open({pool[n].read.command, here.command, false, true, e->to, place});
  }

  void open(const OpenPair &pair) {
    if (result.open.size() < kMaxOpen)
      result.open.push_back(pair);
  }

  void addReader(const Last &here, uint32_t place) {
    for (uint32_t n = readers[place]; n != kNone; n = pool[n].next)
      if (pool[n].read.stream == here.stream) {
        // A later access of the same stream replaces it; a group's messages run concurrently.
        if (pool[n].read.tick != here.tick) {
          pool[n].read = here;
          return;
        }
      }
    pool.push_back({here, readers[place]});
    readers[place] = static_cast<uint32_t>(pool.size() - 1);
  }

  void noteSymmetric(const Last &here, uint32_t place, bool writes) {
    result.symmetric.push_back({here.command, place, writes, noteClock(here.stream)});
  }

  uint32_t noteClock(uint32_t stream) {
    auto first = static_cast<uint32_t>(result.clocks.size());
    result.clocks.insert(result.clocks.end(), clockOf(stream), clockOf(stream) + streams);
    return first;
  }

  // END

  void notJoined(CommandId command, std::string message) {
    findings.add({Diagnosis::NotJoined, std::move(message), {command}, {world.describe(command)}});
  }

  void finish() {
    if (lint)
      lint->finish();
    clockOf(0)[0] = ticks[0];
    result.clockAtEnd.assign(clockOf(0), clockOf(0) + streams);
    for (uint32_t s = 1; s < streams; ++s)
      if (lastAccess[s].command != kNone && result.clockAtEnd[s] < lastAccess[s].tick)
        notJoined(lastAccess[s].command,
                  fmt::format("rank {}: the main stream ends without waiting for stream {}", r, s));
    for (uint32_t a = 0; a < world.arguments.size(); ++a)
      if (world.arguments[a].isResult && rank.argumentPresent[a] && rank.argumentBytes[a] > 0)
        contents->checkResult(a);
  }

  struct Reader {
    Last read;
    uint32_t next;
  };

  const World &world;
  const Rank &rank;
  const uint32_t r;
  const CheckOptions &options;
  const Execution &execution;
  FootprintTable &footprints;
  Findings &findings;
  LocalResult result;
  std::shared_ptr<const Overlaps> graph;
  std::optional<Contents> contents;
  uint32_t streams = 1;
  std::vector<uint32_t> placeOfView;
  std::vector<uint32_t> readers; ///< per place: reads since the last write; into pool
  std::vector<Reader> pool;
  std::vector<uint32_t> clock, ticks,
      eventClocks;              ///< clocks: per stream, the commands that have ended
  std::vector<Last> lastAccess; ///< per stream
  std::vector<Access> accesses;
  bool startReported = false;
  std::optional<Lint> lint;
  Last lastWork;
};

} // namespace

LocalResult checkRank(const World &world, uint32_t rank, const CheckOptions &options,
                      const Execution &execution, FootprintTable &footprints, Findings &findings) {
  return RankChecker(world, rank, options, execution, footprints, findings).run();
}

std::string describeBytes(const World &world, uint32_t rank, const FootprintTable &footprints,
                          const Place &a, const Place &b) {
  uint64_t begin = std::max(a.address, b.address);
  uint64_t end = std::min(a.address + footprints.set(a.layout).span,
                          b.address + footprints.set(b.layout).span);
  std::string where;
  if (a.space == Space::Argument)
    where = fmt::format("arg{} \"{}\"", a.argument, world.arguments[a.argument].name);
  else
    where = a.space == Space::Arena ? "the arena" : "symmetric memory";
  return fmt::format("bytes [{}, {}) of {}", begin, end, where);
}

} // namespace tandem::check
