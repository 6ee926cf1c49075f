//===- HangReport.cpp - who waits for whom ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HangReport.h"

#include "Files.h"

#include "tandem/Program/Printable.h"
#include "tandem/Replay/Waits.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

using namespace tandem;
using namespace tandem::run;
using nlohmann::json;

namespace {

constexpr std::string_view kSignal = "ended by signal";
/// Commands of a rank in the text.
constexpr size_t kMostLines = 6;
/// Notes of two ranks differ by up to 50 ms: a wait that is younger may be over.
constexpr uint64_t kSettled = 100;

struct RankState {
  bool hasNote = false;
  RankNote note;
  std::chrono::milliseconds age{0};
  std::string process;
};

class HangAnalysis {
public:
  /// `isOver`: a rank has failed, so the job does not move any more.
  HangAnalysis(std::vector<RankState> ranks, std::shared_ptr<const replay::World> world,
               bool isOver)
      : ranks(std::move(ranks)), world(std::move(world)), isOver(isOver) {}

  json make() {
    json list = json::array();
    for (uint32_t rank = 0; rank < ranks.size(); ++rank)
      list.push_back(makeRank(rank));
    json out;
    out["program"] = world ? json(world->name) : json();
    out["ranks"] = std::move(list);
    out["held_up_by"] = json::array();
    for (uint32_t rank : causes()) {
      out["held_up_by"].push_back(rank);
      lines.push_back(fmt::format("held up by rank {}: {}", rank, describeRank(rank)));
    }
    out["summary"] = lines;
    return out;
  }
  const std::vector<std::string> &summary() const { return lines; }

private:
  /// Ranks that were stopped or ended by a signal. If there are none: the ends of the chains, which
  /// others wait for and which wait for no other rank.
  std::set<uint32_t> causes() const {
    std::set<uint32_t> found;
    for (uint32_t rank = 0; rank < ranks.size(); ++rank)
      if (ranks[rank].process == "stopped" ||
          ranks[rank].process.compare(0, kSignal.size(), kSignal) == 0)
        found.insert(rank);
    if (found.empty())
      std::set_difference(awaited.begin(), awaited.end(), waits.begin(), waits.end(),
                          std::inserter(found, found.end()));
    return found;
  }

  std::string describeRank(uint32_t rank) const {
    const RankState &state = ranks[rank];
    std::string text = state.process.empty() ? "" : state.process + "; ";
    if (!state.hasNote)
      return text + "noted nothing";
    return text + (state.note.commands.empty() ? "no run in flight"
                                               : "in " + state.note.commands[0].description);
  }

  json makeRank(uint32_t rank) {
    const RankState &state = ranks[rank];
    json out;
    out["rank"] = rank;
    out["process"] = state.process.empty() ? json() : json(state.process);
    out["error"] = state.note.error.empty() ? json() : json(state.note.error);
    out["noted_ms_ago"] = state.hasNote ? json(state.age.count()) : json();
    out["in_flight"] = json::array();
    lines.push_back(fmt::format("rank {}: {}", rank, describeRank(rank)));
    if (!state.note.error.empty())
      lines.push_back("  error: " + state.note.error);
    size_t listed = 0;
    for (const NotedCommand &noted : state.note.commands) {
      size_t before = lines.size();
      out["in_flight"].push_back(makeCommand(rank, noted));
      if (++listed > kMostLines)
        lines.resize(before);
    }
    if (listed > kMostLines)
      lines.push_back(fmt::format("  ... and {} more, see the file", listed - kMostLines));
    return out;
  }

