//===- Streams.cpp - order of streams, redundant syncs ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Streams.h"

using namespace mlir;

namespace tandem::target {

void StreamTable::reset() {
  for (uint32_t place = 0; place < count; ++place)
    placeOf[streams[place].number] = kNone;
  count = events = 0;
  // The embedder's earlier work on the main stream, which workers must follow.
  streams[placeFor(0)].issued = 1;
}

uint32_t StreamTable::placeFor(int64_t stream) {
  uint32_t &place = placeOf[stream];
  if (place != kNone)
    return place;
  place = count++;
  if (streams.size() < count)
    streams.emplace_back();
  Stream &fresh = streams[place];
  fresh.number = stream;
  fresh.issued = fresh.waits = 0;
  fresh.lastEvent = kNone;
  fresh.endsInWait = false;
  fresh.known.clear();
  return place;
}

StreamTable::Sync StreamTable::sync(int64_t waiter, int64_t signaler) {
  Sync result;
  uint32_t from = placeOf[signaler];
  if (waiter == signaler || from == kNone)
    return result;
  uint32_t to = placeFor(waiter); // may move `streams`
  Stream &source = streams[from], &target = streams[to];
  bool isNew = source.issued > target.knows(from);
  for (uint32_t place = 0, e = source.known.size(); place < e && !isNew; ++place)
    isNew = place != to && source.known[place] > target.knows(place);
  if (!isNew)
    return result;
  result.needed = true;
  result.waiter = to;
  result.signaler = from;
  if (source.lastEvent == kNone || source.eventIssued != source.issued ||
      source.eventWaits != source.waits) {
    result.records = true;
    source.lastEvent = events++;
    source.eventIssued = source.issued;
    source.eventWaits = source.waits;
    source.endsInWait = false;
  }
  result.event = source.lastEvent;
  if (target.known.size() < count)
    target.known.resize(count, 0);
  for (uint32_t place = 0, e = source.known.size(); place < e; ++place)
    target.known[place] = std::max(target.known[place], source.known[place]);
  target.known[from] = std::max(target.known[from], source.issued);
  ++target.waits;
  target.endsInWait = true;
  return result;
}

bool StreamTable::hasIdleWaits() const {
  for (uint32_t place = 1; place < count; ++place)
    if (streams[place].endsInWait)
      return true;
  return false;
}

std::vector<uint16_t> StreamTable::numbering(const std::vector<bool> &used) const {
  std::vector<uint32_t> places;
  for (uint32_t place = 1; place < count; ++place)
    if (used[place])
      places.push_back(place);
  llvm::sort(places, [&](uint32_t a, uint32_t b) { return streams[a].number < streams[b].number; });
  std::vector<uint16_t> result(count, 0);
  for (auto [i, place] : llvm::enumerate(places))
    result[place] = i + 1;
  return result;
}

} // namespace tandem::target
