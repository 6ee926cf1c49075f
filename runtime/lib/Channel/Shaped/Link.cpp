//===- Link.cpp - a rank's port, for threads --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinkImpl.h"

#include <algorithm>
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
constexpr Units kSizes = {{{"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}}};
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
  std::string_view rest = text;
  auto next = [&] { // up to the next comma
    std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    return part;
  };
  LinkShape shape;
  shape.bytesPerSecond = quantity(next(), kRates);
  if (text.find(',') != std::string_view::npos)
    shape.latency = quantity(next(), kTimes);
  constexpr std::string_view kStop = "stop=";
  if (rest.substr(0, kStop.size()) == kStop)
    shape.stopsAfter = quantity(rest.substr(kStop.size()), kSizes);
  else if (!rest.empty() || (!text.empty() && text.back() == ','))
    shape.stopsAfter = std::nan("");
  if (!(shape.bytesPerSecond >= 1) || !(shape.latency >= 0 && shape.latency <= 3600) ||
      !(shape.stopsAfter >= 0))
    return Status(
        Code::InvalidArgument,
        fmt::format("expected RATE,LATENCY[,stop=BYTES] such as 2GB/s,20us, found \"{}\"", text));
  return shape;
}

std::shared_ptr<Link> tandem::makeLink(const LinkShape &shape) {
  return std::make_shared<Link>(shape);
}

shaped::Port::Transfer Link::post(double bytes, double steps) {
  std::lock_guard<std::mutex> lock(mutex);
  double now = secondsNow();
  sent += bytes;
  if (sent > shape.stopsAfter)
    bytes = 1e100; // they pass for ever
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
