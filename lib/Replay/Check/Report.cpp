//===- Report.cpp - reports as text and JSON --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckImpl.h"

#include <nlohmann/json.hpp>

namespace tandem::check {

using namespace replay;

std::string toText(const World &world, const Report &report) {
  std::string text;
  for (const Finding &finding : report.findings) {
    text += fmt::format("{}: {}: {}\n", isLint(finding.diagnosis) ? "warning" : "error",
                        toString(finding.diagnosis), finding.message);
    for (const std::string &note : finding.notes)
      text += fmt::format("  {}\n", note);
  }
  for (unsigned d = 0; d < kNumDiagnoses; ++d) {
    uint64_t shown = 0;
    for (const Finding &finding : report.findings)
      shown += static_cast<unsigned>(finding.diagnosis) == d;
    if (report.counts[d] > shown)
      text += fmt::format("  ... and {} more of kind {}\n", report.counts[d] - shown,
                          toString(static_cast<Diagnosis>(d)));
  }
  for (const std::string &limit : report.limits)
    text += fmt::format("not decided: {}\n", limit);
  if (!report.data.empty())
    text += fmt::format("data: {}\n", report.data);
  uint64_t errors = report.numErrors();
  text += fmt::format(
      "@{}: {} ranks, {} commands: {}\n", world.name, report.numRanks, report.numCommands,
      errors ? fmt::format("{} error{}", errors, errors == 1 ? "" : "s") : std::string("no error"));
  return text;
}

std::string toJson(const World &world, const Report &report) {
  using nlohmann::json;
  json out;
  out["ok"] = !report.hasErrors();
  out["program"] = world.name;
  out["target"] = world.target;
  out["ranks"] = report.numRanks;
  out["commands"] = report.numCommands;
  out["findings"] = json::array();
  for (const Finding &finding : report.findings) {
    json one;
    one["diagnosis"] = toString(finding.diagnosis);
    one["severity"] = isLint(finding.diagnosis) ? "warning" : "error";
    one["message"] = finding.message;
    one["notes"] = finding.notes;
    one["commands"] = json::array();
    for (CommandId id : finding.commands) {
      const Command &command = world.commands[id];
      const Name &name = world.names[command.name];
      one["commands"].push_back({{"rank", world.rankOf(id)},
                                 {"stream", command.stream},
                                 {"command", world.indexOf(id)},
                                 {"kind", toString(command.kind)},
                                 {"name", name.text},
                                 {"location", name.location}});
    }
    out["findings"].push_back(std::move(one));
  }
  json counts = json::object();
  for (unsigned d = 0; d < kNumDiagnoses; ++d)
    if (report.counts[d])
      counts[std::string(toString(static_cast<Diagnosis>(d)))] = report.counts[d];
  out["counts"] = std::move(counts);
  out["limits"] = report.limits;
  out["data"] = report.data;
  // Names may contain any bytes.
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace tandem::check