  json makeCommand(uint32_t rank, const NotedCommand &noted) {
    json out = {{"stream", noted.stream},
                {"run", noted.run},
                {"command", noted.command == UINT32_MAX ? json() : json(noted.command)},
                {"certain", noted.isCertain},
                {"noted_for_ms", noted.noted},
                {"description", noted.description}};
    out["waits_for"] = json::array();
    lines.push_back(fmt::format("  stream {} in {}{}, run {}", noted.stream, noted.description,
                                noted.isCertain ? "" : " (or another one of a graph)", noted.run));
    if (!world || rank >= world->numRanks() || noted.command == UINT32_MAX)
      return out;
    replay::CommandId id = world->ranks[rank].begin + noted.command;
    if (id >= world->ranks[rank].end || noted.program != world->name)
      return out;
    for (replay::CommandId other : check::awaitedBy(*world, id)) {
      uint32_t of = world->rankOf(other);
      std::string state = stateOf(other, of, noted.run);
      if (of != rank && state != "passed" && (isOver || noted.noted >= kSettled)) {
        waits.insert(rank);
        awaited.insert(of);
      }
      out["waits_for"].push_back({{"rank", of},
                                  {"stream", world->commands[other].stream},
                                  {"command", world->indexOf(other)},
                                  {"description", world->describe(other)},
                                  {"state", state}});
      lines.push_back(fmt::format("    waits for {}: {}", world->describe(other), state));
    }
    if (std::string missing = check::missingFor(*world, id); !missing.empty()) {
      out["missing"] = missing;
      lines.push_back("    " + missing);
    }
    return out;
  }

  /// How far rank `of` is with its command: a `state` of docs/operations.md.
  std::string stateOf(replay::CommandId other, uint32_t of, uint64_t run) const {
    const RankState &state = ranks[of];
    if (!state.hasNote)
      return "unknown";
    const replay::Command &command = world->commands[other];
    replay::CommandId top = replay::isMessage(command.kind) ? command.next : other;
    bool hasRun = false;
    for (const NotedCommand &noted : state.note.commands) {
      if (noted.program != world->name)
        continue;
      hasRun = true;
      if (noted.command == UINT32_MAX && !noted.isCertain)
        continue;
      if (noted.run != run)
        return noted.run > run ? "passed" : "not begun";
      if (noted.stream != command.stream)
        continue;
      if (noted.command == UINT32_MAX)
        return "not begun"; // it is still in the barrier before the run
      uint32_t index = world->indexOf(top);
      if (noted.command == index)
        return noted.isCertain ? "in flight" : "perhaps in flight";
      if (noted.isCertain)
        return noted.command > index ? "passed" : "not begun";
    }
    return hasRun ? "not in flight" : "no run";
  }

  const std::vector<RankState> ranks;
  const std::shared_ptr<const replay::World> world;
  const bool isOver;
  std::vector<std::string> lines;
  std::set<uint32_t> awaited, waits;
};

} // namespace

Status run::writeHangReport(const std::string &path, const HangBoard &board,
                            const std::vector<std::string> &states,
                            const std::function<Expected<ProgramBytes>(size_t)> &program) {
  std::vector<RankState> ranks(board.ranks());
  uint32_t current = 0;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    RankState &state = ranks[rank];
    state.hasNote = board.read(rank, state.note, state.age);
    state.process = rank < states.size() ? states[rank] : "";
    current = std::max(current, state.note.program);
  }
  std::shared_ptr<const replay::World> world;
  std::string why;
  if (auto bytes = program(current); bytes && bytes->problem.empty()) {
    // Without the programs of all ranks, the report lists the commands only.
    auto file = ProgramFile::fromMemory(bytes->bytes);
    auto loaded = file ? replay::World::load(**file)
                       : Expected<std::shared_ptr<const replay::World>>(file.status());
    if (loaded)
      world = *loaded;
    why = loaded.status().message();
  }
  HangAnalysis report(std::move(ranks), world, board.isFrozen());
  json out = report.make();
  if (!world)
    out["not_analysed"] = why;
  for (const std::string &line : report.summary())
    fmt::print(stderr, "tandem-run: {}\n", escapeControls(line));
  return writeFile(path, out.dump(2, ' ', false, json::error_handler_t::replace) + "\n")
      .withPrefix("--hang-report: ");
}
