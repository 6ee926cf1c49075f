//===- Shares.cpp - a rank's time by activity -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Timeline.h"

#include "tandem/Program/stream_program_generated.h"

#include <algorithm>

namespace tandem::timeline {

namespace {

bool isCommunication(const Span &span) {
  return span.category == Category::Communication ||
         span.kind == static_cast<uint8_t>(sp::CommandKind::wait_signal);
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
  switch (static_cast<sp::CommandKind>(kind)) {
  case sp::CommandKind::collective:
  case sp::CommandKind::group:
  case sp::CommandKind::send:
  case sp::CommandKind::recv:
  case sp::CommandKind::put:
  case sp::CommandKind::signal:
  case sp::CommandKind::fused_exchange:
    return Category::Communication;
  case sp::CommandKind::record:
  case sp::CommandKind::wait:
  case sp::CommandKind::wait_signal:
  case sp::CommandKind::gated_matmul: // its parts compute
    return Category::Waiting;
  default:
    return Category::Compute;
  }
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
