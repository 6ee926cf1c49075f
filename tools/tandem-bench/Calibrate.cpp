//===- Calibrate.cpp - a machine file from measurements ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Calibrate.h"

#include "Report.h"
#include "tandem/Program/CollectiveRoute.h"
#include "tandem/Replay/Machine.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <tuple>

using namespace tandem;
using namespace tandem::bench;

/// Below this a difference of two runs is noise.
static constexpr double kLeast = 1e-9;
/// Of what a command of some size takes, if a tiny one takes as long: rates are no smaller numbers.
static constexpr double kLeastPart = 1. / 16;
/// From this share of the rate of contiguous memory on, a put with gaps is as quick.
static constexpr double kWholeShare = .97;
/// A startup becomes a curve where the largest message's is so many times the smallest one's.
static constexpr double kGrowth = 1.5;
/// ... if the rate between the largest messages is at most so many times that of the whole largest
/// one.
static constexpr double kMostLateRate = 1.5;
/// Seconds. Programs of a single command measure what a run takes besides its commands. A long
/// command takes longer alone than as one of several, since its operands are in no cache. So each
/// of these ranges has a median: the first one of all commands, the others of at least so many
/// matmuls. Puts up to this length measure the start of an engine.
static constexpr double kRunRanges[] = {0, 50e-6, 100e-6, 200e-6, 400e-6}, kLongestPut = 500e-6;
static constexpr size_t kLeastInRange = 5;
static constexpr const char *kSource = "calibrated";

/// Four figures: more would be pretence.
static double rounded(double value) { return std::stod(fmt::format("{:.4g}", value)); }

/// In seconds: what is kept of a base file may be in any unit.
static double timeOf(const nlohmann::ordered_json &field) {
  std::string unit = field[1];
  double scale = unit == "s" ? 1 : unit == "ms" ? 1e-3 : unit == "us" ? 1e-6 : 1e-9;
  return field[0].get<double>() * scale;
}

/// Of a run that takes `total` in all. Points of a curve are by microseconds, whatever its unit.
static double runSeconds(const nlohmann::ordered_json &field, double total) {
  if (!field[0].is_array())
    return timeOf(field);
  machine::Curve curve(field[0].get<std::vector<std::pair<double, double>>>());
  double unit = timeOf({1, field[1]}), run = curve.at(total * 1e6) * unit;
  return curve.at(std::max(0.0, total - run) * 1e6) * unit; // by the rest of the time
}

void Calibration::note(const std::vector<Measurement> &measurements) {
  for (const Measurement &m : measurements) {
    auto probe = parseProbe(m.name);
    if (probe && probe->work == Work::Gated && m.noKernels)
      noGatedKernels = true;
    if (probe && isExchange(probe->work) && m.noKernels)
      noExchangeKernels = true;
    if (!probe || m.seconds.empty())
      continue;
    figures[{m.name, m.mode}] = {m.seconds, m.host};
    auto same = [&](const Probe &known) { return known.name() == m.name; };
    if (probe->repeats > 1 && std::none_of(probes.begin(), probes.end(), same))
      probes.push_back(*probe);
  }
}

const Calibration::Figure *Calibration::figure(const Probe &probe, Mode mode) const {
  auto found = figures.find({probe.name(), mode});
  return found == figures.end() ? nullptr : &found->second;
}

std::optional<double> Calibration::difference(const Probe &probe, Mode mode,
                                              std::vector<double> Figure::*of) const {
  const Figure *many = figure(probe, mode), *one = figure(probe.once(), mode);
  if (!many || !one || probe.repeats < 2)
    return std::nullopt;
  // Both had their turn in the same round: what comes and goes (clocks, neighbours) cancels. The
  // medians are what a bench's predictions are compared with.
  std::vector<double> differences;
  for (size_t i = 0; i < std::min((many->*of).size(), (one->*of).size()); ++i)
    differences.push_back(((many->*of)[i] - (one->*of)[i]) / (probe.repeats - 1));
  double value = differences.empty() ? 0 : quantilesOf(std::move(differences)).median;
  return value > kLeast ? std::optional(value) : std::nullopt;
}

std::optional<double> Calibration::seconds(const Probe &probe, Mode mode) const {
  return difference(probe, mode, &Figure::seconds);
}

