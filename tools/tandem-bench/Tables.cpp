//===- Tables.cpp - JSON and CSV of tandem-bench ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Files.h"
#include "Report.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace tandem;
using namespace tandem::bench;
using nlohmann::json;

static json numberOrNull(const std::optional<double> &value, double factor = 1) {
  return value && std::isfinite(*value) ? json(*value * factor) : json();
}

static json microseconds(const std::vector<double> &seconds) {
  json list = json::array();
  for (double value : seconds)
    list.push_back(value * 1e6);
  return list;
}

static json entryJson(const Entry &entry) {
  const Measurement &m = entry.measurement;
  json value = {{"what", m.name}, {"role", toString(m.role)}, {"mode", toString(m.mode)}};
  if (!entry.seconds) {
    value["refused"] = m.refused;
    return value;
  }
  value["median_us"] = entry.seconds->median * 1e6;
  value["p10_us"] = entry.seconds->p10 * 1e6;
  value["p90_us"] = entry.seconds->p90 * 1e6;
  value["times_us"] = microseconds(m.seconds);
  value["host_us"] = entry.host * 1e6;
  value["ratio_to_sequence"] = numberOrNull(entry.toSequence);
  value["ratio_to_limit"] = numberOrNull(entry.toLimit);
  value["verified"] = m.verified;
  value["failure"] = m.failure;
  value["max_relative_error"] = m.verified ? numberOrNull(m.error) : json();
  value["predicted_us"] = numberOrNull(entry.predicted, 1e6);
  value["prediction_error"] = numberOrNull(entry.predictionError());
  if (!entry.unpredicted.empty())
    value["unpredicted"] = entry.unpredicted;
  if (!entry.sameAs.empty())
    value["same_as"] = entry.sameAs;
  return value;
}

std::string bench::reportJson(const Options &options, const Report &report) {
  json rows = json::array();
  for (const RowReport &row : report.rows) {
    json limits = json::object(), entries = json::array();
    for (Mode mode : options.modes)
      limits[toString(mode)] = numberOrNull(row.limit(mode), 1e6);
    for (const Entry &entry : row.entries)
      entries.push_back(entryJson(entry));
    rows.push_back({{"op", toString(row.shape.op)},
                    {"m", row.shape.m},
                    {"n", row.shape.n},
                    {"k", row.shape.k},
                    {"dtype", row.shape.types()},
                    {"flops", row.shape.flops()},
                    {"bytes", row.bytes},
                    {"limit_us", limits},
                    {"measurements", entries}});
  }
  json all = {
      {"tandem_bench", 1},
      {"ranks", report.ranks},
      {"device", options.device},
      {"channel", options.channel},
      {"target", report.target},
      {"machine", options.machine},
      {"iterations", options.iterations},
      {"warmup", options.warmup},
      {"sets", options.sets},
      {"batch", options.batch},
      {"gap_ms", options.gapMs},
      {"seed", options.seed},
      {"link",
       {{"bytes_per_second", numberOrNull(report.linkRate)}, {"source", report.linkSource}}},
      {"rows", rows},
      {"median_prediction_error", numberOrNull(report.medianPredictionError())},
      {"not_measured", report.left},
      {"failure", report.failure}};
  return all.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

/// Commas and quotes in a field.
static std::string quoted(const std::string &text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"')
      result += '"';
    result += c == '\n' ? ' ' : c;
  }
  return result + "\"";
}

std::string bench::reportCsv(const Report &report) {
  std::string text = "op,m,n,k,dtype,what,role,mode,median_us,p10_us,p90_us,ratio_to_sequence,"
                     "ratio_to_limit,host_us,predicted_us,verified,refused\n";
  auto field = [](const std::optional<double> &value, double factor = 1) {
    return value ? fmt::format("{:.6g}", *value * factor) : std::string();
  };
  for (const RowReport &row : report.rows)
    for (const Entry &entry : row.entries) {
      const Measurement &m = entry.measurement;
      text += fmt::format("{},{},{},{},{},{},{},{},", toString(row.shape.op), row.shape.m,
                          row.shape.n, row.shape.k, row.shape.types(), quoted(m.name),
                          toString(m.role), toString(m.mode));
      text += entry.seconds ? fmt::format("{:.6g},{:.6g},{:.6g},", entry.seconds->median * 1e6,
                                          entry.seconds->p10 * 1e6, entry.seconds->p90 * 1e6)
                            : ",,,";
      text += fmt::format("{},{},{},{},{},{}\n", field(entry.toSequence), field(entry.toLimit),
                          entry.seconds ? fmt::format("{:.6g}", entry.host * 1e6) : "",
                          field(entry.predicted, 1e6), m.verified ? "yes" : "no",
                          m.refused.empty() ? "" : quoted(m.refused));
    }
  return text;
}

Status bench::writeFiles(const Options &options, const Report &report) {
  Status first;
  auto write = [&](const std::string &path, auto make) {
    Status written = path.empty() ? Status() : run::writeFile(path, make());
    if (first.ok())
      first = written;
  };
  write(options.json, [&] { return reportJson(options, report); });
  write(options.csv, [&] { return reportCsv(report); });
  write(options.svg, [&] { return reportSvg(options, report); });
  return first;
}
