//===- ReadTrace.cpp - timelines out of Chrome traces ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Timeline.h"

#include "tandem/Program/Files.h"
#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

namespace tandem::timeline {

namespace {

using nlohmann::json;

Status wrong(const std::string &path, std::string_view what) {
  return Status(Code::InvalidArgument, fmt::format("{}: {}", path, what));
}

/// An integer member, or `most` + 1.
uint64_t whole(const json &object, const char *name, uint64_t most) {
  auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned())
    return most + 1;
  return std::min(found->get<uint64_t>(), most + 1);
}

double real(const json &object, const char *name) {
  auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : -1;
}

std::string text(const json &object, const char *name) {
  auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool kindOf(const std::string &name, uint8_t &kind) {
  for (sp::CommandKind known : sp::EnumValuesCommandKind())
    if (name == sp::EnumNameCommandKind(known)) {
      kind = static_cast<uint8_t>(known);
      return true;
    }
  return false;
}

class Reader {
public:
  explicit Reader(const std::string &path) : path(path) {}

  Expected<Timeline> run(const json &file) {
    if (!file.is_object() || !file.contains("tandem") || !file["tandem"].is_object())
      return wrong(path, "not a trace of tandem-run or tandem-sim: no member \"tandem\"");
    const json &head = file["tandem"];
    if (whole(head, "version", 1) != 1)
      return wrong(path, "tandem.version: expected 1");
    timeline.program = text(head, "program");
    timeline.origin = text(head, "origin");
    timeline.seconds = real(head, "seconds");
    uint64_t ranks = whole(head, "ranks", 1 << 20);
    if (timeline.seconds < 0 || ranks > (1 << 20))
      return wrong(path, "tandem: expected seconds and ranks");
    timeline.ranks.resize(ranks);
    if (!file.contains("traceEvents") || !file["traceEvents"].is_array())
      return wrong(path, "expected a list \"traceEvents\"");
    size_t index = 0;
    for (const json &event : file["traceEvents"]) {
      if (!add(event))
        return wrong(path,
                     fmt::format("traceEvents[{}]: expected pid, tid, ts, dur and args", index));
      ++index;
    }
    for (std::vector<Span> &spans : timeline.ranks)
      std::sort(spans.begin(), spans.end(),
                [](const Span &a, const Span &b) { return a.command < b.command; });
    addFlows();
    return std::move(timeline);
  }

private:
  /// An end of an arrow.
  struct End {
    uint32_t rank = 0;
    uint16_t stream = 0;
    double time = -1; ///< s; < 0: there is none
  };
  using Track = std::pair<uint32_t, uint16_t>; ///< rank, stream

  bool add(const json &event) {
    if (!event.is_object())
      return false;
    std::string phase = text(event, "ph");
    if (phase == "s" || phase == "f")
      addEnd(event, phase == "f");
    if (phase != "X")
      return true;
    uint64_t rank = whole(event, "pid", 1 << 20), stream = whole(event, "tid", 0xffff);
    double begin = real(event, "ts"), length = real(event, "dur");
    auto args = event.find("args");
    if (rank >= timeline.ranks.size() || stream > 0xffff || begin < 0 || length < 0 ||
        args == event.end() || !args->is_object())
      return false;
    Span span;
    span.begin = begin * 1e-6;
    span.end = span.begin + length * 1e-6;
    span.stream = static_cast<uint16_t>(stream);
    uint64_t command = whole(*args, "command", 0xfffffffe);
    if (command > 0xfffffffe || !kindOf(text(*args, "kind"), span.kind))
      return false;
    span.command = static_cast<uint32_t>(command);
    span.category = categoryOf(span.kind);
    // Traces of earlier versions have none.
    constexpr uint64_t most = (uint64_t(1) << 53) - 1;
    uint64_t bytes = whole(*args, "bytes", most);
    span.bytes = bytes > most ? 0 : bytes;
    span.name = intern({text(event, "name"), text(*args, "location")});
    timeline.ranks[rank].push_back(span);
    return true;
  }

  /// Arrows only help to look at a picture, so those that lead nowhere are left out.
  void addEnd(const json &event, bool arrives) {
    uint64_t rank = whole(event, "pid", 1 << 20), stream = whole(event, "tid", 0xffff);
    uint64_t id = whole(event, "id", 0xfffffffe);
    if (rank < timeline.ranks.size() && stream <= 0xffff && id <= 0xfffffffe)
      arrows[id][arrives] = {static_cast<uint32_t>(rank), static_cast<uint16_t>(stream),
                             real(event, "ts") * 1e-6};
  }

  void addFlows() {
    for (uint32_t rank = 0; rank < timeline.ranks.size() && !arrows.empty(); ++rank)
      for (uint32_t i = 0; i < timeline.ranks[rank].size(); ++i)
        tracks[{rank, timeline.ranks[rank][i].stream}].push_back(i);
    for (auto &[track, spans] : tracks)
      std::sort(spans.begin(), spans.end(), [&, rank = track.first](uint32_t a, uint32_t b) {
        return timeline.ranks[rank][a].begin < timeline.ranks[rank][b].begin;
      });
    for (const auto &[id, ends] : arrows) {
      uint32_t from = spanAt(ends[0]), to = spanAt(ends[1]);
      if (from != kNone && to != kNone)
        timeline.flows.push_back(
            {ends[0].rank, from, ends[1].rank, to, ends[0].time, ends[1].time});
    }
  }

  /// The span that an end lies in; kNone: none.
  uint32_t spanAt(const End &end) const {
    constexpr double kRounding = 1e-9; // a trace has four digits of a microsecond
    auto found = tracks.find({end.rank, end.stream});
    if (end.time < 0 || found == tracks.end())
      return kNone;
    const std::vector<Span> &spans = timeline.ranks[end.rank];
    auto after =
        std::upper_bound(found->second.begin(), found->second.end(), end.time + kRounding,
                         [&](double time, uint32_t span) { return time < spans[span].begin; });
    if (after == found->second.begin() || spans[*(after - 1)].end + kRounding < end.time)
      return kNone;
    return *(after - 1);
  }

  uint32_t intern(Name name) {
    auto key = std::make_pair(name.text, name.location);
    auto [found, added] = names.try_emplace(key, static_cast<uint32_t>(timeline.names.size()));
    if (added)
      timeline.names.push_back(std::move(name));
    return found->second;
  }

  const std::string &path;
  Timeline timeline;
  std::map<std::pair<std::string, std::string>, uint32_t> names;
  std::map<uint64_t, std::array<End, 2>> arrows; ///< by id
  std::map<Track, std::vector<uint32_t>> tracks; ///< spans by begin
};

} // namespace

Expected<Timeline> readTrace(const std::string &path) {
  auto text = readWhole(path);
  if (!text)
    return text.status().withPrefix(path + ": cannot read: ");
  json parsed;
  try {
    parsed = json::parse(*text);
  } catch (const json::exception &error) {
    return wrong(path, error.what());
  }
  return Reader(path).run(parsed);
}

} // namespace tandem::timeline
