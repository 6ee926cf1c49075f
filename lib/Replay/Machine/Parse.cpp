//===- Parse.cpp - machine files ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

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

namespace tandem::machine {

namespace {

using nlohmann::json;

enum class Unit : uint8_t { Time, Bandwidth, Rate, Count };

struct UnitName {
  const char *text;
  Unit unit;
  double factor;
};
constexpr UnitName kUnits[] = {
    {"s", Unit::Time, 1},         {"ms", Unit::Time, 1e-3},       {"us", Unit::Time, 1e-6},
    {"ns", Unit::Time, 1e-9},     {"GB/s", Unit::Bandwidth, 1e9}, {"TB/s", Unit::Bandwidth, 1e12},
    {"GFLOP/s", Unit::Rate, 1e9}, {"TFLOP/s", Unit::Rate, 1e12},  {"1", Unit::Count, 1},
};

/// "us" out of an array, shortened where it is long.
std::string shown(const json &value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60)
    text.replace(57, std::string::npos, "...");
  return text;
}

const json kNothing;
const json kNoObject = json::object();
const json kNoList = json::array();

/// Reads fields of a machine file. Keeps the first error; later reads give zero, so a parser checks
/// once at the end. A number is `[value, unit, source]`.
class Fields {
public:
  struct Scale {
    Unit unit = Unit::Count;
    double factor = 0; ///< to SI
  };

  class Object {
  public:
    Object(Fields &fields, const json *value, std::string path)
        : path(std::move(path)), fields(fields), value(value) {}

    bool has(const char *field) const { return value && value->contains(field); }

    bool isText(const char *field, const char *text) {
      const json &found = member(field);
      return found.is_string() && found.get_ref<const std::string &>() == text;
    }

    std::string text(const char *field) {
      const json &found = member(field);
      if (found.is_string())
        return found.get<std::string>();
      fields.fail(at(field), fmt::format("expected a text, found {}", shown(found)));
      return "";
    }

    /// The field's index in `choices`.
    unsigned choice(const char *field, const std::vector<const char *> &choices) {
      const json &found = member(field);
      return fields.ok() ? fields.choiceOf(found, at(field), choices) : 0;
    }

    /// An integer.
    uint64_t count(const char *field, uint64_t least, uint64_t most) {
      const json &found = member(field);
      if (found.is_number_unsigned() && found.get<uint64_t>() >= least &&
          found.get<uint64_t>() <= most)
        return found.get<uint64_t>();
      fields.fail(at(field), fmt::format("expected a whole number from {} to {}, found {}", least,
                                         most, shown(found)));
      return least;
    }

    /// In SI units.
    double number(const char *field, Unit unit, double least, double most) {
      const json &found = member(field);
      if (!fields.ok())
        return least;
      if (!found.is_array() || found.size() != 3) {
        fields.fail(at(field),
                    fmt::format("expected [value, unit, source], found {}", shown(found)));
        return least;
      }
      Scale scale = fields.scaleOf(found[1], at(field), {unit});
      fields.countSource(found[2], at(field));
      return fields.checked(found[0], at(field), scale, least, most);
    }

    Curve curve(const char *field, Unit unit, double least, double most) {
      const json &found = member(field);
      if (!fields.ok())
        return Curve(least);
      if (!found.is_array() || found.size() != 3 || !found[0].is_array())
        return Curve(number(field, unit, least, most));
      Scale scale = fields.scaleOf(found[1], at(field), {unit});
      fields.countSource(found[2], at(field));
      std::vector<std::pair<double, double>> points;
      for (const json &point : found[0]) {
        bool good = point.is_array() && point.size() == 2 && point[0].is_number() &&
                    point[0].get<double>() >= 0 &&
                    (points.empty() || point[0].get<double>() > points.back().first);
        if (!good) {
          fields.fail(
              at(field),
              fmt::format("expected [bytes, value] with bytes ascending, found {}", shown(point)));
          return Curve(least);
        }
        points.emplace_back(point[0].get<double>(),
                            fields.checked(point[1], at(field), scale, least, most));
      }
      if (points.empty()) {
        fields.fail(at(field), "expected at least one point");
        return Curve(least);
      }
      return Curve(std::move(points));
    }

    Scale unit(const char *field, const std::vector<Unit> &units) {
      const json &found = member(field);
      return fields.ok() ? fields.scaleOf(found, at(field), units) : Scale{units.front(), 1};
    }

    /// One of `sources`; counts it.
    void source(const char *field) {
      const json &found = member(field);
      if (fields.ok())
        fields.countSource(found, at(field));
    }

