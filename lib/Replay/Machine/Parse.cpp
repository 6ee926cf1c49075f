//===- Parse.cpp - machine files ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/FusedExchange.h"
#include "tandem/Replay/Machine.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

namespace tandem::machine {

namespace {

using nlohmann::json;

enum class Unit : uint8_t { Time, Bandwidth, Rate, Count, Bytes };

struct UnitName {
  const char *text;
  Unit unit;
  double factor;
};
constexpr UnitName kUnits[] = {
    {"s", Unit::Time, 1},         {"ms", Unit::Time, 1e-3},       {"us", Unit::Time, 1e-6},
    {"ns", Unit::Time, 1e-9},     {"GB/s", Unit::Bandwidth, 1e9}, {"TB/s", Unit::Bandwidth, 1e12},
    {"GFLOP/s", Unit::Rate, 1e9}, {"TFLOP/s", Unit::Rate, 1e12},  {"1", Unit::Count, 1},
    {"B", Unit::Bytes, 1},        {"KiB", Unit::Bytes, 1024},
};

/// "us" out of an array, shortened where it is long.
std::string shown(const json &value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60)
    text.replace(57, std::string::npos, "...");
  return text;
}

/// An error at a field, which ends the parse.
struct FieldError {
  std::string path, what;
};

[[noreturn]] void fail(const std::string &path, const std::string &what) {
  throw FieldError{path, what};
}

struct Scale {
  Unit unit = Unit::Count;
  double factor = 0; ///< to SI
};

bool isText(const json &value, std::string_view text) {
  return value.is_string() && value.get_ref<const std::string &>() == text;
}

/// The value's index in `choices`.
unsigned choiceOf(const json &value, const std::string &path,
                  const std::vector<const char *> &choices) {
  for (unsigned i = 0; i < choices.size(); ++i)
    if (isText(value, choices[i]))
      return i;
  fail(path, fmt::format("expected one of {}, found {}", fmt::join(choices, ", "), shown(value)));
}

/// So many thread blocks fill a link, where nothing else is known: 8 SMs of an H200 do.
constexpr double kBlocksOfLink = 8;

/// Of gated matmuls: outside, a number is a slip.
constexpr double kLeastEfficiency = 0.01, kMostEfficiency = 2;

/// Four positive numbers.
std::array<double, 4> rowOf(const json &value, const std::string &path) {
  std::array<double, 4> result{};
  bool good = value.is_array() && value.size() == result.size();
  for (size_t i = 0; good && i < result.size(); ++i) {
    good = value[i].is_number() && value[i].get<double>() > 0 && value[i].get<double>() < 1e15;
    if (good)
      result[i] = value[i].get<double>();
  }
  if (!good)
    fail(path, fmt::format("expected [m, n, k, value], all above 0, found {}", shown(value)));
  return result;
}

/// An object of a machine file. A number is `[value, unit, source]`; numbers are counted in the
/// machine, by their sources.
class Object {
public:
  /// All fields of `value` must be in `known`.
  Object(Machine &machine, const json &value, std::string path,
         const std::vector<const char *> &known)
      : path(std::move(path)), machine(machine), value(value) {
    if (!value.is_object())
      fail(this->path, fmt::format("expected an object, found {}", shown(value)));
    for (const auto &item : value.items())
      if (std::find(known.begin(), known.end(), item.key()) == known.end())
        fail(at(item.key()),
             fmt::format("unknown field, expected one of {}", fmt::join(known, ", ")));
  }

  bool has(const char *field) const { return value.contains(field); }

  const json &member(const char *field) const {
    if (!has(field))
      fail(at(field), "missing");
    return value.at(field);
  }

  std::string text(const char *field) const {
    const json &found = member(field);
    if (!found.is_string())
      fail(at(field), fmt::format("expected a text, found {}", shown(found)));
    return found.get<std::string>();
  }

  unsigned choice(const char *field, const std::vector<const char *> &choices) const {
    return choiceOf(member(field), at(field), choices);
  }

