//===- Parse.cpp - machine files ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JsonFields.h"
#include "tandem/Replay/Machine.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <iterator>

namespace tandem::machine {

namespace {

using nlohmann::json;

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