    Object object(const char *field, const std::vector<const char *> &known) {
      const json &found = member(field);
      return value ? fields.at(found, at(field), known) : Object(fields, nullptr, at(field));
    }

    /// An object of any fields.
    const json &anyObject(const char *field) {
      const json &found = member(field);
      if (found.is_object())
        return found;
      fields.fail(at(field), fmt::format("expected an object, found {}", shown(found)));
      return kNoObject;
    }

    const json &list(const char *field) {
      const json &found = member(field);
      if (found.is_array())
        return found;
      fields.fail(at(field), fmt::format("expected a list, found {}", shown(found)));
      return kNoList;
    }

    std::string path; ///< "" for the root

  private:
    friend class Fields;

    const json &member(const char *field) {
      if (!value)
        return kNothing;
      auto found = value->find(field);
      if (found != value->end())
        return *found;
      fields.fail(at(field), "missing");
      value = nullptr;
      return kNothing;
    }

    std::string at(const char *field) const { return path.empty() ? field : path + "." + field; }

    Fields &fields;
    const json *value; ///< null after an error
  };

  /// `source`: the text's name in messages. Counts the numbers in `machine`.
  Fields(std::string source, Machine &machine) : file(std::move(source)), machine(machine) {}

  bool ok() const { return error.ok(); }
  const Status &status() const { return error; }

  void fail(const std::string &path, const std::string &what) {
    if (error.ok())
      error = Status(Code::InvalidArgument,
                     fmt::format("{}: {}{}{}", file, path, path.empty() ? "" : ": ", what));
  }

  Object root(const json &value, const std::vector<const char *> &known) {
    return at(value, "", known);
  }
  /// `value` as an object whose fields are all in `known`.
  Object at(const json &value, const std::string &path, const std::vector<const char *> &known) {
    if (!ok())
      return {*this, nullptr, path};
    if (!value.is_object()) {
      fail(path, fmt::format("expected an object, found {}", shown(value)));
      return {*this, nullptr, path};
    }
    for (const auto &item : value.items()) {
      const std::string &key = item.key();
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail(path.empty() ? key : fmt::format("{}.{}", path, key),
             fmt::format("unknown field, expected one of {}", fmt::join(known, ", ")));
    }
    return {*this, ok() ? &value : nullptr, path};
  }

  unsigned choiceOf(const json &value, const std::string &path,
                    const std::vector<const char *> &choices) {
    for (unsigned i = 0; i < choices.size(); ++i)
      if (value.is_string() && value.get_ref<const std::string &>() == choices[i])
        return i;
    fail(path, fmt::format("expected one of {}, found {}", fmt::join(choices, ", "), shown(value)));
    return 0;
  }

  /// Four positive numbers.
  std::array<double, 4> row(const json &value, const std::string &path) {
    std::array<double, 4> result{1, 1, 1, 1};
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

private:
  Scale scaleOf(const json &value, const std::string &path, const std::vector<Unit> &units) {
    std::vector<const char *> accepted;
    for (const UnitName &name : kUnits)
      if (std::find(units.begin(), units.end(), name.unit) != units.end()) {
        if (value.is_string() && value.get_ref<const std::string &>() == name.text)
          return {name.unit, name.factor};
        accepted.push_back(name.text);
      }
    fail(path, fmt::format("expected one of the units {}, found {}", fmt::join(accepted, ", "),
                           shown(value)));
    return {units.front(), 0};
  }

  void countSource(const json &value, const std::string &path) {
    for (const Source &source : machine.sources)
      if (value.is_string() && value.get_ref<const std::string &>() == source.name) {
        ++machine.numbersBySource[source.kind];
        return;
      }
    fail(path, fmt::format("expected the name of a source, found {}", shown(value)));
  }

  /// Checks a number against its bounds, which are in SI units.
  double checked(const json &value, const std::string &path, const Scale &scale, double least,
                 double most) {
    double result = value.is_number() ? value.get<double>() * scale.factor : NAN;
    if (result >= least && result <= most)
      return result;
    if (ok() && scale.factor > 0)
      fail(path, fmt::format("expected a number from {} to {}, found {}", least / scale.factor,
                             most / scale.factor, shown(value)));
    return least;
  }

  std::string file;
  Machine &machine;
  Status error;
};

class Parser {
public:
  Parser(Machine &machine, const std::string &source) : machine(machine), fields(source, machine) {}

