//===- Port.cpp - transfers that share a port -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Port.h"

#include <algorithm>
#include <limits>

using namespace tandem::shaped;

double Port::advance(std::vector<Member> &members, double rate, double from, double until,
                     Transfer stopAfter) {
  while (!members.empty()) {
    double active = 0, least = std::numeric_limits<double>::infinity(), nextStart = least;
    for (const Member &member : members) {
      if (member.start > from) {
        nextStart = std::min(nextStart, member.start);
        continue;
      }
      ++active;
      least = std::min(least, member.remaining);
    }
    // Until the next transfer begins, or the first one of those under way ends.
    double end = active > 0 ? from + least * active / rate : nextStart;
    bool ends = active > 0 && end <= nextStart;
    double to = std::min({end, nextStart, until});
    ends = ends && to == end;
    bool found = false;
    for (Member &member : members)
      if (member.start <= from) {
        // The one with the least left ends exactly, whatever the rounding.
        bool done = ends && member.remaining == least;
        member.remaining = done ? -1 : member.remaining - (to - from) * rate / active;
        found |= member.remaining < 0 && member.transfer == stopAfter;
      }
    members.erase(
        std::remove_if(members.begin(), members.end(), [](auto &m) { return m.remaining < 0; }),
        members.end());
    from = to;
    if (found || (!ends && to == until))
      return from;
  }
  return from;
}

Port::Transfer Port::begin(double bytes, double start, double now) {
  last = std::max(now, advance(members, rate, last, now, 0));
  members.push_back({next, std::max(start, now), bytes});
  return next++;
}

double Port::endOf(Transfer transfer, double now) {
  last = std::max(now, advance(members, rate, last, now, 0));
  if (std::none_of(members.begin(), members.end(),
                   [&](const Member &member) { return member.transfer == transfer; }))
    return now;
  future = members;
  return advance(future, rate, last, std::numeric_limits<double>::infinity(), transfer);
}
