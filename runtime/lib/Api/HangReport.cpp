//===- HangReport.cpp - who waits for whom ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Handles.h"

#include "tandem/Program/Files.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

using namespace tandem;
using namespace tandem::capi;
using nlohmann::json;

namespace {

constexpr std::string_view kSignal = "ended by signal";
/// Commands of a rank in the text.
constexpr size_t kMostLines = 6;
/// Files of two ranks differ by up to 50 ms: a wait that is younger may be over.
constexpr int64_t kSettled = 100;

class HangAnalysis {
public:
  /// `files`: of each rank; null: it has none. `states`: "": unknown.
  HangAnalysis(std::vector<json> files, std::vector<std::string> states)
      : files(std::move(files)), states(std::move(states)),
        isOver(std::any_of(this->files.begin(), this->files.end(), [](const json &file) {
          return !file.is_null() && file.at("error").is_string();
        })) {}

  json make() {
    json out;
    out["ranks"] = json::array();
    for (uint32_t rank = 0; rank < files.size(); ++rank)
      out["ranks"].push_back(makeRank(rank));
    out["held_up_by"] = json::array();
    for (uint32_t rank : causes()) {
      out["held_up_by"].push_back(rank);
      lines.push_back(fmt::format("held up by rank {}: {}", rank, describeRank(rank)));
    }
    out["summary"] = lines;
    return out;
  }

private:
  /// Ranks that were stopped or ended by a signal. If there are none: the ends of the chains, which
  /// others wait for and which wait for no other rank.
  std::set<uint32_t> causes() const {
    std::set<uint32_t> found;
    for (uint32_t rank = 0; rank < files.size(); ++rank)
      if (states[rank] == "stopped" || states[rank].compare(0, kSignal.size(), kSignal) == 0)
        found.insert(rank);
    if (found.empty())
      std::set_difference(awaited.begin(), awaited.end(), waits.begin(), waits.end(),
                          std::inserter(found, found.end()));
    return found;
  }

  std::string describeRank(uint32_t rank) const {
    std::string text = states[rank].empty() ? "" : states[rank] + "; ";
    if (files[rank].is_null())
      return text + "has no file";
    const json &commands = files[rank].at("in_flight");
    return text + (commands.empty() ? "no run in flight"
                                    : "in " + commands[0].at("description").get<std::string>());
  }

  json makeRank(uint32_t rank) {
    const json &file = files[rank];
    json out = {{"process", states[rank].empty() ? json() : json(states[rank])}, {"file", file}};
    lines.push_back(fmt::format("rank {}: {}", rank, describeRank(rank)));
    if (file.is_null())
      return out;
    if (file.at("error").is_string())
      lines.push_back("  error: " + file.at("error").get<std::string>());
    size_t listed = 0;
    for (json &command : out["file"].at("in_flight")) {
      size_t before = lines.size();
      addStates(rank, command);
      if (++listed > kMostLines)
        lines.resize(before);
    }
    if (listed > kMostLines)
      lines.push_back(fmt::format("  ... and {} more, see the file", listed - kMostLines));
    return out;
  }

  void addStates(uint32_t rank, json &command) {
    lines.push_back(fmt::format("  stream {} in {}{}, run {}", command.at("stream").get<uint32_t>(),
                                command.at("description").get<std::string>(),
                                command.at("certain") ? "" : " (or another one of a graph)",
                                command.at("run").get<uint64_t>()));
    for (json &other : command.at("waits_for")) {
      auto of = other.at("rank").get<uint32_t>();
      std::string state = stateOf(other, command);
      if (of != rank && state != "passed" && (isOver || command.at("for_ms") >= kSettled)) {
        waits.insert(rank);
        awaited.insert(of);
      }
      other["state"] = state;
      lines.push_back(
          fmt::format("    waits for {}: {}", other.at("description").get<std::string>(), state));
    }
    if (command.contains("missing"))
      lines.push_back("    " + command.at("missing").get<std::string>());
  }

