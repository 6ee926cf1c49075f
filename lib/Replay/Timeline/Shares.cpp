//===- Shares.cpp - a rank's time by activity -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Timeline.h"

#include <algorithm>

namespace tandem::timeline {

namespace {

bool isCommunication(const Span &span) {
  return span.category == Category::Communication ||
         span.kind == static_cast<uint8_t>(program::CommandKind::WaitSignal);
}

/// Returns ascending, disjoint intervals.
template <typename Pred>
std::vector<Interval> unionOf(const std::vector<Span> &spans, Pred &&wanted) {
  std::vector<Interval> all;
  for (const Span &span : spans)
    if (span.end > span.begin && wanted(span))
      all.push_back({span.begin, span.end});
  std::sort(all.begin(), all.end(),
            [](const Interval &a, const Interval &b) { return a.begin < b.begin; });
  std::vector<Interval> merged;
  for (const Interval &interval : all) {
    if (!merged.empty() && interval.begin <= merged.back().end)
      merged.back().end = std::max(merged.back().end, interval.end);
    else
      merged.push_back(interval);
  }
  return merged;
}

/// a minus b; both ascending and disjoint.
std::vector<Interval> minus(const std::vector<Interval> &a, const std::vector<Interval> &b) {
  std::vector<Interval> rest;
  size_t next = 0;
  for (Interval interval : a) {
    while (next < b.size() && b[next].end <= interval.begin)
      ++next;
    for (size_t i = next; i < b.size() && b[i].begin < interval.end; ++i) {
      if (b[i].begin > interval.begin)
        rest.push_back({interval.begin, b[i].begin});
      interval.begin = std::max(interval.begin, b[i].end);
    }
    if (interval.end > interval.begin)
      rest.push_back(interval);
  }
  return rest;
}

double lengthOf(const std::vector<Interval> &intervals) {
  double sum = 0;
  for (const Interval &interval : intervals)
    sum += interval.end - interval.begin;
  return sum;
}

bool isCompute(const Span &span) { return span.category == Category::Compute; }

} // namespace

Category categoryOf(uint8_t kind) {
  return program::infoOf(static_cast<program::CommandKind>(kind)).category;
}

std::vector<Interval> exposedOf(const std::vector<Span> &spans) {
  return minus(unionOf(spans, isCommunication), unionOf(spans, isCompute));
}

Shares sharesOf(const std::vector<Span> &spans) {
  Shares shares;
  std::vector<Interval> compute = unionOf(spans, isCompute),
                        communication = unionOf(spans, isCommunication);
  shares.compute = lengthOf(compute);
  shares.communication = lengthOf(communication);
  shares.exposed = lengthOf(minus(communication, compute));
  for (const Span &span : spans)
    shares.total = std::max(shares.total, span.end);
  return shares;
}

} // namespace tandem::timeline
