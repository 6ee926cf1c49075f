//===- ToyMachine.cpp - a machine whose times one can compute by hand ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToyMachine.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <numeric>

namespace tandem::test {

using nlohmann::json;

std::string toyMachineText(const std::map<std::string, std::string> &changes) {
  json zero = {0, "us", "toy"}, costs = json::object();
  for (const char *name :
       {"kernel", "matmul", "copy", "message", "collective", "event", "signal", "wait_signal"})
    costs[name] = zero;
  json one = {1, "GB/s", "toy"}, fast = {1000, "TB/s", "toy"};
  json file = {
      {"tandem_machine", 1},
      {"name", "toy"},
      {"about", "for tests"},
      {"sources", {{"toy", {{"kind", "estimate"}, {"text", "made up"}}}}},
      {"nodes", 1},
      {"devices_per_node", 4},
      {"device",
       {{"sms", {100, "1", "toy"}},
        {"copy_engines", {1, "1", "toy"}},
        {"copy_interference", {1, "1", "toy"}},
        {"memory", {{"copy", one}, {"reduce", one}, {"elementwise", fast}}},
        {"matmul",
         {{{"dtypes", {"f32", "f16", "bf16"}},
           {"unit", "TFLOP/s"},
           {"source", "toy"},
           {"points", json::array({json::array({1000, 1000, 1000, 1})})}}}}}},
      {"launch", {{"streams", {{"issue", costs}, {"device", costs}, {"run", zero}}}}},
      {"links", {{"node", {{"topology", "switch"}, {"latency", zero}, {"bandwidth", one}}}}},
      {"transports",
       {{"two_sided", {{"mover", "copy"}, {"startup", zero}}},
        {"one_sided", {{"mover", "copy"}, {"startup", zero}}},
        {"collectives",
         {{"mover", "copy"}, {"startup", zero}, {"step", zero}, {"bandwidth", one}}}}}};
  for (const auto &[pointer, value] : changes)
    file[json::json_pointer(pointer)] = json::parse(value);
  return file.dump();
}

machine::Machine toyMachine(const std::map<std::string, std::string> &changes) {
  auto machine = machine::Machine::parse(toyMachineText(changes), "toy.json");
  EXPECT_TRUE(machine.ok()) << machine.status().message();
  return machine ? *machine : machine::Machine();
}

ToyProgram::ToyProgram(uint32_t ranks) : spec(ranks) {
  spec.name = "toy";
  std::vector<uint32_t> all(ranks);
  std::iota(all.begin(), all.end(), 0U);
  for (RankSpec &rank : spec.ranks) {
    rank.numStreams = 4;
    rank.channel(all);
  }
}

uint32_t ToyProgram::memory(uint32_t rank, double megabytes) {
  auto elements = static_cast<int64_t>(megabytes * kMegabyte);
  RankSpec &spec = (*this)[rank];
  return spec.view(spec.arena(static_cast<uint64_t>(elements) * 4), DType::F32, {elements});
}

void ToyProgram::matmul(uint32_t rank, uint16_t stream, double ms) {
  // 2 * 1000 * 1000 * k operations at 10^12 a second.
  auto k = static_cast<int64_t>(ms * 500);
  RankSpec &spec = (*this)[rank];
  auto matrix = [&](int64_t rows, int64_t columns) {
    return spec.view(spec.arena(static_cast<uint64_t>(rows * columns) * 4), DType::F32,
                     {rows, columns});
  };
  uint32_t out = matrix(1000, 1000), a = matrix(1000, k), b = matrix(k, 1000);
  spec.add(sp::CommandKind::matmul, stream, {out, a, b});
}

void ToyProgram::exchange(uint32_t rank, uint16_t stream, int to, int from, double megabytes,
                          uint32_t sendTag, uint32_t recvTag) {
  uint32_t source = memory(rank, megabytes), target = memory(rank, megabytes);
  RankSpec &spec = (*this)[rank];
  spec.group(stream, 0, (to >= 0 ? 1 : 0) + (from >= 0 ? 1 : 0));
  if (to >= 0)
    spec.send(stream, 0, source, static_cast<uint32_t>(to), sendTag);
  if (from >= 0)
    spec.recv(stream, 0, target, static_cast<uint32_t>(from), recvTag);
}

void ToyProgram::put(uint32_t rank, uint16_t stream, uint32_t to, double megabytes) {
  auto elements = static_cast<int64_t>(megabytes * kMegabyte);
  RankSpec &spec = (*this)[rank];
  uint32_t source = memory(rank, megabytes);
  uint32_t target =
      spec.view(spec.symmetric(static_cast<uint64_t>(elements) * 4), DType::F32, {elements});
  spec.put(stream, 0, target, source, to);
}

void ToyProgram::collective(uint32_t rank, uint16_t stream, CollectiveKind kind, double megabytesIn,
                            double megabytesOut) {
  auto ranks = static_cast<int64_t>(spec.ranks.size());
  RankSpec &owner = (*this)[rank];
  auto shaped = [&](double megabytes, bool whole) {
    auto elements = static_cast<int64_t>(megabytes * kMegabyte);
    uint32_t buffer = owner.arena(static_cast<uint64_t>(elements) * 4);
    return whole ? owner.view(buffer, DType::F32, {ranks, elements / ranks})
                 : owner.view(buffer, DType::F32, {elements});
  };
  uint32_t out = shaped(megabytesOut, megabytesOut > megabytesIn),
           in = shaped(megabytesIn, megabytesIn > megabytesOut);
  owner.collective(stream, 0, kind, out, in);
}

std::shared_ptr<const replay::World> ToyProgram::load() {
  auto file = ProgramFile::fromMemory(spec.encode());
  EXPECT_TRUE(file.ok()) << file.status().message();
  if (!file)
    return nullptr;
  auto world = replay::World::load(**file);
  EXPECT_TRUE(world.ok()) << world.status().message();
  return world ? *world : nullptr;
}

simulate::Result ToyProgram::simulate(const machine::Machine &machine,
                                      const simulate::Options &options) {
  std::shared_ptr<const replay::World> world = load();
  if (!world)
    return {};
  auto result = simulate::simulate(*world, machine, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result ? *result : simulate::Result();
}

} // namespace tandem::test
