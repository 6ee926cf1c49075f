//===- Calibrate.cpp - a machine file from measurements ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Calibrate.h"

#include "Report.h"
#include "tandem/Runtime/Machine.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <thread>

using namespace tandem;
using namespace tandem::bench;

/// Below this a difference of two runs is noise.
static constexpr double kLeast = 1e-9;
static constexpr const char *kSource = "calibrated";

/// Four figures: more would be pretence.
static double rounded(double value) { return std::stod(fmt::format("{:.4g}", value)); }

void Calibration::note(const std::vector<Measurement> &measurements) {
  for (const Measurement &m : measurements)
    if (!m.seconds.empty())
      figures[{m.name, m.mode}] = {quantilesOf(m.seconds).p10, quantilesOf(m.host).p10};
}

std::optional<double> Calibration::seconds(const Probe &probe, Mode mode) const {
  auto many = figures.find({probe.name(), mode}), one = figures.find({probe.once().name(), mode});
  if (many == figures.end() || one == figures.end())
    return std::nullopt;
  double value = (many->second.first - one->second.first) / (probe.repeats - 1);
  return value > kLeast ? std::optional(value) : std::nullopt;
}

std::optional<double> Calibration::hostSeconds(const Probe &probe, Mode mode) const {
  auto many = figures.find({probe.name(), mode}), one = figures.find({probe.once().name(), mode});
  if (many == figures.end() || one == figures.end())
    return std::nullopt;
  double value = (many->second.second - one->second.second) / (probe.repeats - 1);
  return value > kLeast ? std::optional(value) : std::nullopt;
}

/// Of probes of one kind those that are not of the many tiny commands, by size.
std::vector<Probe> Calibration::all(Work work, bool alone) const {
  std::vector<Probe> found;
  for (const Probe &probe : probes)
    if (probe.work == work && probe.alone == alone && probe.repeats < 10)
      found.push_back(probe);
  return found;
}

const Probe *Calibration::find(Work work, bool largest) const {
  const Probe *found = nullptr;
  for (const Probe &probe : probes)
    if (probe.work == work && (probe.repeats < 10) == largest)
      found = &probe;
  return found;
}

void Calibration::set(Json &object, const char *field, std::optional<double> value, double unit,
                      const char *unitName, const std::string &path) {
  if (!value) {
    lines.push_back(fmt::format("{}.{}: kept", path, field));
    return;
  }
  object[field] = {rounded(*value / unit), unitName, kSource};
  lines.push_back(fmt::format("{}.{}: {} {}", path, field, rounded(*value / unit), unitName));
}

void Calibration::setCurve(Json &object, const char *field,
                           const std::vector<std::pair<double, double>> &points, double unit,
                           const char *unitName, const std::string &path) {
  if (points.empty()) {
    lines.push_back(fmt::format("{}.{}: kept", path, field));
    return;
  }
  Json list = Json::array();
  std::vector<std::string> texts;
  for (auto [bytes, value] : points) {
    list.push_back({static_cast<uint64_t>(bytes), rounded(value / unit)});
    texts.push_back(fmt::format("{} at {:.0f} B", rounded(value / unit), bytes));
  }
  object[field] = {list, unitName, kSource};
  lines.push_back(fmt::format("{}.{}: {} {}", path, field, fmt::join(texts, ", "), unitName));
}

void Calibration::applyMatmuls(Json &device) {
  Json tables = Json::array();
  for (DType dtype : {DType::F32, DType::F16, DType::BF16}) {
    Json points = Json::array();
    for (const Probe &p : all(Work::Matmul, !gpu))
      if (auto time = seconds(p); time && p.dtype == dtype)
        points.push_back({p.m, p.n, p.k, rounded(*time * 1e6)});
    std::string name(tandem::toString(dtype));
    lines.push_back(fmt::format("device.matmul: {} points for {}{}", points.size(), name,
                                points.empty() ? ": kept" : ""));
    if (!points.empty()) {
      tables.push_back({{"dtypes", Json::array({name})},
                        {"unit", "us"},
                        {"source", kSource},
                        {"points", points}});
      continue;
    }
    for (Json table : device["matmul"])
      if (auto types = table["dtypes"];
          std::find(types.begin(), types.end(), name) != types.end()) {
        table["dtypes"] = Json::array({name});
        tables.push_back(table);
      }
  }
  device["matmul"] = tables;
}