  /// An integer.
  uint32_t count(const char *field, uint32_t least, uint32_t most) const {
    const json &found = member(field);
    if (!found.is_number_unsigned() || found.get<uint64_t>() < least ||
        found.get<uint64_t>() > most)
      fail(at(field), fmt::format("expected a whole number from {} to {}, found {}", least, most,
                                  shown(found)));
    return found.get<uint32_t>();
  }

  /// In SI units.
  double number(const char *field, Unit unit, double least, double most) const {
    const json &found = measured(field);
    Scale scale = scaleOf(found[1], at(field), {unit});
    source(found[2], at(field));
    return checked(found[0], at(field), scale, least, most);
  }
  /// The same of a field that may be left out.
  void number(const char *field, Unit unit, double least, double most, double &result) const {
    if (has(field))
      result = number(field, unit, least, most);
  }

  /// `argument`: what the first number of a point is.
  Curve curve(const char *field, Unit unit, double least, double most,
              const char *argument = "bytes") const {
    const json &found = measured(field);
    if (!found[0].is_array())
      return Curve(number(field, unit, least, most));
    Scale scale = scaleOf(found[1], at(field), {unit});
    source(found[2], at(field));
    std::vector<std::pair<double, double>> points;
    for (const json &point : found[0]) {
      bool good = point.is_array() && point.size() == 2 && point[0].is_number() &&
                  point[0].get<double>() >= 0 &&
                  (points.empty() || point[0].get<double>() > points.back().first);
      if (!good)
        fail(at(field), fmt::format("expected [{0}, value] with {0} ascending, found {1}", argument,
                                    shown(point)));
      points.emplace_back(point[0].get<double>(), checked(point[1], at(field), scale, least, most));
    }
    if (points.empty())
      fail(at(field), "expected at least one point");
    return Curve(std::move(points));
  }

  Scale unit(const char *field, const std::vector<Unit> &units) const {
    return scaleOf(member(field), at(field), units);
  }
  /// The name of a source; counts it.
  void source(const char *field) const { source(member(field), at(field)); }

  Object object(const char *field, const std::vector<const char *> &known) const {
    return {machine, member(field), at(field), known};
  }

  /// An object of any fields.
  const json &anyObject(const char *field) const {
    const json &found = member(field);
    if (!found.is_object())
      fail(at(field), fmt::format("expected an object, found {}", shown(found)));
    return found;
  }

  const json &list(const char *field) const {
    const json &found = member(field);
    if (!found.is_array())
      fail(at(field), fmt::format("expected a list, found {}", shown(found)));
    return found;
  }

  const std::string path; ///< "" for the root

private:
  std::string at(const std::string &field) const {
    return path.empty() ? field : path + "." + field;
  }

  const json &measured(const char *field) const {
    const json &found = member(field);
    if (!found.is_array() || found.size() != 3)
      fail(at(field), fmt::format("expected [value, unit, source], found {}", shown(found)));
    return found;
  }

  static Scale scaleOf(const json &value, const std::string &path, const std::vector<Unit> &units) {
    std::vector<const char *> accepted;
    for (const UnitName &name : kUnits)
      if (std::find(units.begin(), units.end(), name.unit) != units.end()) {
        if (isText(value, name.text))
          return {name.unit, name.factor};
        accepted.push_back(name.text);
      }
    fail(path, fmt::format("expected one of the units {}, found {}", fmt::join(accepted, ", "),
                           shown(value)));
  }

  void source(const json &value, const std::string &path) const {
    for (const Source &source : machine.sources)
      if (isText(value, source.name)) {
        ++machine.numbersBySource[source.kind];
        return;
      }
    fail(path, fmt::format("expected the name of a source, found {}", shown(value)));
  }

