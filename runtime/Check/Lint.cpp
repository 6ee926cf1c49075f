//===- Lint.cpp - what is legal but costs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lint.h"

#include "LocalPass.h"

#include <algorithm>

namespace tandem::check {

using namespace replay;

Lint::Lint(const World &world, uint32_t rank, const FootprintTable &footprints,
           std::shared_ptr<const Overlaps> places, Findings &findings)
    : world(world), rank(rank), footprints(footprints), graph(std::move(places)),
      findings(findings), writes(graph->places.size(), 0), lastWrite(graph->places.size(), kNone),
      unread(graph->places.size(), kNone) {}

void Lint::add(Diagnosis diagnosis, CommandId command, std::string message) {
  findings.add({diagnosis, std::move(message), {command}, {world.describe(command)}});
}

void Lint::redundantWait(CommandId wait) {
  if (!findings.wants(Diagnosis::RedundantSync))
    return findings.count(Diagnosis::RedundantSync);
  add(Diagnosis::RedundantSync, wait,
      fmt::format("rank {}: stream {} waits for what is before it anyway", rank,
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
  if (reads)
    for (const Overlaps::Edge *e = graph->begin(place); e != graph->end(place); ++e)
      unread[e->to] = kNone;
  if (!isWrite)
    return;
  if (unread[place] != kNone && unread[place] != command)
    unreadData(place);
  ++writes[place];
  lastWrite[place] = command;
  if (graph->places[place].space == Space::Arena)
    unread[place] = command;
}

void Lint::copy(CommandId command, uint32_t target, uint32_t source, bool sameLayout) {
  if (sameLayout && graph->places[target].space == Space::Arena)
    copies.push_back({command, target, source});
}

/// The copy is all that ever writes its target, and nobody writes its source from then on.
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
          fmt::format("rank {} copies what its readers could read where it lies", rank));
  for (uint32_t p = 0; p < unread.size(); ++p)
    if (unread[p] != kNone)
      unreadData(p);
}

void Lint::unreadData(uint32_t place) {
  if (!findings.wants(Diagnosis::UnreadData))
    return findings.count(Diagnosis::UnreadData);
  const Place &where = graph->places[place];
  add(Diagnosis::UnreadData, unread[place],
      fmt::format("rank {}: nobody reads what is written to {}", rank,
                  describeBytes(world, rank, footprints, where, where)));
}

} // namespace tandem::check
