//===- Report.cpp - what tandem-run says of a run ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Report.h"

#include "Files.h"

#include "tandem/Program/Container.h"
#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

using namespace tandem;
using namespace tandem::run;

RankReport run::countCommands(const Program &program) {
  RankReport report;
  const sp::RankProgram &data = program.data();
  auto bytesOf = [&](uint32_t view) -> uint64_t {
    return view == sp::kNoView ? 0 : program.layout(data.views()->Get(view)->layout()).numBytes();
  };
  for (const sp::Command *command : *data.commands()) {
    ++report.commands;
    ++report.byKind[static_cast<size_t>(command->kind())];
    const auto &operands = *command->operands();
    // A put's destination has the same shape.
    if (command->kind() == sp::CommandKind::send || command->kind() == sp::CommandKind::put)
      report.bytesSent += bytesOf(operands[0]);
    if (command->kind() == sp::CommandKind::collective)
      report.bytesCollective += std::max(bytesOf(operands[0]), bytesOf(operands[1]));
  }
  return report;
}

double run::medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double Report::medianMs() const { return medianOf(milliseconds); }

double Report::maxError() const {
  double error = 0;
  for (const ResultReport &result : results)
    error = std::isnan(result.comparison.error) ? result.comparison.error
                                                : std::max(error, result.comparison.error);
  return error;
}

std::string run::summaryLine(const Options &options, const Report &report) {
  if (!report.failure.empty())
    return fmt::format("FAILED {}: {}", report.name.empty() ? report.file : report.name,
                       report.failure);
  const char *proof = report.proven ? "" : ", not proven";
  if (options.verify)
    return fmt::format("verified {}: ranks {}, max relative error {:.1e}, median {:.1f} ms{}",
                       report.name, report.ranks, report.maxError(), report.medianMs(), proof);
  return fmt::format("ran {}: ranks {}, median {:.1f} ms{}", report.name, report.ranks,
                     report.medianMs(), proof);
}

std::string run::reportLine(const Options &options, const Report &report) {
  return (options.several() ? report.file + ": " : "") + summaryLine(options, report) + "\n";
}

static std::vector<std::string> notRun(const Options &options, const Tally &tally) {
  return {options.programs.begin() + tally.passed + tally.failed, options.programs.end()};
}

std::string run::totalLine(const Options &options, const Tally &tally) {
  std::string text = fmt::format("{} passed, {} failed", tally.passed, tally.failed);
  std::vector<std::string> left = notRun(options, tally);
  if (!left.empty())
    text += fmt::format(", {} not run: {}", left.size(), fmt::join(left, " "));
  return text;
}

static nlohmann::json jsonOf(const Options &options, const Report &report) {
  using nlohmann::json;
  auto number = [](double value) { return std::isfinite(value) ? json(value) : json(); };
  json results = json::array(), perRank = json::array();
  for (const ResultReport &result : report.results)
    results.push_back({{"name", result.name},
                       {"dtype", toString(result.dtype)},
                       {"exact", result.comparison.exact},
                       {"error", number(result.comparison.error)},
                       {"tolerance", result.comparison.tolerance}});
  uint64_t commands = 0, sent = 0, collective = 0;
  for (const RankReport &rank : report.perRank) {
    commands += rank.commands;
    sent += rank.bytesSent;
    collective += rank.bytesCollective;
    json byKind = json::object();
    for (size_t kind = 0; kind < program::kNumCommandKinds; ++kind)
      if (rank.byKind[kind])
        byKind[sp::EnumNameCommandKind(static_cast<sp::CommandKind>(kind))] = rank.byKind[kind];
    perRank.push_back({{"commands", rank.commands},
                       {"by_kind", byKind},
                       {"bytes_sent", rank.bytesSent},
                       {"bytes_collective", rank.bytesCollective},
                       {"median_ms", rank.medianMs}});
  }
  return {{"name", report.name.empty() ? report.file : report.name},
          {"ranks", report.ranks},
          {"device", options.device},
          {"channel", options.channel},
          {"seed", options.seed},
          {"repeat", options.repeat},
          {"verified", report.verified},
          {"proven", report.proven},
          {"failure", report.failure},
          {"max_relative_error", number(report.maxError())},
          {"median_ms", report.medianMs()},
          {"times_ms", report.milliseconds},
          {"results", results},
          {"commands", commands},
          {"bytes_sent", sent},
          {"bytes_collective", collective},
          {"per_rank", perRank}};
}

Status run::writeJson(const Options &options, const std::vector<Report> &reports,
                      const Tally &tally) {
  using nlohmann::json;
  json all;
  if (options.several()) {
    json programs = json::array();
    for (const Report &report : reports) {
      programs.push_back(jsonOf(options, report));
      programs.back()["file"] = report.file;
    }
    all = {{"programs", programs},
           {"passed", tally.passed},
           {"failed", tally.failed},
           {"not_run", notRun(options, tally)}};
  } else {
    all = jsonOf(options, reports.front());
  }
  return writeFile(options.json, all.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}