  /// Checks a number against its bounds, which are in SI units.
  static double checked(const json &value, const std::string &path, const Scale &scale,
                        double least, double most) {
    double result = value.is_number() ? value.get<double>() * scale.factor : NAN;
    if (!(result >= least && result <= most))
      fail(path, fmt::format("expected a number from {} to {}, found {}", least / scale.factor,
                             most / scale.factor, shown(value)));
    return result;
  }

  Machine &machine;
  const json &value;
};

/// Throws FieldError.
class Parser {
public:
  explicit Parser(Machine &machine) : machine(machine) {}

  void run(const json &file) {
    Object root(machine, file, "",
                {"tandem_machine", "name", "about", "gpu", "sources", "nodes", "devices_per_node",
                 "device", "launch", "links", "transports", "selection"});
    uint32_t version = root.count("tandem_machine", 0, 1 << 20);
    if (version != kVersion)
      fail("tandem_machine", fmt::format("expected version {}, found {}", kVersion, version));
    machine.name = root.text("name");
    machine.about = root.text("about");
    machine.gpu = root.has("gpu") ? root.text("gpu") : "";
    sources(root);
    machine.nodes = countOrAny(root, "nodes");
    machine.devicesPerNode = countOrAny(root, "devices_per_node");
    if (machine.devicesPerNode == 0 && machine.nodes != 1)
      fail("devices_per_node", "\"any\" needs nodes = 1");
    device(root.object("device", {"sms", "copy_engines", "copy_interference", "sm_interference",
                                  "least_gain_beside_sms", "cores", "contention", "gated_matmul",
                                  "memory", "matmul"}));
    launching(root);
    links(root);
    transports(root);
    if (root.has("selection"))
      selection(root);
  }

private:
  static uint32_t countOrAny(const Object &object, const char *field) {
    return isText(object.member(field), "any") ? 0 : object.count(field, 1, 1 << 20);
  }

  void sources(const Object &root) {
    for (auto &[name, value] : root.anyObject("sources").items()) {
      Object object(machine, value, "sources." + name, {"kind", "text"});
      Source source;
      source.name = name;
      source.kind =
          static_cast<Source::Kind>(object.choice("kind", {"measured", "published", "estimate"}));
      source.text = object.text("text");
      machine.sources.push_back(std::move(source));
    }
  }

  void device(const Object &object) {
    machine.sms = object.number("sms", Unit::Count, 1, 1e6);
    machine.copyEngines = object.number("copy_engines", Unit::Count, 1, 64);
    machine.copyInterference = object.number("copy_interference", Unit::Count, 1, 100);
    object.number("sm_interference", Unit::Count, 1, 100, machine.smInterference);
    object.number("least_gain_beside_sms", Unit::Count, 0, 1, machine.margins.gainBesideSms);
    object.number("cores", Unit::Count, 1, 1e6, machine.cores);
    if (object.has("contention"))
      contention(object);
    if (object.has("gated_matmul"))
      gatedMatmul(object.object("gated_matmul", {"source", "points", "epilogue_push"}));
    Object memory = object.object("memory", {"copy", "reduce", "elementwise"});
    const char *names[] = {"copy", "reduce", "elementwise"};
    for (size_t i = 0; i < machine.memory.size(); ++i)
      machine.memory[i] = memory.curve(names[i], Unit::Bandwidth, 1, 1e18);
    matmul(object);
  }

  void contention(const Object &device) {
    Object object = device.object("contention", {"matmul", "memory"});
    machine.contention.matmul = object.number("matmul", Unit::Count, 1, 100);
    machine.contention.memory = object.number("memory", Unit::Count, 1, 100);
    if (machine.cores < 2)
      fail("device.contention", "needs device.cores of 2 or more");
  }

