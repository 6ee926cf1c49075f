//===- Report.cpp - a simulation in words ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Simulate.h"

#include "tandem/Program/AppendTo.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>

namespace tandem::simulate {

using nlohmann::json;

namespace {

std::string timeText(double seconds) {
  if (seconds >= 1)
    return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3)
    return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.2f} us", seconds * 1e6);
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string pathText(const PathTime &path, double total) {
  std::vector<std::pair<double, std::string>> parts;
  for (size_t k = 0; k < kNumKinds; ++k)
    parts.emplace_back(path.byKind[k], toString(static_cast<replay::Kind>(k)));
  parts.emplace_back(path.issue, "host");
  parts.emplace_back(path.latency, "latency");
  std::sort(parts.begin(), parts.end(), [](const auto &a, const auto &b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::string text;
  for (const auto &[seconds, what] : parts)
    if (percent(seconds, total) >= 0.5)
      text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", what, percent(seconds, total));
  return text;
}

const replay::Name &nameOf(const replay::World &world, replay::CommandId command) {
  return world.names[world.commands[command].name];
}

/// Bytes that a rank gives to other ranks: a send or a put of its own slice counts once, and what
/// stays on the rank does not count. A collective has its payload: the larger of its two operands.
struct Traffic {
  uint64_t messages = 0, collectives = 0;
};

Traffic trafficOf(const replay::World &world, const replay::Rank &rank) {
  Traffic traffic;
  for (replay::CommandId id = rank.begin; id < rank.end; ++id) {
    const replay::Command &command = world.commands[id];
    auto bytes = [&](uint32_t k) -> uint64_t {
      const replay::View *view = world.operand(rank, command, k);
      return view ? world.layoutOf(*view).numBytes() : 0;
    };
    if (command.kind == replay::Kind::Send || command.kind == replay::Kind::Put)
      traffic.messages += bytes(0);
    else if (command.kind == replay::Kind::Collective)
      traffic.collectives += std::max(bytes(0), bytes(1));
  }
  return traffic;
}

std::string sizeText(double bytes) {
  if (bytes < 1e4)
    return fmt::format("{:.0f} B", bytes);
  return bytes < 1e7 ? fmt::format("{:.1f} kB", bytes / 1e3)
                     : fmt::format("{:.1f} MB", bytes / 1e6);
}

void trafficText(const replay::World &world, std::string &text) {
  auto line = [&](const char *what, uint64_t Traffic::*bytes) {
    uint64_t sum = 0, most = 0;
    for (const replay::Rank &rank : world.ranks) {
      uint64_t mine = trafficOf(world, rank).*bytes;
      sum += mine;
      most = std::max(most, mine);
    }
    if (most > 0)
      appendTo(std::back_inserter(text), "{:<21} {} a rank, at most {}\n", what,
               sizeText(double(sum) / double(world.ranks.size())), sizeText(double(most)));
  };
  line("sent in messages", &Traffic::messages);
  line("payload collectives", &Traffic::collectives);
}

void stepsText(const replay::World &world, const Result &result, std::string &text) {
  auto out = std::back_inserter(text);
  // Shows the longest steps, in order of time.
  std::vector<const PathStep *> steps;
  for (const PathStep &step : result.path)
    steps.push_back(&step);
  constexpr size_t most = 8;
  std::sort(steps.begin(), steps.end(), [](const PathStep *a, const PathStep *b) {
    double x = a->end - a->begin, y = b->end - b->begin;
    return x != y ? x > y : a < b;
  });
  steps.resize(std::min(steps.size(), most));
  std::sort(steps.begin(), steps.end()); // steps of one path are ordered by time
  if (!steps.empty())
    appendTo(out, "longest of its {} steps:\n", result.path.size());
  for (const PathStep *step : steps) {
    const replay::Name &name = nameOf(world, step->command);
    appendTo(out, "  {:>12} + {:<12} rank {} command {} \"{}\"{}{}\n", timeText(step->begin),
             timeText(step->end - step->begin), world.rankOf(step->command),
             world.indexOf(step->command), name.text, name.location.empty() ? "" : " at ",
             name.location);
  }
}

} // namespace

std::string report(const replay::World &world, const machine::Machine &machine,
                   const Result &result) {
  std::string text;
  auto out = std::back_inserter(text);
  double exposed = 0, compute = 0;
  for (const RankResult &rank : result.ranks) {
    exposed += rank.shares.exposed;
    compute += rank.shares.compute;
  }
  auto ranks = static_cast<double>(std::max<size_t>(1, result.ranks.size()));
  appendTo(out, "@{} on {}: {} ranks, {} commands\n", world.name, machine.name, world.numRanks(),
           world.commands.size());
  appendTo(out, "time                  {}\n", timeText(result.seconds));
  appendTo(out, "one after the other   {}, speed-up {:.2f}\n", timeText(result.sequential),
           result.seconds > 0 ? result.sequential / result.seconds : 1);
  appendTo(out, "compute               {} per rank, {:.1f} % of the time\n",
           timeText(compute / ranks), percent(compute / ranks, result.seconds));
  appendTo(out, "exposed communication {} per rank, {:.1f} % of the time\n",
           timeText(exposed / ranks), percent(exposed / ranks, result.seconds));
  trafficText(world, text);
  for (const Utilisation &engine : result.utilisation)
    appendTo(out, "used {:<16} {:5.1f} %, at most {:.1f} %\n", engine.engine, 100 * engine.average,
             100 * engine.most);
  if (result.outOfReach != replay::kNone)
    appendTo(out, "not on this machine: {} goes to another node, copy engines do not\n",
             world.describe(result.outOfReach));
  if (result.ungated != replay::kNone)
    appendTo(out,
             "no kernels for gated matmuls on this machine{}: the parts of {} are "
             "matmuls of their own\n",
             machine.hasGatedMatmuls() ? ", or not for this one" : "",
             world.describe(result.ungated));
  if (result.unfused != replay::kNone)
    appendTo(out,
             "no kernel for fused exchanges on this machine, or not for this one: the parts "
             "of {} run one by one\n",
             world.describe(result.unfused));
  if (result.ranks.empty())
    return text;
  const RankResult &slowest = result.ranks[result.slowestRank];
  appendTo(out, "critical path         rank {}: {}\n", result.slowestRank,
           pathText(slowest.path, slowest.shares.total));
  stepsText(world, result, text);
  unsigned guessed = machine.numbersBySource[machine::Source::Estimate], all = 0;
  for (unsigned count : machine.numbersBySource)
    all += count;
  if (guessed > 0)
    appendTo(out, "note: {} of the {} numbers of machine \"{}\" are estimates\n", guessed, all,
             machine.name);
  return text;
}

std::string reportJson(const replay::World &world, const machine::Machine &machine,
                       const Result &result) {
  json perRank = json::array(), path = json::array(), engines = json::array();
  double exposed = 0;
  for (size_t r = 0; r < result.ranks.size(); ++r) {
    const RankResult &rank = result.ranks[r];
    Traffic traffic = trafficOf(world, world.ranks[r]);
    json kinds = {{"host", rank.path.issue}, {"latency", rank.path.latency}};
    for (size_t k = 0; k < kNumKinds; ++k)
      if (rank.path.byKind[k] > 0)
        kinds[std::string(toString(static_cast<replay::Kind>(k)))] = rank.path.byKind[k];
    exposed += rank.shares.exposed / static_cast<double>(result.ranks.size());
    perRank.push_back({{"seconds", rank.shares.total},
                       {"compute_seconds", rank.shares.compute},
                       {"communication_seconds", rank.shares.communication},
                       {"exposed_seconds", rank.shares.exposed},
                       {"sequential_seconds", rank.sequential},
                       {"bytes_sent", traffic.messages},
                       {"bytes_collective", traffic.collectives},
                       {"path", kinds}});
  }
  for (const PathStep &step : result.path) {
    const replay::Name &name = nameOf(world, step.command);
    path.push_back({{"rank", world.rankOf(step.command)},
                    {"command", world.indexOf(step.command)},
                    {"kind", toString(world.commands[step.command].kind)},
                    {"name", name.text},
                    {"location", name.location},
                    {"begin", step.begin},
                    {"end", step.end}});
  }
  for (const Utilisation &engine : result.utilisation)
    engines.push_back(
        {{"engine", engine.engine}, {"average", engine.average}, {"most", engine.most}});
  json all = {{"program", world.name},
              {"machine", machine.name},
              {"ranks", world.numRanks()},
              {"commands", world.commands.size()},
              {"seconds", result.seconds},
              {"sequential_seconds", result.sequential},
              {"speedup", result.seconds > 0 ? result.sequential / result.seconds : 1},
              {"slowest_rank", result.slowestRank},
              {"exposed_seconds", exposed},
              {"utilisation", engines},
              {"critical_path", path},
              {"per_rank", perRank}};
  return all.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace tandem::simulate
