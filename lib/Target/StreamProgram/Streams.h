//===- Streams.h - what is ordered before what ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_STREAMPROGRAM_STREAMS_H
#define TANDEM_LIB_TARGET_STREAMPROGRAM_STREAMS_H

#include "Code.h"
#include "tandem/Support/LLVM.h"

namespace tandem::target {

/// The streams of one rank while it is evaluated: numbers those that are used, knows what each is
/// ordered after, and so which syncs order nothing new. Stream numbers are 0 for the main stream
/// and 1 + i for worker i; places are given in the order of first use, 0 for the main stream.
class StreamTable {
public:
  explicit StreamTable(uint32_t workers) : placeOf(workers + 1, kNone) { reset(); }
  void reset();

  /// A command is issued on a stream; returns its place.
  uint32_t issue(int64_t stream) {
    uint32_t place = placeFor(stream);
    ++streams[place].issued;
    streams[place].endsInWait = false;
    return place;
  }

  /// The last command issued on the stream at a place was none.
  void cancel(uint32_t place) {
    --streams[place].issued;
    streams[place].endsInWait = true; // perhaps
  }

  /// What a sync takes. Nothing, if waiter and signaler are one or nothing new would be ordered.
  struct Sync {
    bool needed = false;
    bool records =
        false; ///< a record of `event` goes first; else an earlier record still says it all
    uint32_t event = 0, waiter = 0, signaler = 0; ///< places
  };
  Sync sync(int64_t waiter, int64_t signaler);

  uint32_t numEvents() const { return events; }
  /// True if a worker stream ends in waits: they are of no use, nor are the streams that have
  /// nothing else.
  bool hasIdleWaits() const;
  /// Place -> number in the stream program: places whose bit is set, main stream first, workers in
  /// order.
  std::vector<uint16_t> numbering(const std::vector<bool> &used) const;
  uint32_t size() const { return count; }

private:
  struct Stream {
    int64_t number;
    uint32_t
        issued; ///< commands but records and waits; on the main stream one more, the run's start
    uint32_t waits;
    uint32_t lastEvent, eventIssued, eventWaits; ///< the last record, and what it covers
    bool endsInWait;
    std::vector<uint32_t>
        known; ///< per place: how many of its commands stand before what comes next here
    uint32_t knows(uint32_t place) const { return place < known.size() ? known[place] : 0; }
  };
  uint32_t placeFor(int64_t stream);

  std::vector<uint32_t> placeOf; ///< per stream number
  std::vector<Stream> streams;   ///< per place; the first `count` are in use
  uint32_t count = 0, events = 0;
};

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_STREAMS_H