  void matmul(const Object &device) {
    const json &tables = device.member("matmul");
    if (!tables.is_structured())
      fail("device.matmul",
           fmt::format("expected tables by name, or a list, found {}", shown(tables)));
    std::set<std::pair<std::string_view, DType>> once; // fields that only one table of a type has
    for (const auto &[name, value] : tables.items()) {
      Object table(machine, value,
                   "device.matmul" + (tables.is_array() ? "[" + name + "]" : "." + name),
                   {"dtypes", "unit", "source", "points", "unaligned", "tile"});
      Scale scale = table.unit("unit", {Unit::Time, Unit::Rate});
      table.source("source");
      std::vector<DType> dtypes;
      for (const json &dtype : table.list("dtypes")) {
        static constexpr DType known[] = {DType::F32, DType::F16, DType::BF16, DType::F8E4M3FN,
                                          DType::F8E5M2};
        dtypes.push_back(known[choiceOf(dtype, table.path + ".dtypes",
                                        {"f32", "f16", "bf16", "f8E4M3FN", "f8E5M2"})]);
      }
      size_t number = 0;
      for (const json &point : table.list("points")) {
        std::array<double, 4> values =
            rowOf(point, fmt::format("{}.points[{}]", table.path, number++));
        MatmulPoint p{values[0], values[1], values[2], 0};
        double last = values[3] * scale.factor;
        p.seconds = scale.unit == Unit::Time ? last : 2 * p.m * p.n * p.k / last;
        for (DType dtype : dtypes)
          machine.matmuls[static_cast<size_t>(dtype)].push_back(p);
      }
      for (const char *field : {"tile", "unaligned"})
        for (DType dtype : dtypes)
          if (table.has(field) && !once.emplace(field, dtype).second)
            fail(table.path + "." + field,
                 fmt::format("another table has that of {}", tandem::toString(dtype)));
      if (table.has("tile")) {
        double tile = table.number("tile", Unit::Count, 1, 1024);
        if (tile != std::floor(tile))
          fail(table.path + ".tile", fmt::format("expected a whole number, found {}", tile));
        for (DType dtype : dtypes)
          machine.matmulTile[static_cast<size_t>(dtype)] = tile;
      }
      if (table.has("unaligned")) {
        Object object = table.object("unaligned", {"left", "both"});
        Unaligned unaligned{object.curve("left", Unit::Count, 1, 100),
                            object.curve("both", Unit::Count, 1, 100)};
        for (DType dtype : dtypes)
          machine.unaligned[static_cast<size_t>(dtype)] = unaligned;
      }
    }
    for (DType dtype : {DType::F32, DType::F16, DType::BF16})
      if (machine.matmuls[static_cast<size_t>(dtype)].empty())
        fail("device.matmul", fmt::format("no point for {}", tandem::toString(dtype)));
  }

  void gatedMatmul(const Object &object) {
    object.source("source");
    for (const json &point : object.list("points")) {
      std::string path = fmt::format("{}.points[{}]", object.path, machine.gatedMatmuls.size());
      auto [m, n, k, efficiency] = rowOf(point, path);
      if (efficiency < kLeastEfficiency || efficiency > kMostEfficiency)
        fail(path, fmt::format("expected an efficiency from {} to {}, found {}", kLeastEfficiency,
                               kMostEfficiency, efficiency));
      machine.gatedMatmuls.push_back({m, n, k, efficiency});
    }
    if (machine.gatedMatmuls.empty())
      fail(object.path + ".points", "expected at least one point");
    object.number("epilogue_push", Unit::Count, 0, 1, machine.epiloguePush);
  }

  static Launching oneLaunching(const Object &object) {
    const std::vector<const char *> costs = {"kernel",     "matmul", "copy",   "message",
                                             "collective", "event",  "signal", "wait_signal"};
    Launching launching;
    Object issue = object.object("issue", costs), device = object.object("device", costs);
    for (size_t i = 0; i < kNumCosts; ++i) {
      launching.issue[i] = issue.number(costs[i], Unit::Time, 0, 1);
      launching.device[i] = device.number(costs[i], Unit::Time, 0, 1);
    }
    launching.run = object.curve("run", Unit::Time, 0, 1, "us");
    object.number("engine_start", Unit::Time, 0, 1, launching.engineStart);
    object.number("engine_change", Unit::Time, 0, 1, launching.engineChange);
    return launching;
  }