  Status run(const json &file) {
    Fields::Object root =
        fields.root(file, {"tandem_machine", "name", "about", "sources", "nodes",
                           "devices_per_node", "device", "launch", "links", "transports"});
    int version = static_cast<int>(root.count("tandem_machine", 0, 1 << 20));
    if (fields.ok() && version != kVersion)
      fields.fail("tandem_machine",
                  fmt::format("expected version {}, found {}", kVersion, version));
    machine.name = root.text("name");
    machine.about = root.text("about");
    sources(root);
    machine.nodes = countOrAny(root, "nodes");
    machine.devicesPerNode = countOrAny(root, "devices_per_node");
    if (fields.ok() && machine.devicesPerNode == 0 && machine.nodes != 1)
      fields.fail("devices_per_node", "\"any\" needs nodes = 1");
    device(root.object("device",
                       {"sms", "copy_engines", "copy_interference", "sm_interference",
                        "least_gain_beside_sms", "cores", "contention", "memory", "matmul"}));
    launching(root);
    links(root);
    transports(root);
    return fields.status();
  }

private:
  uint32_t countOrAny(Fields::Object &object, const char *field) {
    if (object.isText(field, "any"))
      return 0;
    return static_cast<uint32_t>(object.count(field, 1, 1 << 20));
  }

  void sources(Fields::Object &root) {
    for (auto &[name, value] : root.anyObject("sources").items()) {
      Fields::Object object = fields.at(value, "sources." + name, {"kind", "text"});
      Source source;
      source.name = name;
      source.kind =
          static_cast<Source::Kind>(object.choice("kind", {"measured", "published", "estimate"}));
      source.text = object.text("text");
      machine.sources.push_back(std::move(source));
    }
  }

  void device(Fields::Object object) {
    machine.sms = object.number("sms", Unit::Count, 1, 1e6);
    machine.copyEngines = object.number("copy_engines", Unit::Count, 1, 64);
    machine.copyInterference = object.number("copy_interference", Unit::Count, 1, 100);
    if (object.has("sm_interference"))
      machine.smInterference = object.number("sm_interference", Unit::Count, 1, 100);
    if (object.has("least_gain_beside_sms"))
      machine.leastGainBesideSms = object.number("least_gain_beside_sms", Unit::Count, 0, 1);
    if (object.has("cores"))
      machine.cores = object.number("cores", Unit::Count, 1, 1e6);
    if (object.has("contention"))
      contention(object);
    Fields::Object memory = object.object("memory", {"copy", "reduce", "elementwise"});
    const char *names[] = {"copy", "reduce", "elementwise"};
    for (size_t i = 0; i < machine.memory.size(); ++i)
      machine.memory[i] = memory.curve(names[i], Unit::Bandwidth, 1, 1e18);
    matmul(object);
  }

  void contention(Fields::Object &device) {
    Fields::Object object = device.object("contention", {"matmul", "memory"});
    machine.contention.matmul = object.number("matmul", Unit::Count, 1, 100);
    machine.contention.memory = object.number("memory", Unit::Count, 1, 100);
    if (fields.ok() && machine.cores < 2)
      fields.fail("device.contention", "needs device.cores of 2 or more");
  }

  void matmul(Fields::Object &device) {
    size_t index = 0;
    for (const json &value : device.list("matmul")) {
      Fields::Object table = fields.at(value, fmt::format("device.matmul[{}]", index++),
                                       {"dtypes", "unit", "source", "points"});
      Fields::Scale scale = table.unit("unit", {Unit::Time, Unit::Rate});
      table.source("source");
      std::vector<DType> dtypes;
      for (const json &dtype : table.list("dtypes"))
        dtypes.push_back(static_cast<DType>(
            fields.choiceOf(dtype, table.path + ".dtypes", {"f32", "f16", "bf16"})));
      size_t number = 0;
      for (const json &point : table.list("points")) {
        std::array<double, 4> values =
            fields.row(point, fmt::format("{}.points[{}]", table.path, number++));
        MatmulPoint p{values[0], values[1], values[2], 0};
        double last = values[3] * scale.factor;
        p.seconds = scale.unit == Unit::Time ? last : 2 * p.m * p.n * p.k / last;
        for (DType dtype : dtypes)
          machine.matmuls[static_cast<size_t>(dtype)].push_back(p);
      }
    }
    for (DType dtype : {DType::F32, DType::F16, DType::BF16})
      if (fields.ok() && machine.matmuls[static_cast<size_t>(dtype)].empty())
        fields.fail("device.matmul", fmt::format("no point for {}", tandem::toString(dtype)));
  }

