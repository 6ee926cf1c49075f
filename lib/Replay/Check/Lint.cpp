//===- Lint.cpp - legal but slow code ---------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lint.h"

#include <algorithm>

namespace tandem::check {

using namespace replay;

Lint::Lint(const World &world, uint32_t rank, const FootprintTable &footprints,
           std::shared_ptr<const Overlaps> places, Findings &findings)
    : world(world), rank(rank), footprints(footprints), graph(std::move(places)),
      findings(findings), writes(graph->places.size(), 0), lastWrite(graph->places.size(), kNone) {}

void Lint::add(Diagnosis diagnosis, CommandId command, std::string message) {
  findings.add({diagnosis, std::move(message), {command}, {world.describe(command)}});
}

void Lint::redundantWait(CommandId wait) {
  if (!findings.wants(Diagnosis::RedundantSync))
    return findings.count(Diagnosis::RedundantSync);
  add(Diagnosis::RedundantSync, wait,
      fmt::format("rank {}: stream {} waits for work that has already ended", rank,
                  world.commands[wait].stream));
}

void Lint::work(CommandId command, bool afterPrevious) {
  Kind kind = world.commands[command].kind;
  communicates |= kind == Kind::Group || kind == Kind::Collective || kind == Kind::Put;
  computes |= kind == Kind::Matmul;
  overlaps |= firstWork != kNone && !afterPrevious;
  if (firstWork == kNone)
    firstWork = command;
}

void Lint::access(CommandId command, uint32_t place, bool reads, bool isWrite) {
  bool inArena = graph->places[place].space == Space::Arena;
  if (inArena)
    forget(place, reads ? kNone : command);
  if (!isWrite)
    return;
  ++writes[place];
  lastWrite[place] = command;
  std::vector<Interval> pieces;
  const Place &where = graph->places[place];
  if (inArena && intervals(where.address, footprints.set(where.layout), pieces))
    for (const Interval &piece : pieces)
      unread[piece.begin] = {piece.end, command};
}

void Lint::forget(uint32_t place, CommandId writer) {
  std::vector<Interval> pieces;
  const Place &where = graph->places[place];
  if (!intervals(where.address, footprints.set(where.layout), pieces))
    return;
  for (const Interval &piece : pieces) {
    auto at = unread.upper_bound(piece.begin);
    if (at != unread.begin())
      --at;
    while (at != unread.end() && at->first < piece.end) {
      auto [begin, was] = *at;
      if (was.end <= piece.begin) {
        ++at;
        continue;
      }
      at = unread.erase(at);
      if (begin < piece.begin)
        unread[begin] = {piece.begin, was.by};
      if (was.end > piece.end)
        at = unread.insert_or_assign(piece.end, Written{was.end, was.by}).first;
      if (writer != kNone && writer != was.by)
        unreadData(std::max(begin, piece.begin), std::min(was.end, piece.end), was.by);
    }
  }
}

void Lint::copy(CommandId command, uint32_t target, uint32_t source, bool sameLayout) {
  if (sameLayout && graph->places[target].space == Space::Arena)
    copies.push_back({command, target, source});
}

/// The copy is the only write of its target, and its source is not written later.
bool Lint::couldBeView(const Copy &copy) const {
  uint32_t count = 0;
  for (const Overlaps::Edge *e = graph->begin(copy.target); e != graph->end(copy.target); ++e)
    count += writes[e->to];
  if (count != 1)
    return false;
  if (copy.source == kNone)
    return true;
  return std::all_of(graph->begin(copy.source), graph->end(copy.source),
                     [&](const Overlaps::Edge &e) {
                       return lastWrite[e.to] == kNone || lastWrite[e.to] < copy.command;
                     });
}

void Lint::finish() {
  if (communicates && computes && !overlaps)
    add(Diagnosis::SerialStream, firstWork,
        fmt::format("rank {}: communication and matmuls run one after the other, from here on",
                    rank));
  for (const Copy &copy : copies)
    if (couldBeView(copy))
      add(Diagnosis::CopyView, copy.command,
          fmt::format("rank {} copies data that its readers could read in place", rank));
  for (const auto &[begin, was] : unread)
    unreadData(begin, was.end, was.by);
  checkInputs();
}

void Lint::inputRead(const View &view) {
  inputs.insert({view.space, view.argument, view.address, view.layout});
}

void Lint::checkInputs() {
  for (uint32_t a = 0; a < world.arguments.size(); ++a) {
    if (world.arguments[a].isResult || !world.ranks[rank].argumentPresent[a])
      continue;
    std::vector<Interval> pieces;
    for (const Place &place : inputs)
      if (place.argument == a && !intervals(place.address, footprints.set(place.layout), pieces))
        return;
    std::sort(pieces.begin(), pieces.end(),
              [](const Interval &x, const Interval &y) { return x.begin < y.begin; });
    uint64_t at = 0;
    for (const Interval &piece : pieces)
      if (piece.begin <= at)
        at = std::max(at, piece.end);
    if (at < world.ranks[rank].argumentBytes[a])
      findings.add({Diagnosis::UnreadData,
                    fmt::format("rank {}: byte {} of input \"{}\" is never read", rank, at,
                                world.arguments[a].name),
                    {},
                    {}});
  }
}

void Lint::unreadData(uint64_t begin, uint64_t end, CommandId writer) {
  if (!reported.insert(writer).second)
    return;
  if (!findings.wants(Diagnosis::UnreadData))
    return findings.count(Diagnosis::UnreadData);
  add(Diagnosis::UnreadData, writer,
      fmt::format("rank {}: the data written to bytes [{}, {}) of the arena is never read", rank,
                  begin, end));
}

} // namespace tandem::check