  void launching(const Object &root) {
    Object object = root.object("launch", {"streams", "graph"});
    const std::vector<const char *> known = {"issue", "device", "run", "engine_start",
                                             "engine_change"};
    machine.streams = oneLaunching(object.object("streams", known));
    machine.hasGraph = object.has("graph");
    if (machine.hasGraph)
      machine.graph = oneLaunching(object.object("graph", known));
  }

  static LinkClass link(const Object &object) {
    LinkClass link;
    link.topology = static_cast<Topology>(object.choice("topology", {"switch", "mesh", "shared"}));
    link.latency = object.number("latency", Unit::Time, 0, 10);
    link.bandwidth = object.curve("bandwidth", Unit::Bandwidth, 1, 1e18);
    object.number("sharing", Unit::Count, 1e-3, 1, link.sharing);
    object.number("core", Unit::Bandwidth, 1, 1e18, link.core);
    return link;
  }

  void links(const Object &root) {
    const std::vector<const char *> known = {"topology", "latency", "bandwidth", "sharing", "core"};
    Object object = root.object("links", {"node", "network"});
    machine.node = link(object.object("node", known));
    machine.hasNetwork = object.has("network");
    if (machine.hasNetwork)
      machine.network = link(object.object("network", known));
    else if (machine.nodes != 1)
      fail("links.network", "expected this field: there is more than one node");
  }

  static Transport transport(const Object &object) {
    Transport transport;
    transport.mover = static_cast<Mover>(object.choice("mover", {"copy", "sm", "host"}));
    transport.sms = transport.mover == Mover::Sm ? object.number("sms", Unit::Count, 0, 1e6) : 0;
    transport.startup = object.curve("startup", Unit::Time, 0, 10);
    object.number("bandwidth", Unit::Bandwidth, 1, 1e18, transport.bandwidth);
    return transport;
  }

  void transports(const Object &root) {
    Object object =
        root.object("transports", {"two_sided", "one_sided", "collectives", "fused_exchange"});
    const std::vector<const char *> known = {"mover", "sms", "startup", "bandwidth"};
    machine.twoSided = transport(object.object("two_sided", known));
    Object oneSided =
        object.object("one_sided", {"mover", "sms", "startup", "bandwidth", "rows", "drift"});
    machine.oneSided = transport(oneSided);
    if (oneSided.has("rows"))
      machine.oneSided.rows = oneSided.curve("rows", Unit::Count, 0.01, 1);
    if (oneSided.has("drift"))
      machine.oneSided.drift = oneSided.number("drift", Unit::Count, 0.01, 1);
    Object c = object.object("collectives", {"mover", "sms", "startup", "step", "network_step",
                                             "bandwidth", "all_reduce", "network_bandwidth"});
    Collectives &out = machine.collectives;
    out.mover = static_cast<Mover>(c.choice("mover", {"copy", "sm", "host"}));
    out.sms = out.mover == Mover::Sm ? c.number("sms", Unit::Count, 0, 1e6) : 0;
    out.startup = c.number("startup", Unit::Time, 0, 10);
    out.step = c.number("step", Unit::Time, 0, 10);
    out.bandwidth = c.curve("bandwidth", Unit::Bandwidth, 1, 1e18);
    if (c.has("all_reduce"))
      out.allReduce = c.curve("all_reduce", Unit::Count, 0.01, 100);
    if (machine.hasNetwork) {
      out.networkStep = c.number("network_step", Unit::Time, 0, 10);
      out.networkBandwidth = c.number("network_bandwidth", Unit::Bandwidth, 1, 1e18);
    }
    if (object.has("fused_exchange"))
      fusedExchange(object.object("fused_exchange",
                                  {"startup", "signal", "count", "block_stores", "block_memory",
                                   "beside_compute", "block_signal", "ll_signal", "ll_reads"}));
  }