std::optional<double> Calibration::mostSeconds(const Probe &probe, Mode mode) const {
  const Figure *run = figure(probe, mode);
  if (!run || run->seconds.empty())
    return std::nullopt;
  return quantilesOf(run->seconds).median / probe.repeats;
}

std::optional<double> Calibration::seconds(const Probe &probe) const {
  return seconds(probe, figure(probe, Mode::Graph) ? Mode::Graph : Mode::Direct);
}

std::optional<double> Calibration::hostSeconds(const Probe &probe, Mode mode) const {
  return difference(probe, mode, &Figure::host);
}

std::vector<Probe> Calibration::all(Work work, bool alone) const {
  std::vector<Probe> found;
  for (const Probe &probe : probes)
    if (probe.work == work && probe.alone == alone && !probe.isTiny())
      found.push_back(probe);
  std::sort(found.begin(), found.end(), [](const Probe &a, const Probe &b) {
    return std::tie(a.bytes, a.m, a.n, a.k) < std::tie(b.bytes, b.m, b.n, b.k);
  });
  return found;
}

Probe Calibration::tiny(Work work) const {
  for (const Probe &probe : probes)
    if (probe.work == work && probe.isTiny())
      return probe;
  Probe none;
  none.work = work;
  none.repeats = 2;
  return none;
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

std::optional<Probe> Calibration::alignedCounterpart(const Probe &of) const {
  auto line = static_cast<int64_t>(machine::kCacheLine / sizeOf(of.dtype));
  if (of.n % line == 0 && of.k % line == 0)
    return std::nullopt;
  for (const Probe &p : all(Work::Matmul, !gpu))
    if (p.dtype == of.dtype && p.m == of.m && p.n == of.n / line * line &&
        p.k == of.k / line * line)
      return p;
  return std::nullopt;
}

nlohmann::ordered_json Calibration::unalignedMatmuls(DType dtype) const {
  // Rows that begin at multiples of fewer bytes than a load make other kernels necessary.
  constexpr uint64_t kLoad = 16;
  std::map<uint64_t, std::vector<double>> left, both;
  for (const Probe &p : all(Work::Matmul, !gpu)) {
    std::optional<Probe> aligned = alignedCounterpart(p);
    if (p.dtype != dtype || !aligned)
      continue;
    auto slow = seconds(p), fast = seconds(*aligned);
    uint64_t ofK = machine::alignmentOf(static_cast<uint64_t>(p.k) * sizeOf(dtype)),
             ofN = machine::alignmentOf(static_cast<uint64_t>(p.n) * sizeOf(dtype));
    if (!slow || !fast || ofK < kLoad || (ofN != machine::kCacheLine && ofN != ofK))
      continue;
    // A few more columns of N take as long as a line of them.
    double line = double(machine::kCacheLine) / sizeOf(dtype);
    double n = std::ceil(double(p.n) / line) * line;
    double work = n * double(p.k) / (double(aligned->n) * double(aligned->k));
    (ofN == machine::kCacheLine ? left : both)[ofK].push_back(*slow / *fast / work);
  }
  if (left.empty() || both.empty())
    return {};
  Json unaligned;
  for (auto [name, ratios] : {std::pair("left", &left), {"both", &both}}) {
    Json points = Json::array();
    for (auto &[bytes, found] : *ratios)
      points.push_back({bytes, rounded(std::max(1.0, quantilesOf(std::move(found)).median))});
    points.push_back({machine::kCacheLine, 1});
    unaligned[name] = {points, "1", kSource};
  }
  return unaligned;
}

void Calibration::applyMatmuls(Json &device) {
  Json tables = Json::array();
  for (DType dtype : {DType::F32, DType::F16, DType::BF16, DType::F8E4M3FN, DType::F8E5M2}) {
    Json points = Json::array();
    // Those with unaligned rows follow from the others, by `unaligned`.
    for (const Probe &p : all(Work::Matmul, !gpu))
      if (auto time = seconds(p); time && p.dtype == dtype && !alignedCounterpart(p))
        points.push_back({p.m, p.n, p.k, rounded(*time * 1e6)});
    std::string name(tandem::toString(dtype));
    lines.push_back(fmt::format("device.matmul: {} points for {}{}", points.size(), name,
                                points.empty() ? ": kept" : ""));
    // A measured table replaces those of the base, but not what was found otherwise.
    std::vector<Json> kept;
    Json unaligned, tile;
    for (Json table : device["matmul"])
      if (auto types = table["dtypes"];
          std::find(types.begin(), types.end(), name) != types.end()) {
        table["dtypes"] = Json::array({name});
        for (auto [field, found] : {std::pair("unaligned", &unaligned), {"tile", &tile}})
          if (table.contains(field)) {
            *found = table[field];
            table.erase(field);
          }
        kept.push_back(table);
      }
    if (!points.empty())
      kept = {{{"dtypes", Json::array({name})},
               {"unit", "us"},
               {"source", kSource},
               {"points", points}}};
    if (Json found = unalignedMatmuls(dtype); !found.is_null()) {
      lines.push_back(fmt::format("device.matmul.unaligned for {}: {}", name, found.dump()));
      unaligned = found;
    }
    if (!kept.empty() && !unaligned.is_null())
      kept.front()["unaligned"] = unaligned;
    if (!kept.empty() && !tile.is_null())
      kept.front()["tile"] = tile;
    for (const Json &table : kept)
      tables.push_back(table);
  }
  device["matmul"] = tables;
}

void Calibration::applyGated(Json &device) {
  Json points = Json::array();
  for (const Probe &p : all(Work::Gated, false))
    if (auto gated = seconds(p), matmul = matmulSeconds(p); gated && matmul)
      points.push_back({p.m, p.n, p.k, rounded(*matmul / *gated)});
  if (!points.empty()) {
    Json &gated = device["gated_matmul"]; // other fields are kept
    gated["source"] = kSource;
    gated["points"] = points;
  } else if (noGatedKernels) {
    device.erase("gated_matmul");
  }
  lines.push_back(fmt::format("device.gated_matmul: {}",
                              !points.empty()  ? fmt::format("{} points", points.size())
                              : noGatedKernels ? "none: the device has no kernels for it"
                                               : "kept"));
}

void Calibration::applyMemory(Json &device) {
  // Bytes read and written, as the model counts them.
  const std::tuple<Work, const char *, double> kinds[] = {
      {Work::Copy, "copy", 2}, {Work::Reduce, "reduce", 3}, {Work::Accumulate, "elementwise", 3}};
  for (auto [work, field, operands] : kinds) {
    double launching = seconds(tiny(work == Work::Reduce ? Work::Accumulate : work)).value_or(0);
    std::vector<std::pair<double, double>> points;
    for (const Probe &p : all(work, !gpu))
      if (auto time = seconds(p)) {
        double bytes = operands * double(p.bytes);
        points.emplace_back(bytes, bytes / std::max(*time - launching, *time * kLeastPart));
      }
    setCurve(device["memory"], field, points, 1e9, "GB/s", "device.memory");
  }
}

void Calibration::applyContention(Json &device) {
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

std::optional<double> Calibration::putSeconds(double bytes) const {
  std::optional<std::pair<double, double>> below;
  for (const Probe &p : all(Work::Put, false)) {
    auto time = seconds(p);
    if (!time)
      continue;
    std::pair<double, double> point(double(p.bytes), *time);
    if (bytes <= point.first && below)
      return below->second +
             (bytes - below->first) / (point.first - below->first) * (point.second - below->second);
    below = point;
  }
  return std::nullopt;
}

std::optional<double> Calibration::matmulSeconds(const Probe &of) const {
  for (const Probe &alone : all(Work::Matmul, false))
    if (std::tie(alone.dtype, alone.m, alone.n, alone.k) == std::tie(of.dtype, of.m, of.n, of.k))
      return seconds(alone);
  return std::nullopt;
}

void Calibration::applyInterference(Json &device) {
  std::vector<double> factors;
  for (const Probe &p : all(Work::Beside, false)) {
    std::optional<double> both = seconds(p), put = putSeconds(double(p.bytes)),
                          matmul = matmulSeconds(p);
    if (!both || !put || !matmul)
      continue;
    lines.push_back(fmt::format("{}: {:.1f} us; alone the matmul {:.1f} us, the put {:.1f} us",
                                p.name(), *both * 1e6, *matmul * 1e6, *put * 1e6));
    // Where the put is over first, the matmul has done put / factor of its work by then.
    double left = *both - *matmul;
    if (*put < .8 * *matmul && left < .5 * *put)
      factors.push_back(1 / (1 - std::max(0.0, left) / *put));
  }
  if (!factors.empty())
    set(device, "copy_interference", quantilesOf(factors).median, 1, "1", "device");
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
  // What a command of a probe has beside itself.
  auto host = [&](Work work) { return hostSeconds(tiny(work), mode); };
  double kernel = host(Work::Accumulate).value_or(0);
  auto part = [](std::optional<double> whole, double less, double count) {
    return whole && *whole - less > kLeast ? std::optional((*whole - less) / count) : std::nullopt;
  };
  const std::pair<const char *, std::optional<double>> issued[] = {
      {"kernel", host(Work::Accumulate)},
      {"matmul", host(Work::Matmul)},
      {"copy", host(Work::Put)},
      {"message", host(Work::Message)},
      {"collective", host(Work::AllGather)},
      // Two kernels, and twice an event recorded and awaited.
      {"event", part(host(Work::Hop), 2 * kernel, 4)},
      {"signal", part(host(Work::Signal), 0, 2)},
      {"wait_signal", part(host(Work::Signal), 0, 2)}};
  for (auto [field, value] : issued)
    set(object["issue"], field, value, 1e-6, "us", path + ".issue");
  // Where the host is what the device waits for, the device's own cost does not show.
  auto device = [&](Work work) -> std::optional<double> {
    auto took = seconds(tiny(work), mode), issue = host(work);
    return took && (graph || !issue || *took > 1.3 * *issue) ? took : std::nullopt;
  };
  std::optional<double> tinyKernel = device(Work::Accumulate);
  set(object["device"], "kernel", tinyKernel, 1e-6, "us", path + ".device");
  // A table's times are those of matmuls in a row, a transport's startup that of messages: they
  // hold it.
  const std::pair<Work, const char *> held[] = {{Work::Matmul, "matmul"},
                                                {Work::Put, "copy"},
                                                {Work::Message, "message"},
                                                {Work::AllGather, "collective"}};
  for (auto [work, field] : held) {
    std::vector<Probe> sizes = all(work, work == Work::Matmul && !gpu);
    if (!sizes.empty() && seconds(sizes.front()))
      set(object["device"], field, 0.0, 1e-6, "us", path + ".device");
  }
  auto hop = device(Work::Hop);
  set(object["device"], "event", tinyKernel ? part(hop, 2 * *tinyKernel, 2) : std::nullopt, 1e-6,
      "us", path + ".device");
  // Which of the two it is cannot be told: as in the base.
  auto there = device(Work::Signal);
  double signal = timeOf(object["device"]["signal"]),
         wait = timeOf(object["device"]["wait_signal"]);
  double share = signal + wait > 0 ? signal / (signal + wait) : .5;
  set(object["device"], "signal", part(there, 0, 1 / share), 1e-6, "us", path + ".device");
  set(object["device"], "wait_signal", part(there, 0, 1 / (1 - share)), 1e-6, "us",
      path + ".device");
  applyRun(object, mode, path);
  set(object, "engine_start", engineStartSeconds(object, mode), 1e-6, "us", path);
  if (graph) // else the host may be what a put waits for
    set(object, "engine_change", engineChangeSeconds(object), 1e-6, "us", path);
}

/// What a put, a signal to each side and their waits take beyond what is known of each: the put
/// waits for the start of the run alone.
std::optional<double> Calibration::engineStartSeconds(const Json &launch, Mode mode) const {
  std::vector<double> rest;
  for (const Probe &p : all(Work::Put, false)) {
    const Figure *one = figure(p.once(), mode);
    auto took = seconds(p);
    if (one && took && *took <= kLongestPut)
      rest.push_back(
          quantilesOf(one->seconds).median - *took -
          runSeconds(launch["run"], quantilesOf(one->seconds).median) -
          timeOf(launch["issue"]["copy"]) -
          2 * (timeOf(launch["device"]["signal"]) + timeOf(launch["device"]["wait_signal"])));
  }
  if (rest.empty())
    return std::nullopt;
  return std::max(0.0, quantilesOf(std::move(rest)).median);
}

/// What a run with a put that waits for another stream's matmul takes beyond both, a hop there and
/// back, and two signals and waits.
std::optional<double> Calibration::engineChangeSeconds(const Json &launch) {
  std::vector<double> rest;
  auto device = [&](const char *field) { return timeOf(launch["device"][field]); };
  for (const Probe &p : all(Work::Behind, false)) {
    const Figure *both = figure(p.once(), Mode::Graph);
    auto put = putSeconds(double(p.bytes)), matmul = matmulSeconds(p);
    if (!both || !put || !matmul)
      continue;
    double time = quantilesOf(both->seconds).median;
    rest.push_back(time - *put - *matmul - runSeconds(launch["run"], time) -
                   timeOf(launch["issue"]["matmul"]) - 2 * device("event") -
                   2 * (device("signal") + device("wait_signal")));
    lines.push_back(fmt::format("{}: {:.1f} us; alone the put {:.1f} us, the matmul {:.1f} us",
                                p.once().name(), time * 1e6, *put * 1e6, *matmul * 1e6));
  }
  if (rest.empty())
    return std::nullopt;
  return std::max(0.0, quantilesOf(std::move(rest)).median);
}

void Calibration::applyRun(Json &launch, Mode mode, const std::string &path) {
  Json points = Json::array();
  double longest = 0;
  for (size_t range = 0; range + 1 < std::size(kRunRanges); ++range) {
    bool first = range == 0;
    std::vector<double> times, rest;
    for (Work work : {Work::Matmul, Work::Copy, Work::Reduce})
      for (const Probe &p : all(work, !gpu)) {
        const Figure *one = figure(p.once(), mode);
        auto took = seconds(p);
        if (!one || !took || *took < kRunRanges[range] || *took >= kRunRanges[range + 1] ||
            (work != Work::Matmul && !first))
          continue;
        double issue = timeOf(launch["issue"][work == Work::Matmul ? "matmul" : "kernel"]);
        times.push_back(issue + *took);
        rest.push_back(quantilesOf(one->seconds).median - issue - *took);
      }
    // Beside others on the same cores, long ones vary by more than a run.
    if (first ? rest.empty() : !gpu || rest.size() < kLeastInRange)
      continue;
    // Longer commands never make a run shorter.
    longest = std::max(longest, quantilesOf(rest).median);
    points.push_back({rounded(quantilesOf(times).median * 1e6), rounded(longest * 1e6)});
  }
  if (points.empty()) {
    lines.push_back(path + ".run: kept");
    return;
  }
  launch["run"] = {points.size() > 1 ? points : points[0][1], "us", kSource};
  lines.push_back(fmt::format("{}.run: {} us", path, launch["run"][0].dump()));
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
    // The smallest one that could be told from noise.
    std::optional<double> least = seconds(tiny(work));
    if (!sizes.empty())
      if (auto first = seconds(sizes.front()))
        least = std::min(least.value_or(*first), *first);
    std::vector<std::pair<double, double>> mine;
    std::optional<double> late;
    if (transport["mover"] == "sm")
      late = applyStartups(transport, sizes, path);
    if (late)
      mine.emplace_back(double(sizes.back().bytes), together * *late);
    else
      set(transport, "startup", least, 1e-6, "us", path);
    for (size_t i = sizes.empty() ? 0 : 1; !late && least && i < sizes.size(); ++i)
      if (auto time = seconds(sizes[i]))
        mine.emplace_back(double(sizes[i].bytes), together * double(sizes[i].bytes) /
                                                      std::max(*time - *least, *time * kLeastPart));
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
  // What a small one takes beyond its startup is noise: none is quicker than the quickest larger
  // one.
  double most = rates.empty() ? 0 : rates.back().second;
  for (auto rate = rates.rbegin(); rate != rates.rend(); ++rate)
    rate->second = std::min(rate->second, most);
  setCurve(file["links"]["node"], "bandwidth", rates, 1e9, "GB/s", "links.node");
  if (!rates.empty())
    set(file["links"]["node"], "latency", 0.0, 1e-6, "us", "links.node");
}

void Calibration::applyRows(Json &file) {
  std::vector<Probe> probes = all(Work::Rows, false);
  std::vector<std::pair<double, double>> shares;
  for (const Probe &put : all(Work::Put, false))
    if (auto whole = seconds(put); whole && put.bytes == kRowsBytes)
      for (const Probe &probe : probes)
        if (auto time = seconds(probe)) {
          uint64_t moved = kRowsBytes - kRowsBytes % probe.bytes;
          double share = *whole * double(moved) / double(kRowsBytes) / *time;
          shares.emplace_back(double(probe.bytes), share < kWholeShare ? share : 1.);
        }
  if (shares.empty())
    return;
  Json &transport = file["transports"]["one_sided"];
  transport.erase("rows");
  if (std::any_of(shares.begin(), shares.end(), [](const auto &point) { return point.second < 1; }))
    setCurve(transport, "rows", shares, 1, "1", "transports.one_sided");
}

/// SMs move a message in rounds, and reach the link's rate late in it: the rate, which is returned,
/// is that between the two largest messages, and `startup` is the rest of each size's time. None,
/// if that hardly grows, or if the rate must be noise.
std::optional<double> Calibration::applyStartups(Json &transport, const std::vector<Probe> &sizes,
                                                 const std::string &path) {
  std::vector<std::pair<double, double>> times;
  for (const Probe &probe : sizes)
    if (auto time = seconds(probe))
      times.emplace_back(double(probe.bytes), *time);
  if (times.size() < 3)
    return std::nullopt;
  auto [bytes, last] = times.back();
  auto [fewer, before] = times[times.size() - 2];
  double rate = (bytes - fewer) / (last - before);
  if (last <= before || rate > kMostLateRate * bytes / last)
    return std::nullopt;
  for (auto &[size, time] : times)
    time = std::max(0.0, time - size / rate);
  if (times.back().second < kGrowth * times.front().second)
    return std::nullopt;
  setCurve(transport, "startup", times, 1e-6, "us", path);
  return rate;
}

void Calibration::applyExchange(Json &file) {
  if (noExchangeKernels) {
    file["transports"].erase("fused_exchange");
    lines.push_back("transports.fused_exchange: none: the device has no kernels for it");
    return;
  }
  const Json &launch =
      file["launch"].contains("graph") ? file["launch"]["graph"] : file["launch"]["streams"];
  auto larger = [&](Work work) -> std::optional<std::pair<double, double>> {
    for (const Probe &p : all(work, false))
      if (auto time = seconds(p))
        return std::pair(double(p.bytes), *time);
    return std::nullopt;
  };
  std::optional<double> one = seconds(tiny(Work::Exchange)),
                        twice = seconds(tiny(Work::ExchangeTwice)),
                        blocks = seconds(tiny(Work::ExchangeBlocks));
  std::optional<double> startup, signal, count, stores, memory;
  if (one && twice) {
    double latency = timeOf(file["links"]["node"]["latency"]), round = std::max(0., *twice - *one);
    signal = std::max(0., round - latency);
    startup = std::max(0., *one - round - timeOf(launch["device"]["kernel"]));
  }
  if (one && blocks)
    count = std::max(0., *blocks - *one);
  auto rate = [&](Work work, double operands) -> std::optional<double> {
    auto found = larger(work);
    if (!found || !one)
      return std::nullopt;
    auto [bytes, time] = *found;
    return operands * bytes / std::max(time - *one, time * kLeastPart);
  };
  stores = rate(Work::Exchange, 1);
  memory = rate(Work::ExchangeReduce, 3);
  // A machine without it gets it only whole.
  Json &transports = file["transports"];
  if (!transports.contains("fused_exchange") && !(startup && signal)) {
    lines.push_back("transports.fused_exchange: kept");
    return;
  }
  Json &exchange = transports["fused_exchange"];
  const std::string path = "transports.fused_exchange";
  set(exchange, "startup", startup, 1e-6, "us", path);
  set(exchange, "signal", signal, 1e-6, "us", path);
  set(exchange, "count", count, 1e-6, "us", path);
  set(exchange, "block_stores", stores, 1e9, "GB/s", path);
  set(exchange, "block_memory", memory, 1e9, "GB/s", path);
}

std::optional<double> Calibration::stepSeconds() const {
  auto gather = seconds(tiny(Work::AllGather)), reduce = seconds(tiny(Work::AllReduce));
  if (!gather || !reduce)
    return std::nullopt;
  auto stepsOf = [&](CollectiveKind kind) {
    program::CollectiveRoute route = program::collectiveRoute(kind, ranks, 0);
    return route.treeSteps < 0 ? route.ringSteps : std::min(route.ringSteps, route.treeSteps);
  };
  double steps = stepsOf(CollectiveKind::AllGather),
         more = stepsOf(CollectiveKind::AllReduce) - steps;
  if (more <= 0 || *reduce <= *gather)
    return std::nullopt;
  return std::min((*reduce - *gather) / more, *gather / steps);
}

void Calibration::applyCollectives(Json &file) {
  Json &collectives = file["transports"]["collectives"];
  std::vector<Probe> sizes = all(Work::AllGather, false);
  auto least = seconds(tiny(Work::AllGather)), step = stepSeconds();
  double steps = double(ranks - 1);
  // Where all-reduces do not tell, half of it is the steps', if the base has any.
  if (!step && least && collectives["step"][0].get<double>() > 0)
    step = *least / 2 / steps;
  set(collectives, "startup", least ? std::optional(*least - step.value_or(0) * steps) : least,
      1e-6, "us", "transports.collectives");
  if (step)
    set(collectives, "step", step, 1e-6, "us", "transports.collectives");
  std::vector<std::pair<double, double>> points;
  for (const Probe &p : sizes)
    if (auto time = seconds(p); time && least) {
      double through = double(ranks - 1) * double(p.bytes);
      // There is one curve for all kinds: between those two.
      for (const Probe &other : all(Work::ReduceScatter, false))
        if (other.bytes == p.bytes)
          time = (*time + seconds(other).value_or(*time)) / 2;
      points.emplace_back(through, through / std::max(*time - *least, *time * kLeastPart));
    }
  setCurve(collectives, "bandwidth", points, 1e9, "GB/s", "transports.collectives");
  std::vector<std::pair<double, double>> rates;
  for (const Probe &p : all(Work::AllReduce, false))
    if (auto time = seconds(p); time && points.size() > 1) {
      program::CollectiveRoute route =
          program::collectiveRoute(CollectiveKind::AllReduce, ranks, double(p.bytes));
      // The model takes the quicker one of a ring and a tree. It takes as long as this one did if
      // the rate is the lesser one of those by which either does.
      std::optional<std::pair<double, double>> least;
      auto consider = [&](double steps, double through) {
        double left = *time - timeOf(collectives["startup"]) - steps * timeOf(collectives["step"]);
        double rate = through / std::max(left, *time * kLeastPart);
        if (!least || rate < least->second)
          least = {through, rate};
      };
      consider(route.ringSteps, route.ringBytes);
      if (route.treeSteps >= 0)
        consider(route.treeSteps, route.treeBytes);
      rates.emplace_back(least->first, least->second / machine::Curve(points).at(least->first));
    }
  if (!rates.empty())
    setCurve(collectives, "all_reduce", rates, 1, "1", "transports.collectives");
}

Expected<std::string> Calibration::apply(const std::string &base, const std::string &name,
                                         const std::string &how) {
  lines.clear();
  // The base has been read as a machine: it has all the fields.
  Json file = Json::parse(base, nullptr, false);
  if (file.is_discarded())
    return Status(Code::InvalidArgument, "the base file is not JSON");
  file["name"] = name;
  file["sources"][kSource] = {{"kind", "measured"}, {"text", how}};
  applyMatmuls(file["device"]);
  applyGated(file["device"]);
  applyMemory(file["device"]);
  applyContention(file["device"]);
  applyInterference(file["device"]);
  applyLaunching(file["launch"], Mode::Direct);
  if (std::any_of(figures.begin(), figures.end(),
                  [](const auto &entry) { return entry.first.second == Mode::Graph; }))
    applyLaunching(file["launch"], Mode::Graph);
  applyMessages(file);
  applyRows(file);
  applyExchange(file);
  applyCollectives(file);
  std::string text = file.dump(2) + "\n";
  TANDEM_RETURN_IF_ERROR(machine::Machine::parse(text, name).status());
  return text;
}