  /// How far the rank of `other` is with it: a `state` of docs/operations.md. `waiting`: the
  /// command that waits for it.
  std::string stateOf(const json &other, const json &waiting) const {
    auto rank = other.at("rank").get<uint32_t>();
    if (rank >= files.size() || files[rank].is_null())
      return "unknown";
    bool hasRun = false;
    for (const json &command : files[rank].at("in_flight")) {
      if (command.at("id") != waiting.at("id"))
        continue;
      hasRun = true;
      bool isCertain = command.at("certain"), isNone = command.at("command").is_null();
      if (isNone && !isCertain)
        continue;
      if (command.at("run") != waiting.at("run"))
        return command.at("run") > waiting.at("run") ? "passed" : "not begun";
      if (command.at("stream") != other.at("stream"))
        continue;
      if (isNone)
        return "not begun"; // it is still in the barrier before the run
      if (command.at("command") == other.at("command"))
        return isCertain ? "in flight" : "perhaps in flight";
      if (isCertain)
        return command.at("command") > other.at("command") ? "passed" : "not begun";
    }
    return hasRun ? "not in flight" : "no run";
  }

  const std::vector<json> files;
  const std::vector<std::string> states;
  const bool isOver; ///< a rank has failed, so the job does not move any more
  std::vector<std::string> lines;
  std::set<uint32_t> awaited, waits;
};

/// Reads what HangAnalysis needs; throws where it is missing.
void checkCommand(const json &command) {
  for (const char *name : {"run", "stream", "for_ms"})
    command.at(name).get<uint64_t>();
  for (const char *name : {"id", "description"})
    command.at(name).get<std::string>();
  command.at("certain").get<bool>();
  command.at("command");
  for (const json &other : command.at("waits_for")) {
    for (const char *name : {"rank", "stream", "command"})
      other.at(name).get<uint32_t>();
    other.at("description").get<std::string>();
  }
}

/// A rank's file; null if there is none, or it is another file.
json readDump(const std::string &path) {
  try {
    auto text = readWhole(path);
    json file = text ? json::parse(*text) : json();
    file.at("error");
    file.at("world_size").get<uint32_t>();
    for (const json &command : file.at("in_flight"))
      checkCommand(command);
    return file;
  } catch (const json::exception &) {
    return {};
  }
}

/// The number of ranks, by the first file that has it; 0: none does.
uint32_t countRanks(const std::string &prefix) {
  std::filesystem::path path(prefix), folder = path.parent_path();
  std::error_code error;
  for (const auto &entry :
       std::filesystem::directory_iterator(folder.empty() ? "." : folder, error)) {
    std::string name = entry.path().filename().string(), start = path.filename().string() + ".rank";
    if (name.compare(0, start.size(), start) == 0)
      if (json file = readDump(entry.path().string()); !file.is_null())
        return file["world_size"];
  }
  return 0;
}

} // namespace

extern "C" {

tandem_code tandem_hang_report(const char *prefix, uint32_t numRanks, const char *const *states,
                               void (*write)(void *user, const char *json, size_t size),
                               void *user) {
  return guarded(nullptr, [&]() -> Status {
    if (!prefix || !write)
      return missing("prefix or write");
    if (numRanks == 0)
      numRanks = countRanks(prefix);
    std::vector<json> files;
    std::vector<std::string> processes;
    for (uint32_t rank = 0; rank < numRanks; ++rank) {
      files.push_back(readDump(fmt::format("{}.rank{}", prefix, rank)));
      processes.emplace_back(states && states[rank] ? states[rank] : "");
    }
    if (!states &&
        std::all_of(files.begin(), files.end(), [](auto &file) { return file.is_null(); }))
      return Status(Code::Io, "no file of a flight recorder");
    std::string text = HangAnalysis(std::move(files), std::move(processes))
                           .make()
                           .dump(1, ' ', false, json::error_handler_t::replace) +
                       "\n";
    write(user, text.data(), text.size());
    return Status();
  });
}

} // extern "C"