void Calibration::applyMemory(Json &device) {
  // Bytes read and written, as the model counts them.
  const std::tuple<Work, const char *, double> kinds[] = {
      {Work::Copy, "copy", 2}, {Work::Reduce, "reduce", 3}, {Work::Accumulate, "elementwise", 3}};
  for (auto [work, field, operands] : kinds) {
    const Probe *tiny = find(work == Work::Reduce ? Work::Accumulate : work, false);
    double launching = tiny ? seconds(*tiny).value_or(0) : 0;
    std::vector<std::pair<double, double>> points;
    for (const Probe &p : all(work, !gpu))
      if (auto time = seconds(p)) {
        double bytes = operands * double(p.bytes);
        points.emplace_back(bytes, bytes / std::max(*time - launching, *time / 2));
      }
    setCurve(device["memory"], field, points, 1e9, "GB/s", "device.memory");
  }
}

void Calibration::applyContention(Json &device) {
  unsigned cores = std::thread::hardware_concurrency();
  if (!device.contains("cores") || gpu || cores < 2 || hostRanks < cores)
    return;
  device["cores"] = {cores, "1", kSource};
  // The largest shapes: what small ones wait for is not the cores.
  for (auto [work, field] : {std::pair(Work::Matmul, "matmul"), {Work::Accumulate, "memory"}}) {
    std::vector<double> ratios;
    for (Probe p : all(work, false))
      if (auto busy = seconds(p)) {
        p.alone = true;
        if (auto alone = seconds(p))
          ratios.push_back(*busy / *alone);
      }
    // Ranks beyond the cores share them, which is no contention.
    std::optional<double> factor;
    if (!ratios.empty())
      factor = std::max(1.0, quantilesOf(ratios).median * cores / hostRanks);
    if (factor || (device.contains("contention") && device["contention"].contains(field)))
      set(device["contention"], field, factor, 1, "1", "device.contention");
    else
      device["contention"][field] = {1, "1", kSource};
  }
}

void Calibration::applyLaunching(Json &launch, Mode mode) {
  bool graph = mode == Mode::Graph;
  const char *name = graph ? "graph" : "streams";
  std::string path = fmt::format("launch.{}", name);
  if (!launch.contains(name)) {
    lines.push_back(path + ": not in the base file, left out");
    return;
  }
  Json &object = launch[name];
  const std::pair<Work, const char *> issued[] = {{Work::Accumulate, "kernel"},
                                                  {Work::Matmul, "matmul"},
                                                  {Work::Copy, "copy"},
                                                  {Work::Message, "message"},
                                                  {Work::AllGather, "collective"}};
  for (auto [work, field] : issued) {
    const Probe *tiny = find(work, false);
    set(object["issue"], field, graph ? std::nullopt : hostSeconds(*tiny, mode), 1e-6, "us",
        path + ".issue");
  }
  // Where the host is what the device waits for, the device's own cost does not show.
  auto device = [&](Work work) -> std::optional<double> {
    const Probe *tiny = find(work, false);
    auto took = seconds(*tiny, mode), issue = hostSeconds(*tiny, mode);
    return took && (graph || !issue || *took > 1.3 * *issue) ? took : std::nullopt;
  };
  set(object["device"], "kernel", device(Work::Accumulate), 1e-6, "us", path + ".device");
  set(object["device"], "copy", device(Work::Copy), 1e-6, "us", path + ".device");
  // A table's times are those of matmuls in a row: they hold it.
  if (!all(Work::Matmul, !gpu).empty() && seconds(all(Work::Matmul, !gpu).front()))
    set(object["device"], "matmul", 0.0, 1e-6, "us", path + ".device");
  auto hop = device(Work::Hop);
  set(object["device"], "event", hop ? std::optional(*hop / 2) : hop, 1e-6, "us", path + ".device");
  auto one = figures.find({find(Work::Copy, false)->once().name(), mode});
  if (one != figures.end())
    set(object, "run", one->second.second, 1e-6, "us", path);
}

