//===- Contents.cpp - what one rank's memory holds ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Contents.h"

#include <algorithm>

namespace tandem::check {

using namespace replay;

static constexpr uint64_t kNoHole = ~uint64_t(0);

/// rest = from - what; true if they touch.
static bool subtract(const std::vector<Interval> &from, const std::vector<Interval> &what,
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

Contents::Contents(const World &world, uint32_t rank, const Execution &execution,
                   const FootprintTable &footprints, std::shared_ptr<const Overlaps> overlaps,
                   Findings &findings)
    : world(world), rank(world.ranks[rank]), r(rank), execution(execution), footprints(footprints),
      graph(std::move(overlaps)), findings(findings), writes(graph->places.size()),
      putWhen(world.incoming[rank].empty() ? 0 : graph->places.size(), kNone),
      covered(graph->places.size(), 0) {}

void Contents::put(CommandId command, uint32_t place) {
  putWhen[place] = std::min(putWhen[place], execution.when[command]);
}

bool Contents::isWritten(uint32_t place, uint32_t when) const {
  return writes[place].command != kNone || (!putWhen.empty() && putWhen[place] < when);
}

/// Whether all bytes of a place are written; `when`: counts puts before this time.
bool Contents::isCovered(uint32_t place, uint32_t when) {
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
uint64_t Contents::firstHole(uint32_t place, uint32_t when) const {
  std::vector<Interval> wanted, written;
  if (!intervals(graph->places[place].address, footprints.set(graph->places[place].layout), wanted))
    return kNoHole;
  for (const Overlaps::Edge *e = graph->begin(place); e != graph->end(place); ++e) {
    const Place &other = graph->places[e->to];
    if (isWritten(e->to, when) && !intervals(other.address, footprints.set(other.layout), written))
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

void Contents::checkInitialized(const Last &here, uint32_t place) {
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

/// A read must find data written through its own buffer.
void Contents::checkLife(const Last &here, uint32_t place) {
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

/// Finds the last writer of each byte of a place that another buffer's writes overlap.
void Contents::paint(const Last &here, uint32_t place) {
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

void Contents::reportLife(const Last &here, uint32_t place, uint32_t by) {
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

void Contents::checkResult(uint32_t argument) {
  std::vector<Interval> written;
  Place key{Space::Argument, argument, 0, 0};
  for (auto p =
           static_cast<uint32_t>(std::lower_bound(graph->places.begin(), graph->places.end(), key) -
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

} // namespace tandem::check
