//===- StreamTimes.cpp - times of commands on a GPU stream ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StreamTimes.h"

#include <limits>
#include <thread>
#include <utility>

namespace tandem::gpu {

namespace {

constexpr int64_t kFresh = 20'000'000; ///< nanoseconds: clocks drift by less than 0.01 %
constexpr int kTrips = 5;

int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

} // namespace

void HostClock::close() {
  for (EventHandle event : {anchor, spare})
    if (event)
      driver.destroyEvent(event).ignore();
  if (stream)
    driver.destroyStream(stream).ignore();
}

Status HostClock::roundTrip(int64_t *before, int64_t *after) {
  *before = now();
  TANDEM_RETURN_IF_ERROR(driver.record(spare, stream));
  for (bool done = false; !done;) {
    TANDEM_RETURN_IF_ERROR(driver.queryEvent(spare, &done));
    // Work of others may delay the event.
    if (!done && now() - *before > kFresh)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (!done && now() - *before > 1000 * kFresh)
      return Status(Code::Timeout, "the GPU's clock did not answer in time");
  }
  *after = now();
  return Status();
}

Status HostClock::compare() {
  if (!stream) {
    TANDEM_RETURN_IF_ERROR(driver.createStream(&stream, StreamPriority::Normal));
    TANDEM_RETURN_IF_ERROR(driver.createEvent(&anchor, true));
    TANDEM_RETURN_IF_ERROR(driver.createEvent(&spare, true));
  }
  int64_t best = std::numeric_limits<int64_t>::max();
  for (int trip = 0; trip < kTrips; ++trip) {
    int64_t before = 0, after = 0;
    TANDEM_RETURN_IF_ERROR(roundTrip(&before, &after));
    if (after - before >= best)
      continue;
    best = after - before;
    anchorTime = before + best / 2;
    std::swap(anchor, spare);
  }
  return Status();
}

Status HostClock::timeOf(EventHandle event, int64_t *time) {
  std::lock_guard<std::mutex> lock(mutex);
  if (now() - anchorTime > kFresh)
    TANDEM_RETURN_IF_ERROR(compare());
  float milliseconds = 0; // negative for earlier events
  TANDEM_RETURN_IF_ERROR(driver.elapsed(anchor, event, &milliseconds));
  *time = anchorTime + static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
  return Status();
}

void StreamTimes::release() {
  std::lock_guard<std::mutex> lock(mutex);
  for (const Entry &entry : entries) {
    driver.destroyEvent(entry.begin).ignore();
    if (entry.end != entry.begin)
      driver.destroyEvent(entry.end).ignore();
  }
  for (EventHandle event : spare)
    driver.destroyEvent(event).ignore();
  entries.clear();
  spare.clear();
}

Status StreamTimes::record(StreamHandle stream, EventHandle *event) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!spare.empty()) {
      *event = spare.back();
      spare.pop_back();
    }
  }
  if (!*event)
    TANDEM_RETURN_IF_ERROR(driver.createEvent(event, true));
  Status status = driver.record(*event, stream);
  if (!status.ok())
    giveBack(std::exchange(*event, nullptr));
  return status;
}

void StreamTimes::giveBack(EventHandle event) {
  std::lock_guard<std::mutex> lock(mutex);
  spare.push_back(event);
}

void StreamTimes::add(const Entry &entry) {
  std::lock_guard<std::mutex> lock(mutex);
  entries.push_back(entry);
}

Status StreamTimes::at(StreamHandle stream, CommandTime *time) {
  if (!time)
    return Status();
  EventHandle event = nullptr;
  TANDEM_RETURN_IF_ERROR(record(stream, &event));
  add({time, event, event});
  return Status();
}

Status StreamTimes::note() {
  std::lock_guard<std::mutex> lock(mutex);
  while (!entries.empty()) {
    Entry entry = entries.front();
    bool done = false;
    TANDEM_RETURN_IF_ERROR(driver.queryEvent(entry.end, &done));
    if (!done)
      return Status(); // belongs to the next run
    CommandTime time;
    TANDEM_RETURN_IF_ERROR(clock.timeOf(entry.begin, &time.begin));
    time.end = time.begin;
    if (entry.end != entry.begin)
      TANDEM_RETURN_IF_ERROR(clock.timeOf(entry.end, &time.end));
    *entry.time = time;
    entries.pop_front();
    spare.push_back(entry.begin);
    if (entry.end != entry.begin)
      spare.push_back(entry.end);
  }
  return Status();
}

} // namespace tandem::gpu
