//===- StreamTimes.h - when the work of a stream ran ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_STREAMTIMES_H
#define TANDEM_LIB_DEVICE_GPU_STREAMTIMES_H

#include "Driver.h"

#include "tandem/Runtime/Device.h"

#include <chrono>
#include <deque>
#include <mutex>
#include <vector>

namespace tandem::gpu {

/// The GPU's clock beside the host's: an event whose time on the host is known, to within half of
/// the quickest of a few round trips.
class HostClock {
public:
  explicit HostClock(Driver &driver) : driver(driver) {}
  /// Gives back what it has made; else nobody does.
  void close();
  HostClock(const HostClock &) = delete;
  HostClock &operator=(const HostClock &) = delete;

  /// Nanoseconds of std::chrono::steady_clock at which `event`, which has timing and was reached,
  /// was reached. Compares the clocks anew where that was more than a few milliseconds ago.
  Status timeOf(EventHandle event, int64_t *time);

private:
  Status compare();
  Status roundTrip(int64_t *before, int64_t *after);

  Driver &driver;
  std::mutex mutex; ///< guards what follows
  StreamHandle stream = nullptr;
  EventHandle anchor = nullptr, spare = nullptr;
  int64_t anchorTime = 0;
};

/// Events before and after each command of one stream that is to be timed.
class StreamTimes {
public:
  StreamTimes(Driver &driver, HostClock &clock) : driver(driver), clock(clock) {}
  /// The events are given back by the owner of the stream, while it may: see release().
  void release();

  /// What `body` gives to the stream goes between two events; `time` learns of them by note().
  /// Null: just `body`.
  template <typename Body> Status around(StreamHandle stream, CommandTime *time, Body &&body) {
    if (!time)
      return body();
    EventHandle begin = nullptr, end = nullptr;
    TANDEM_RETURN_IF_ERROR(record(stream, &begin));
    Status status = body();
    if (status.ok())
      status = record(stream, &end);
    if (status.ok())
      add({time, begin, end});
    else
      giveBack(begin);
    return status;
  }
  /// The point that the stream has come to: begin and end at once.
  Status at(StreamHandle stream, CommandTime *time);

  /// Writes down the times of all that is over.
  Status note();

private:
  struct Entry {
    CommandTime *time;
    EventHandle begin, end; ///< may be one event
  };
  /// Null after an error.
  Status record(StreamHandle stream, EventHandle *event);
  void giveBack(EventHandle event);
  void add(const Entry &entry);

  Driver &driver;
  HostClock &clock;
  std::mutex mutex; ///< guards what follows
  std::deque<Entry> entries;
  std::vector<EventHandle> spare;
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_STREAMTIMES_H