  Launching oneLaunching(Fields::Object object) {
    Launching launching;
    Fields::Object issue = object.object("issue", kCostFields),
                   device = object.object("device", kCostFields);
    for (size_t i = 0; i < kNumCosts; ++i) {
      const char *name = kCostFields[i];
      launching.issue[i] = issue.number(name, Unit::Time, 0, 1);
      launching.device[i] = device.number(name, Unit::Time, 0, 1);
    }
    launching.run = object.number("run", Unit::Time, 0, 1);
    if (object.has("engine_start"))
      launching.engineStart = object.number("engine_start", Unit::Time, 0, 1);
    if (object.has("engine_change"))
      launching.engineChange = object.number("engine_change", Unit::Time, 0, 1);
    return launching;
  }

  void launching(Fields::Object &root) {
    Fields::Object object = root.object("launch", {"streams", "graph"});
    const std::vector<const char *> known = {"issue", "device", "run", "engine_start",
                                             "engine_change"};
    machine.streams = oneLaunching(object.object("streams", known));
    machine.hasGraph = object.has("graph");
    if (machine.hasGraph)
      machine.graph = oneLaunching(object.object("graph", known));
  }

  LinkClass link(Fields::Object object) {
    LinkClass link;
    link.topology = static_cast<Topology>(object.choice("topology", {"switch", "mesh", "shared"}));
    link.latency = object.number("latency", Unit::Time, 0, 10);
    link.bandwidth = object.curve("bandwidth", Unit::Bandwidth, 1, 1e18);
    if (object.has("sharing"))
      link.sharing = object.number("sharing", Unit::Count, 1e-3, 1);
    if (object.has("core"))
      link.core = object.number("core", Unit::Bandwidth, 1, 1e18);
    return link;
  }

  void links(Fields::Object &root) {
    const std::vector<const char *> known = {"topology", "latency", "bandwidth", "sharing", "core"};
    Fields::Object object = root.object("links", {"node", "network"});
    machine.node = link(object.object("node", known));
    machine.hasNetwork = object.has("network");
    if (machine.hasNetwork)
      machine.network = link(object.object("network", known));
    else if (fields.ok() && machine.nodes != 1)
      fields.fail("links.network", "expected this field: there is more than one node");
  }

  Transport transport(Fields::Object object) {
    Transport transport;
    transport.mover = static_cast<Mover>(object.choice("mover", {"copy", "sm", "host"}));
    transport.sms = transport.mover == Mover::Sm ? object.number("sms", Unit::Count, 0, 1e6) : 0;
    transport.startup = object.curve("startup", Unit::Time, 0, 10);
    if (object.has("bandwidth"))
      transport.bandwidth = object.number("bandwidth", Unit::Bandwidth, 1, 1e18);
    return transport;
  }

  void transports(Fields::Object &root) {
    Fields::Object object = root.object("transports", {"two_sided", "one_sided", "collectives"});
    const std::vector<const char *> known = {"mover", "sms", "startup", "bandwidth"};
    machine.twoSided = transport(object.object("two_sided", known));
    machine.oneSided = transport(object.object("one_sided", known));
    Fields::Object c =
        object.object("collectives", {"mover", "sms", "startup", "step", "network_step",
                                      "bandwidth", "network_bandwidth"});
    Collectives &out = machine.collectives;
    out.mover = static_cast<Mover>(c.choice("mover", {"copy", "sm", "host"}));
    out.sms = out.mover == Mover::Sm ? c.number("sms", Unit::Count, 0, 1e6) : 0;
    out.startup = c.number("startup", Unit::Time, 0, 10);
    out.step = c.number("step", Unit::Time, 0, 10);
    out.bandwidth = c.curve("bandwidth", Unit::Bandwidth, 1, 1e18);
    if (machine.hasNetwork) {
      out.networkStep = c.number("network_step", Unit::Time, 0, 10);
      out.networkBandwidth = c.number("network_bandwidth", Unit::Bandwidth, 1, 1e18);
    }
  }

  static const std::vector<const char *> kCostFields;
  Machine &machine;
  Fields fields;
};

const std::vector<const char *> Parser::kCostFields = {
    "kernel", "matmul", "copy", "message", "collective", "event", "signal", "wait_signal"};

} // namespace

Expected<Machine> Machine::parse(std::string_view text, const std::string &source) {
  json file;
  try {
    file = json::parse(text);
  } catch (const json::exception &error) { // also for numbers out of range
    return Status(Code::InvalidArgument, fmt::format("{}: {}", source, error.what()));
  }
  Machine machine;
  TANDEM_RETURN_IF_ERROR(Parser(machine, source).run(file));
  return machine;
}

Expected<Machine> Machine::load(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (file && file.peek() != std::ifstream::traits_type::eof()) // directories open, too
    text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  if (!file || file.bad())
    return Status(Code::Io, fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
  return parse(text, path);
}

} // namespace tandem::machine
