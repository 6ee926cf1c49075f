//===- Html.cpp - a page with the timelines of several runs -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// report.html draws what is written here, as JSON:
//
//   kinds    names of sp::CommandKind, by number
//   runs     [{program, origin, seconds, names [[text, location]], classOf [class of each rank],
//             classes [{compute, exposed, spans, gaps}], flows, flowsLeftOut}]
//   spans    begin, length, stream, kind, name, bytes, command; the next span, ...
//   gaps     begin, end of exposed communication, ...
//   flows    rank and command of the sender, rank and command of the receiver, ...
//
// Times of spans and gaps are nanoseconds. Ranks that did the same at the same times are one class.
// Classes for which the page has no room have no spans and no gaps.
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
  bool waits = kind == sp::CommandKind::wait || kind == sp::CommandKind::gated_matmul ||
               kind == sp::CommandKind::fused_exchange;
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

json classJson(const std::vector<Span> &spans) {
  Shares shares = sharesOf(spans);
  return {{"compute", shares.compute}, {"exposed", shares.exposed}};
}

void addBars(json &to, const std::vector<Span> &spans) {
  std::vector<int64_t> gaps;
  for (const Interval &gap : exposedOf(spans)) {
    gaps.push_back(nanoseconds(gap.begin));
    gaps.push_back(nanoseconds(gap.end));
  }
  to["spans"] = numbersOf(spans);
  to["gaps"] = std::move(gaps);
}

/// Indices of at most `most` of `count` items: the first, the last, and evenly chosen ones.
std::vector<size_t> chooseEvenly(size_t count, size_t most) {
  size_t number = std::min(count, most);
  std::vector<size_t> chosen(number);
  for (size_t i = 1; i < number; ++i)
    chosen[i] = i * (count - 1) / (number - 1);
  return chosen;
}

json runJson(const Timeline &run, uint32_t maxClasses) {
  json names = json::array(), classes = json::array();
  for (const Name &name : run.names)
    names.push_back({name.text, name.location});
  std::map<std::vector<int64_t>, size_t> known;
  std::vector<size_t> classOf, firstOf; // class of each rank, first rank of each class
  double end = run.seconds;
  for (const std::vector<Span> &spans : run.ranks) {
    auto [found, added] = known.try_emplace(numbersOf(spans), classes.size());
    if (added) {
      classes.push_back(classJson(spans));
      firstOf.push_back(classOf.size());
    }
    classOf.push_back(found->second);
    for (const Span &span : spans)
      end = std::max(end, span.end);
  }
  for (size_t one : chooseEvenly(classes.size(), maxClasses))
    addBars(classes[one], run.ranks[firstOf[one]]);

  std::vector<uint32_t> flows;
  bool fits = run.flows.size() <= kMostFlows;
  auto hasBars = [&](uint32_t rank) { return classes[classOf[rank]].contains("spans"); };
  if (fits)
    for (const Flow &flow : run.flows)
      if (hasBars(flow.fromRank) && hasBars(flow.toRank))
        flows.insert(flows.end(), {flow.fromRank, run.ranks[flow.fromRank][flow.fromSpan].command,
                                   flow.toRank, run.ranks[flow.toRank][flow.toSpan].command});
  return {{"program", run.program}, {"origin", run.origin},
          {"seconds", end},         {"names", names},
          {"classOf", classOf},     {"classes", std::move(classes)},
          {"flows", flows},         {"flowsLeftOut", fits ? 0 : run.flows.size()}};
}

} // namespace

std::string html(const std::vector<Timeline> &runs, uint32_t maxClasses) {
  json data = {{"kinds", json::array()}, {"runs", json::array()}};
  for (sp::CommandKind kind : sp::EnumValuesCommandKind())
    data["kinds"].push_back(sp::EnumNameCommandKind(kind));
  for (const Timeline &run : runs)
    data["runs"].push_back(runJson(run, maxClasses));
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