  void fusedExchange(const Object &object) {
    ExchangeKernel &kernel = machine.exchange;
    machine.hasExchangeKernel = true;
    kernel.startup = object.number("startup", Unit::Time, 0, 1);
    kernel.signal = object.number("signal", Unit::Time, 0, 1);
    object.number("count", Unit::Time, 0, 1, kernel.count);
    kernel.stores = machine.node.bandwidth.most() / kBlocksOfLink;
    object.number("block_stores", Unit::Bandwidth, 1, 1e18, kernel.stores);
    kernel.memory = machine.memory[static_cast<size_t>(MemoryWork::Reduce)].most() / machine.sms;
    object.number("block_memory", Unit::Bandwidth, 1, 1e18, kernel.memory);
    object.number("beside_compute", Unit::Count, 0, 1, kernel.besideCompute);
    object.number("block_signal", Unit::Time, 0, 1, kernel.blockSignal);
    object.number("ll_signal", Unit::Time, 0, 1, kernel.llSignal);
    object.number("ll_reads", Unit::Bandwidth, 1, 1e18, kernel.llReads);
  }

  void selection(const Object &root) {
    program::Margins &margins = machine.margins;
    std::vector<const char *> known = {"gain",           "gain_of_copies", "gain_of_stores",
                                       "tolerance",      "time",           "time_of_gathers",
                                       "time_of_kernel", "time_of_split"};
    margins.thresholds.forEach([&](const char *name, int64_t &, bool) { known.push_back(name); });
    Object object = root.object("selection", known);
    margins.thresholds.forEach([&](const char *name, int64_t &value, bool isBytes) {
      if (object.has(name))
        value = std::llround(object.number(name, isBytes ? Unit::Bytes : Unit::Count, 1,
                                           isBytes ? 1e12 : program::kMostExchangeBlocks));
    });
    object.number("gain", Unit::Count, 0, 1, margins.gain);
    object.number("gain_of_copies", Unit::Count, 0, 1, margins.gainOfCopies);
    object.number("gain_of_stores", Unit::Count, 0, 1, margins.gainOfStores);
    object.number("tolerance", Unit::Count, 0, 1, margins.tolerance);
    object.number("time", Unit::Time, 0, 1, margins.seconds);
    object.number("time_of_gathers", Unit::Time, 0, 1, margins.secondsOfGathers);
    object.number("time_of_kernel", Unit::Time, 0, 1, margins.secondsOfKernel);
    object.number("time_of_split", Unit::Time, 0, 1, margins.secondsOfSplit);
  }

  Machine &machine;
};

} // namespace

/// `read` returns the JSON.
template <typename Read>
static Expected<Machine> parseWith(Read &&read, const std::string &source) {
  auto wrong = [&](const std::string &what) {
    return Status(Code::InvalidArgument, fmt::format("{}: {}", source, what));
  };
  try {
    Machine machine;
    Parser(machine).run(read());
    return machine;
  } catch (const json::exception &error) { // also for numbers out of range
    return wrong(error.what());
  } catch (const FieldError &error) {
    return wrong(error.path.empty() ? error.what : error.path + ": " + error.what);
  }
}

Expected<Machine> Machine::parse(std::string_view text, const std::string &source) {
  return parseWith([&] { return json::parse(text); }, source);
}

Expected<Machine> Machine::load(const std::string &path) {
  TANDEM_ASSIGN_OR_RETURN(std::vector<MachineFile> files, readMachine(path));
  auto merge = [&] {
    json whole = json::parse(files.back().text);
    for (auto file = files.rbegin() + 1; file != files.rend(); ++file) {
      json part = json::parse(file->text);
      part.erase("extends");
      whole.merge_patch(part);
    }
    return whole;
  };
  Expected<Machine> machine = parseWith(merge, path);
  if (!machine && files.size() > 1) // a mistake of what it extends is reported there
    if (Expected<Machine> base = load(files[1].path); !base)
      return base.status().withPrefix(path + ": extends: ");
  return machine;
}

} // namespace tandem::machine
