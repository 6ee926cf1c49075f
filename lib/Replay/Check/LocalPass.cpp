//===- LocalPass.cpp - what one rank does to its memory ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalPass.h"

#include "Lint.h"

#include <algorithm>
#include <optional>

namespace tandem::check {

using namespace replay;

namespace {

/// One access, for comparison with later ones.
struct Last {
  CommandId command = kNone;
  uint32_t stream = 0, tick = 0; ///< the tick-th command of its stream, from 1: see takesPart
  uint32_t buffer = kNone;       ///< the buffer it went through
};

constexpr uint64_t kNoHole = ~uint64_t(0);

/// rest = from - what; true if they touch.
bool subtract(const std::vector<Interval> &from, const std::vector<Interval> &what,
              std::vector<Interval> &rest) {
  bool touches = false;
  size_t w = 0;
  for (Interval piece : from) {
    while (w > 0 && what[w - 1].end > piece.begin)
      --w;
    for (; w < what.size() && what[w].begin < piece.end; ++w) {
      if (what[w].end <= piece.begin)
        continue;
      touches = true;
      if (what[w].begin > piece.begin)
        rest.push_back({piece.begin, what[w].begin});
      piece.begin = std::min(piece.end, what[w].end);
    }
    if (piece.begin < piece.end)
      rest.push_back(piece);
  }
  return touches;
}

/// Tracks the last writer of each place in issue order. Reports reads of unwritten memory, reads of
/// another buffer's data, and results that are not written.
class Contents {
public:
  Contents(const World &world, uint32_t rank, const Execution &execution,
           const FootprintTable &footprints, std::shared_ptr<const Overlaps> overlaps,
           Findings &findings)
      : world(world), rank(world.ranks[rank]), r(rank), execution(execution),
        footprints(footprints), graph(std::move(overlaps)), findings(findings),
        writes(graph->places.size()),
        putWhen(world.incoming[rank].empty() ? 0 : graph->places.size(), kNone),
        covered(graph->places.size(), 0) {}

  /// A peer's put into a place.
  void put(CommandId command, uint32_t place) {
    putWhen[place] = std::min(putWhen[place], execution.when[command]);
  }

  void write(const Last &here, uint32_t place) { writes[place] = here; }
  const Last &lastWrite(uint32_t place) const { return writes[place]; }

  void checkInitialized(const Last &here, uint32_t place) {
    uint32_t when = execution.when[here.command];
    if (!execution.finished)
      when = kNone; // a command that never ran counts as run: the deadlock is reported
    if (isCovered(place, when))
      return;
    covered[place] = 1; // report once
    if (!findings.wants(Diagnosis::UninitializedRead))
      return findings.count(Diagnosis::UninitializedRead);
    const Place &where = graph->places[place];
    findings.add(
        {Diagnosis::UninitializedRead,
         fmt::format("rank {} reads {}, of which byte {} has not been written in this run", r,
                     describeBytes(world, r, footprints, where, where), firstHole(place, when)),
         {here.command},
         {world.describe(here.command)}});
  }

  /// Checks that a read of the arena finds data written through its own buffer.
  void checkLife(const Last &here, uint32_t place) {
    const Overlaps::Edge *stranger = nullptr;
    CommandId latestOwn = 0;
    bool hasOwn = false;
    uint64_t bytes = footprints.set(graph->places[place].layout).bytes;
    for (const Overlaps::Edge *e = graph->begin(place); e != graph->end(place); ++e) {
      const Last &last = writes[e->to];
      if (last.command == kNone)
        continue;
      if (last.buffer == here.buffer) {
        if (e->common == bytes) {
          hasOwn = true;
          latestOwn = std::max(latestOwn, last.command);
        }
      } else if (!stranger || last.command > writes[stranger->to].command) {
        stranger = e;
      }
    }
    if (!stranger || (hasOwn && latestOwn > writes[stranger->to].command))
      return;
    paint(here, place);
  }

  /// At END.
  void checkResult(uint32_t argument) {
    std::vector<Interval> written;
    Place key{Space::Argument, argument, 0, 0};
    for (auto p = static_cast<uint32_t>(
             std::lower_bound(graph->places.begin(), graph->places.end(), key) -
             graph->places.begin());
         p < graph->places.size() && graph->places[p].sameMemory(key); ++p) {
      if (writes[p].command == kNone)
        continue;
      if (!intervals(graph->places[p].address, footprints.set(graph->places[p].layout), written))
        return;
    }
    std::sort(written.begin(), written.end(),
              [](const Interval &a, const Interval &b) { return a.begin < b.begin; });
    uint64_t at = 0;
    for (const Interval &piece : written) {
      if (piece.begin > at)
        break;
      at = std::max(at, piece.end);
    }
    uint64_t bytes = rank.argumentBytes[argument];
    if (at >= bytes)
      return;
    findings.add({Diagnosis::ResultIncomplete,
                  fmt::format("rank {}: byte {} of the {} of result \"{}\" is never written", r, at,
                              bytes, world.arguments[argument].name),
                  {},
                  {}});
  }

private:
  bool isWritten(uint32_t place, uint32_t when) const {
    return writes[place].command != kNone || (!putWhen.empty() && putWhen[place] < when);
  }

