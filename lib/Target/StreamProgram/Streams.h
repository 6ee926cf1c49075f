//===- Streams.h - order of streams, redundant syncs ------------*- C++ -*-===//
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

/// The streams of one rank during evaluation. Tracks the order between them, so redundant syncs can
/// be dropped. Stream numbers are 0 for the main stream and 1 + i for worker i; slots are assigned
/// in order of first use, 0 for the main stream.
class StreamTable {
public:
  explicit StreamTable(uint32_t workers) : placeOf(workers + 1, kNone) { reset(); }
  void reset();

  /// Issues a command on a stream; returns its slot.
  uint32_t issue(int64_t stream) {
    uint32_t place = placeFor(stream);
    ++streams[place].issued;
    streams[place].endsInWait = false;
    return place;
  }

  /// Undoes the last command issued on the stream of a slot.
  void cancel(uint32_t place) {
    --streams[place].issued;
    streams[place].endsInWait = true; // possibly
  }

  /// The effect of a sync; none if waiter and signaler are equal or it is redundant.
  struct Sync {
    bool needed = false;
    bool records = false; ///< a record of `event` is needed first; else an earlier record suffices
    uint32_t event = 0, waiter = 0, signaler = 0; ///< slots
  };
  Sync sync(int64_t waiter, int64_t signaler);

  uint32_t numEvents() const { return events; }
  /// True if a worker stream ends in waits, which are useless, as are streams with nothing else.
  bool hasIdleWaits() const;
  /// Slot -> number in the stream program, for slots whose bit is set: main stream first, workers
  /// in order.
  std::vector<uint16_t> numbering(const std::vector<bool> &used) const;
  uint32_t size() const { return count; }

private:
  struct Stream {
    int64_t number;
    uint32_t issued; ///< commands without records and waits; on the main stream plus 1 for the
                     ///< run's start
    uint32_t waits;
    uint32_t lastEvent, eventIssued, eventWaits; ///< the last record, and the commands it covers
    bool endsInWait;
    std::vector<uint32_t>
        known; ///< per slot: number of its commands ordered before the next command here
    uint32_t knows(uint32_t place) const { return place < known.size() ? known[place] : 0; }
  };
  uint32_t placeFor(int64_t stream);

  std::vector<uint32_t> placeOf; ///< per stream number
  std::vector<Stream> streams;   ///< per slot; the first `count` are in use
  uint32_t count = 0, events = 0;
};

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_STREAMS_H
