//===- StreamTimes.h - times of commands on a GPU stream --------*- C++ -*-===//
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

/// Relates the GPU's clock to the host's: an event whose host time is known to within half the
/// shortest of a few round trips.
class HostClock {
public:
  explicit HostClock(Driver &driver) : driver(driver) {}
  /// Frees its events; the destructor does not.
  void close();
  HostClock(const HostClock &) = delete;
  HostClock &operator=(const HostClock &) = delete;

  /// The steady_clock time in nanoseconds at which `event` (with timing, completed) completed.
  /// Compares the clocks again if the last comparison is more than a few milliseconds old.
  Status timeOf(EventHandle event, int64_t *time);

private:
  Status compare();
  Status roundTrip(int64_t *before, int64_t *after);

  Driver &driver;
  std::mutex mutex; ///< guards the fields below
  StreamHandle stream = nullptr;
  EventHandle anchor = nullptr, spare = nullptr;
  int64_t anchorTime = 0;
};

/// Events before and after each timed command of one stream.
class StreamTimes {
public:
  StreamTimes(Driver &driver, HostClock &clock) : driver(driver), clock(clock) {}
  /// Frees the events; called by the stream's owner while the device works.
  void release();

  /// Puts the stream work of `body` between two events; note() fills in `time`. With a null `time`,
  /// only runs `body`.
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
  /// The stream's current point: begin and end are equal.
  Status at(StreamHandle stream, CommandTime *time);

  /// Stores the times of all completed commands.
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
  std::mutex mutex; ///< guards the fields below
  std::deque<Entry> entries;
  std::vector<EventHandle> spare;
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_STREAMTIMES_H