  /// Whether all bytes of a place are written; `when`: counts puts before this time.
  bool isCovered(uint32_t place, uint32_t when) {
    if (covered[place])
      return true;
    uint64_t bytes = footprints.set(graph->places[place].layout).bytes, sum = 0;
    for (const Overlaps::Edge *e = graph->begin(place); e != graph->end(place); ++e) {
      if (!isWritten(e->to, when))
        continue;
      if (e->common == bytes) {
        covered[place] = 1;
        return true;
      }
      sum += e->common;
    }
    if (sum < bytes)
      return false;
    bool whole = firstHole(place, when) == kNoHole;
    covered[place] = whole ? 1 : 0;
    return whole;
  }

  /// The first unwritten byte.
  uint64_t firstHole(uint32_t place, uint32_t when) const {
    std::vector<Interval> wanted, written;
    if (!intervals(graph->places[place].address, footprints.set(graph->places[place].layout),
                   wanted))
      return kNoHole;
    for (const Overlaps::Edge *e = graph->begin(place); e != graph->end(place); ++e) {
      const Place &other = graph->places[e->to];
      if (isWritten(e->to, when) &&
          !intervals(other.address, footprints.set(other.layout), written))
        return kNoHole;
    }
    std::sort(written.begin(), written.end(),
              [](const Interval &a, const Interval &b) { return a.begin < b.begin; });
    // Written intervals are merged, so their ends ascend like their begins.
    size_t last = 0;
    for (size_t w = 1; w < written.size(); ++w) {
      if (written[w].begin <= written[last].end)
        written[last].end = std::max(written[last].end, written[w].end);
      else
        written[++last] = written[w];
    }
    written.resize(std::min(written.size(), last + 1));
    size_t w = 0;
    for (const Interval &piece : wanted) {
      while (w < written.size() && written[w].end <= piece.begin)
        ++w;
      if (w == written.size() || written[w].begin > piece.begin)
        return piece.begin;
      if (written[w].end < piece.end)
        return written[w].end;
    }
    return kNoHole;
  }

  /// Finds the last writer of each byte of a place that another buffer's writes overlap.
  void paint(const Last &here, uint32_t place) {
    std::vector<const Overlaps::Edge *> writers;
    for (const Overlaps::Edge *e = graph->begin(place); e != graph->end(place); ++e)
      if (writes[e->to].command != kNone)
        writers.push_back(e);
    std::sort(writers.begin(), writers.end(), [&](const auto *a, const auto *b) {
      return writes[a->to].command > writes[b->to].command;
    });
    // From the last write back: the part of the place that is still unexplained.
    std::vector<Interval> open;
    if (!intervals(graph->places[place].address, footprints.set(graph->places[place].layout), open))
      return;
    for (const Overlaps::Edge *e : writers) {
      std::vector<Interval> written, rest;
      const Place &other = graph->places[e->to];
      if (!intervals(other.address, footprints.set(other.layout), written))
        return;
      bool touches = subtract(open, written, rest);
      const Last &last = writes[e->to];
      if (touches && last.buffer != here.buffer)
        return reportLife(here, place, e->to);
      open = std::move(rest);
    }
  }

  void reportLife(const Last &here, uint32_t place, uint32_t by) {
    const Last &last = writes[by];
    auto buffer = [&](uint32_t b) {
      return fmt::format("buffer {} \"{}\"", b, world.names[rank.buffers[b].name].text);
    };
    findings.add(
        {Diagnosis::Lifetime,
         fmt::format("rank {} reads {} through {}, which was last written through {}", r,
                     describeBytes(world, r, footprints, graph->places[place], graph->places[by]),
                     buffer(here.buffer), buffer(last.buffer)),
         {here.command, last.command},
         {world.describe(here.command), world.describe(last.command)}});
  }

  const World &world;
  const replay::Rank &rank;
  const uint32_t r;
  const Execution &execution;
  const FootprintTable &footprints;
  std::shared_ptr<const Overlaps> graph;
  Findings &findings;
  std::vector<Last> writes;      ///< per place: the last
  std::vector<uint32_t> putWhen; ///< per place: the earliest put into it; empty: no puts
  std::vector<uint8_t> covered;  ///< per place: whether all bytes are written
};

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
    if (isMessage(command.kind) || command.kind == Kind::Signal ||
        command.kind == Kind::FusedExchange ||
        infoOf(command.kind).category == program::Category::Waiting)
      return;
    lint->work(i, ended(lastWork, command.stream));
    lastWork = {i, command.stream, ticks[command.stream], kNone};
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
