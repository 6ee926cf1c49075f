//===- Link.cpp - a rank's port, for threads --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinkImpl.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <utility>

using namespace tandem;
using Clock = std::chrono::steady_clock;

namespace {

using Units = std::array<std::pair<std::string_view, double>, 4>;
constexpr Units kRates = {{{"B/s", 1}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}}};
constexpr Units kTimes = {{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}};

/// A number and one of the units; NaN: it is none.
double quantity(std::string_view given, const Units &units) {
  std::string text(given);
  char *end = nullptr;
  double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !std::isfinite(number))
    return std::nan("");
  for (auto [unit, factor] : units)
    if (unit == end)
      return number * factor;
  return std::nan("");
}

double secondsNow() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

Clock::time_point timePoint(double seconds) {
  // Up, or the thread would wake just before the time.
  return Clock::time_point(std::chrono::nanoseconds(std::llround(std::ceil(seconds * 1e9))));
}

} // namespace

Expected<LinkShape> LinkShape::parse(std::string_view text) {
  size_t comma = text.find(',');
  LinkShape shape;
  shape.bytesPerSecond = quantity(text.substr(0, comma), kRates);
  if (comma != std::string_view::npos)
    shape.latency = quantity(text.substr(comma + 1), kTimes);
  if (!(shape.bytesPerSecond >= 1) || !(shape.latency >= 0 && shape.latency <= 3600))
    return Status(Code::InvalidArgument,
                  fmt::format("expected RATE,LATENCY such as 2GB/s,20us, found \"{}\"", text));
  return shape;
}

std::shared_ptr<Link> tandem::makeLink(const LinkShape &shape) {
  return std::make_shared<Link>(shape);
}

shaped::Port::Transfer Link::post(double bytes, double steps) {
  std::lock_guard<std::mutex> lock(mutex);
  double now = secondsNow();
  return port.begin(bytes, now + steps * shape.latency, now);
}

Status Link::await(shaped::Port::Transfer transfer, const Status &aborted) {
  std::unique_lock<std::mutex> lock(mutex);
  while (aborted.ok()) {
    double now = secondsNow(), end = port.endOf(transfer, now);
    if (end <= now)
      return Status();
    // Transfers that begin meanwhile only make it later: then it sleeps again. A day at a time, as
    // a clock's numbers are finite.
    changed.wait_until(lock, timePoint(std::min(end, now + 86400)));
  }
  return aborted;
}

void Link::abort(Status &aborted, const Status &reason) {
  std::lock_guard<std::mutex> lock(mutex);
  if (aborted.ok())
    aborted = reason;
  changed.notify_all();
}