void Calibration::applyMessages(Json &file) {
  // One medium carries all ranks' messages at once.
  bool shared = file["links"]["node"]["topology"] == "shared";
  double together = shared ? ranks : 1;
  std::vector<std::pair<double, double>> rates;
  for (auto [work, field] : {std::pair(Work::Message, "two_sided"), {Work::Put, "one_sided"}}) {
    std::vector<Probe> sizes = all(work, false);
    Json &transport = file["transports"][field];
    std::string path = fmt::format("transports.{}", field);
    auto least = seconds(sizes.front());
    set(transport, "startup", least, 1e-6, "us", path);
    std::vector<std::pair<double, double>> mine;
    for (size_t i = 1; least && i < sizes.size(); ++i)
      if (auto time = seconds(sizes[i]))
        mine.emplace_back(double(sizes[i].bytes),
                          together * double(sizes[i].bytes) / std::max(*time - *least, *time / 4));
    if (mine.empty())
      continue;
    // The link is as quick as the quicker transport shows; the other one limits itself.
    if (rates.empty() || mine.back().second > rates.back().second)
      rates = mine;
    transport.erase("bandwidth");
    transport["bandwidth"] = {rounded(mine.back().second / 1e9), "GB/s", kSource};
  }
  for (const char *field : {"two_sided", "one_sided"}) {
    Json &transport = file["transports"][field];
    if (transport.contains("bandwidth") && !rates.empty() && transport["bandwidth"][2] == kSource &&
        transport["bandwidth"][0].get<double>() * 1e9 > .95 * rates.back().second)
      transport.erase("bandwidth");
  }
  setCurve(file["links"]["node"], "bandwidth", rates, 1e9, "GB/s", "links.node");
  if (!rates.empty())
    set(file["links"]["node"], "latency", 0.0, 1e-6, "us", "links.node");
}

void Calibration::applyCollectives(Json &file) {
  Json &collectives = file["transports"]["collectives"];
  std::vector<Probe> sizes = all(Work::AllGather, false);
  auto least = seconds(*find(Work::AllGather, false));
  double steps = collectives["step"][0].get<double>() > 0 ? double(ranks - 1) : 0;
  // What a step costs cannot be told from one number of ranks: half of it all, if the base has any.
  set(collectives, "startup", least && steps > 0 ? std::optional(*least / 2) : least, 1e-6, "us",
      "transports.collectives");
  if (least && steps > 0)
    set(collectives, "step", *least / 2 / steps, 1e-6, "us", "transports.collectives");
  std::vector<std::pair<double, double>> points;
  for (const Probe &p : sizes)
    if (auto time = seconds(p); time && least) {
      double through = double(ranks - 1) * double(p.bytes);
      points.emplace_back(through, through / std::max(*time - *least, *time / 4));
    }
  setCurve(collectives, "bandwidth", points, 1e9, "GB/s", "transports.collectives");
}

Expected<std::string> Calibration::apply(const std::string &base, const std::string &name,
                                         const std::string &how) {
  lines.clear();
  // The base has been read as a machine: it has all the fields.
  Json file = Json::parse(base, nullptr, false);
  if (file.is_discarded())
    return Status(Code::InvalidArgument, "the base file is no JSON");
  file["name"] = name;
  file["sources"][kSource] = {{"kind", "measured"}, {"text", how}};
  applyMatmuls(file["device"]);
  applyMemory(file["device"]);
  applyContention(file["device"]);
  applyLaunching(file["launch"], Mode::Direct);
  if (figures.count({find(Work::Copy, false)->name(), Mode::Graph}))
    applyLaunching(file["launch"], Mode::Graph);
  applyMessages(file);
  applyCollectives(file);
  std::string text = file.dump(2) + "\n";
  TANDEM_RETURN_IF_ERROR(machine::Machine::parse(text, name).status());
  return text;
}
