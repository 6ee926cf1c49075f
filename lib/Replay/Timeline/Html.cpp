//===- Html.cpp - a page with the timelines of several runs -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// report.html draws what is written here, as JSON:
//
//   kinds    names of sp::CommandKind, by number
//   runs     [{program, origin, seconds, names [[text, location]], classOf [class of each rank],
//             classes [{spans, gaps, compute, exposed}], flows}]
//   spans    begin, length, stream, kind, name, bytes, command; the next span, ...
//   gaps     begin, end of exposed communication, ...
//   flows    rank and command of the sender, rank and command of the receiver, ...
//
// Times of spans and gaps are nanoseconds. Ranks that did the same at the same times are one class.
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Timeline.h"

#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace tandem::timeline {

namespace {

using nlohmann::json;

constexpr std::string_view kPage =
#include "report.inc"
    ;
constexpr std::string_view kPlace = "@DATA@";
/// More arrows than this would make the page slow; it then has none.
constexpr size_t kMostFlows = 200000;

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

/// Records, and waits that took no time, are not drawn.
bool isDrawn(const Span &span) {
  auto kind = static_cast<sp::CommandKind>(span.kind);
  bool waits = kind == sp::CommandKind::wait || kind == sp::CommandKind::gated_matmul;
  return kind != sp::CommandKind::record && (!waits || span.end > span.begin);
}

std::vector<int64_t> numbersOf(const std::vector<Span> &spans) {
  std::vector<int64_t> numbers;
  for (const Span &span : spans) {
    if (!isDrawn(span))
      continue;
    int64_t begin = nanoseconds(span.begin);
    numbers.insert(numbers.end(), {begin, nanoseconds(span.end) - begin, span.stream, span.kind,
                                   span.name == kNone ? -1 : int64_t(span.name),
                                   static_cast<int64_t>(span.bytes), int64_t(span.command)});
  }
  return numbers;
}

json classJson(const std::vector<Span> &spans, std::vector<int64_t> numbers) {
  Shares shares = sharesOf(spans);
  std::vector<int64_t> gaps;
  for (const Interval &gap : exposedOf(spans)) {
    gaps.push_back(nanoseconds(gap.begin));
    gaps.push_back(nanoseconds(gap.end));
  }
  return {{"spans", std::move(numbers)},
          {"gaps", std::move(gaps)},
          {"compute", shares.compute},
          {"exposed", shares.exposed}};
}

json runJson(const Timeline &run, uint32_t maxRanks) {
  json names = json::array(), classes = json::array();
  for (const Name &name : run.names)
    names.push_back({name.text, name.location});
  size_t ranks = std::min<size_t>(run.ranks.size(), maxRanks);
  std::map<std::vector<int64_t>, size_t> known;
  std::vector<size_t> classOf;
  double end = run.seconds;
  for (size_t r = 0; r < ranks; ++r) {
    std::vector<int64_t> numbers = numbersOf(run.ranks[r]);
    auto [found, added] = known.try_emplace(numbers, classes.size());
    if (added)
      classes.push_back(classJson(run.ranks[r], std::move(numbers)));
    classOf.push_back(found->second);
    for (const Span &span : run.ranks[r])
      end = std::max(end, span.end);
  }
  std::vector<uint32_t> flows;
  for (const Flow &flow : run.flows)
    if (flow.fromRank < ranks && flow.toRank < ranks && run.flows.size() <= kMostFlows)
      flows.insert(flows.end(), {flow.fromRank, run.ranks[flow.fromRank][flow.fromSpan].command,
                                 flow.toRank, run.ranks[flow.toRank][flow.toSpan].command});
  return {{"program", run.program}, {"origin", run.origin}, {"seconds", end},
          {"names", names},         {"classOf", classOf},   {"classes", std::move(classes)},
          {"flows", flows}};
}

} // namespace

std::string html(const std::vector<Timeline> &runs, uint32_t maxRanks) {
  json data = {{"kinds", json::array()}, {"runs", json::array()}};
  for (sp::CommandKind kind : sp::EnumValuesCommandKind())
    data["kinds"].push_back(sp::EnumNameCommandKind(kind));
  for (const Timeline &run : runs)
    data["runs"].push_back(runJson(run, maxRanks));
  // Only ASCII, and no "<", which could end the element.
  std::string text = data.dump(-1, ' ', true, json::error_handler_t::replace), safe;
  safe.reserve(text.size());
  for (char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  std::string page(kPage);
  return page.replace(page.find(kPlace), kPlace.size(), safe);
}

} // namespace tandem::timeline
