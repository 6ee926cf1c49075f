//===- Figures.cpp - what probes took, as a file ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Calibrate.h"

#include "Files.h"
#include "Probes.h"
#include "Report.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <stdexcept>

using namespace tandem;
using namespace tandem::bench;
using Json = nlohmann::ordered_json;

static constexpr int kFiguresVersion = 1;
static constexpr uint32_t kMaxRanks = 65536; // as option -n has it

static double inMicroseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

void bench::roundTimes(Figures &figures) {
  for (Measurement &m : figures.measurements)
    for (std::vector<double> *times : {&m.seconds, &m.host})
      for (double &time : *times)
        time = std::round(time * 1e9) * 1e-9;
}

static Json inMicroseconds(const std::vector<double> &seconds) {
  Json list = Json::array();
  for (double value : seconds)
    list.push_back(inMicroseconds(value));
  return list;
}

std::string bench::figuresJson(const Figures &figures) {
  Json list = Json::array();
  for (size_t i = 0; i < figures.measurements.size(); ++i) {
    const Measurement &m = figures.measurements[i];
    Json entry = {{"name", m.name}, {"mode", toString(m.mode)}};
    if (m.seconds.empty()) {
      entry["refused"] = m.refused;
      if (m.noKernels)
        entry["no_kernels"] = true;
      list.push_back(std::move(entry));
      continue;
    }
    Quantiles q = quantilesOf(m.seconds);
    if (auto probe = parseProbe(m.name))
      entry["repeats"] = probe->repeats;
    entry["median_us"] = inMicroseconds(q.median);
    entry["p10_us"] = inMicroseconds(q.p10);
    entry["host_median_us"] = inMicroseconds(quantilesOf(m.host).median);
    if (i < figures.predicted.size() && figures.predicted[i] > 0) {
      entry["predicted_us"] = inMicroseconds(figures.predicted[i]);
      entry["prediction_error"] = figures.predicted[i] / q.median - 1;
    }
    entry["times_us"] = inMicroseconds(m.seconds);
    entry["host_us"] = inMicroseconds(m.host);
    list.push_back(std::move(entry));
  }
  Json file = {{"tandem_probe_figures", kFiguresVersion},
               {"ranks", figures.ranks},
               {"target", figures.target},
               {"host_ranks", figures.hostRanks},
               {"cores", figures.cores},
               {"command", figures.command},
               {"not_measured", figures.left},
               {"figures", list}};
  // A line a measurement: lists of times are long.
  std::string text = "{\n";
  for (auto &[key, value] : file.items()) {
    if (key == "figures")
      break;
    text += fmt::format(" {}: {},\n", Json(key).dump(),
                        value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  text += " \"figures\": [";
  for (size_t i = 0; i < list.size(); ++i)
    text += fmt::format("{}\n  {}", i ? "," : "",
                        list[i].dump(-1, ' ', false, Json::error_handler_t::replace));
  return text + "\n ]\n}\n";
}

namespace {

std::vector<double> secondsOf(const Json &list) {
  std::vector<double> seconds;
  for (const Json &value : list)
    seconds.push_back(std::round(value.get<double>() * 1e3) * 1e-9); // as roundTimes() has it
  return seconds;
}

/// Throws.
Measurement measurementOf(const Json &entry) {
  Measurement m;
  m.role = Role::Probe;
  m.name = entry.at("name").get<std::string>();
  std::string mode = entry.at("mode").get<std::string>();
  auto known = modeNamed(mode);
  if (!known || *known == Mode::Traced)
    throw std::runtime_error(fmt::format("mode: expected direct or graph, found \"{}\"", mode));
  m.mode = *known;
  if (entry.contains("refused")) {
    m.refused = entry.at("refused").get<std::string>();
    m.noKernels = entry.value("no_kernels", false);
    return m;
  }
  m.seconds = secondsOf(entry.at("times_us"));
  m.host = secondsOf(entry.at("host_us"));
  if (m.seconds.empty() || m.seconds.size() != m.host.size())
    throw std::runtime_error("times_us, host_us: expected as many of both, at least one");
  return m;
}

} // namespace

Expected<Figures> bench::readFigures(const std::string &path) {
  TANDEM_ASSIGN_OR_RETURN(std::string text, run::readFile(path));
  try {
    Json file = Json::parse(text);
    if (!file.is_object() || file.value("tandem_probe_figures", 0) != kFiguresVersion)
      throw std::runtime_error(
          fmt::format("tandem_probe_figures: expected version {}; --calibrate with --json writes "
                      "such a file",
                      kFiguresVersion));
    Figures figures;
    figures.ranks = file.at("ranks").get<uint32_t>();
    figures.target = file.at("target").get<std::string>();
    figures.hostRanks = file.at("host_ranks").get<uint32_t>();
    figures.cores = file.at("cores").get<unsigned>();
    figures.command = file.at("command").get<std::string>();
    figures.left = file.value("not_measured", figures.left);
    if (figures.ranks < 2 || figures.ranks > kMaxRanks)
      throw std::runtime_error(
          fmt::format("ranks: expected 2 to {}, found {}", kMaxRanks, file.at("ranks").dump()));
    for (size_t i = 0; i < file.at("figures").size(); ++i)
      try {
        figures.measurements.push_back(measurementOf(file.at("figures").at(i)));
      } catch (const std::exception &error) {
        throw std::runtime_error(fmt::format("figures[{}]: {}", i, error.what()));
      }
    return figures;
  } catch (const std::exception &error) {
    return Status(Code::InvalidArgument, fmt::format("{}: {}", path, error.what()));
  }
}
