//===- CalibrateTest.cpp - made-up measurements as a machine ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Calibrate.h"

#include "tandem/Replay/Machine.h"

#include <cmath>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

using namespace tandem;
using namespace tandem::bench;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

namespace {

constexpr uint32_t kRanks = 2, kCores = 2;
constexpr double kRun = 50e-6, kIssue = 1e-6, kTinyCommand = 3e-6, kInterference = 1.25,
                 kEngineChange = 18e-6;
/// Seconds of a kernel that exchanges, by one block, beyond those of an empty kernel.
constexpr double kExchangeStartup = 0.5e-6, kExchangeSignal = 4e-6, kExchangeCount = 2e-6,
                 kBlockStores = 28e9, kBlockMemory = 140e9;
/// An all-gather of 2 ranks has one step, an all-reduce two.
constexpr double kStep = 6e-6;

std::string baseText(const std::string &name) {
  std::ifstream file(machine::pathOf(name));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A host whose ranks share one medium.
std::string hostText() {
  nlohmann::json file = nlohmann::json::parse(baseText("cpu2"));
  file["links"]["node"]["topology"] = "shared";
  file["transports"]["collectives"]["step"] = {10, "us", "estimate"};
  return file.dump();
}

/// Operations per second of a matmul that all ranks run at once.
double matmulRate = 50e9;

/// What a single matmul takes longer than one of several, as a share of its time.
double coldShare = 0;

double gatedEfficiency(const Probe &p) { return p.m > 2048 ? 1 : .8; }

/// Seconds that a message of 32 MiB or more takes in addition to bytes / rate; a smaller one takes
/// a share.
double rampOfMessages = 0;

/// Whether matmuls are slower whose rows do not begin at lines of the cache.
bool linesMatter = false;

/// Whether puts are slower into memory with gaps, of rows of 9 KiB.
bool gapsMatter = false;

/// 1.4, 1.2 and 1.1 times, if the rows of both factors begin at multiples of 16, 32 and 64 bytes;
/// half of the excess if only those of the left one do.
double slowdownOf(const Probe &p) {
  auto bytes = [](int64_t columns) { return machine::alignmentOf(2 * uint64_t(columns)); };
  uint64_t left = bytes(p.k), right = bytes(p.n);
  if (!linesMatter || p.dtype != DType::BF16 || left == 128)
    return 1;
  double both = 6.4 / double(left);
  return 1 + (right == 128 ? both / 2 : both);
}

/// Of what is computed: whole tiles of 64, where lines matter.
double columnsOf(const Probe &p) {
  return linesMatter ? std::ceil(double(p.n) / 64) * 64 : double(p.n);
}

/// What one repeat takes on a machine of simple numbers.
double secondsOf(const Probe &p) {
  auto bytes = double(p.bytes);
  switch (p.work) {
  case Work::Matmul:
    return (kTinyCommand +
            2.0 * double(p.m) * columnsOf(p) * double(p.k) / ((p.alone ? 2 : 1) * matmulRate)) *
           slowdownOf(p);
  case Work::Gated: {
    Probe matmul = p;
    matmul.work = Work::Matmul;
    return secondsOf(matmul) / gatedEfficiency(p);
  }
  case Work::Copy:
    return kTinyCommand + 2 * (bytes - 256) / 10e9;
  case Work::Reduce:
  case Work::Accumulate:
    return kTinyCommand + 3 * (bytes - 256) / 20e9;
  case Work::Hop:
    return 2 * kTinyCommand + 10e-6;
  case Work::Signal:
    return 12e-6;
  case Work::Message:
    return 7e-6 + (bytes - 4096) / 2e9 + rampOfMessages * std::min(1.0, bytes / (32 << 20));
  case Work::Put:
    return 5e-6 + (bytes - 4096) / 4e9;
  case Work::Rows:
    return (5e-6 + (double(kRowsBytes - kRowsBytes % p.bytes) - 4096) / 4e9) *
           (gapsMatter && p.bytes == 9216 ? 1.25 : 1);
  case Work::AllGather:
    return 20e-6 + (bytes - 256) / 1e9;
  case Work::ReduceScatter:
    return 20e-6 + (bytes - 256) / .5e9;
  case Work::AllReduce:
    return 20e-6 + kStep + (bytes - 256) / 1e9;
  case Work::Exchange:
  case Work::ExchangeTwice:
  case Work::ExchangeBlocks:
  case Work::ExchangeReduce:
    return kTinyCommand + kExchangeStartup +
           (p.work == Work::ExchangeTwice ? 2 : 1) * kExchangeSignal +
           (p.work == Work::ExchangeBlocks ? kExchangeCount : 0) +
           (p.work == Work::ExchangeReduce ? 3 * bytes / kBlockMemory
                                           : (bytes - 256) / kBlockStores);
  case Work::Beside: {
    // The matmul goes at 1 / kInterference of its pace while the put runs.
    Probe matmul = p, put = p;
    matmul.work = Work::Matmul;
    put.work = Work::Put;
    double alone = secondsOf(matmul), during = secondsOf(put);
    return during < alone * kInterference ? alone + during * (1 - 1 / kInterference) : during;
  }
  case Work::Behind: {
    Probe matmul = p, put = p, hop = p;
    matmul.work = Work::Matmul;
    put.work = Work::Put;
    hop.work = Work::Hop;
    return secondsOf(matmul) + kEngineChange + secondsOf(put) + secondsOf(hop) - 2 * kTinyCommand;
  }
  }
  return 0;
}

/// Both programs of every probe but of those of one kind.
std::vector<Measurement> measure(bool gpu, std::set<Work> without = {}) {
  std::vector<Measurement> all;
  for (const Probe &probe : probesFor(kRanks, gpu))
    for (const Probe &program : {probe.once(), probe}) {
      Measurement m;
      m.name = program.name();
      if (without.count(probe.work)) {
        m.refused = "not here";
      } else {
        m.seconds = {kRun + program.repeats * secondsOf(program)};
        m.host = {kRun / 2 + program.repeats * kIssue};
      }
      all.push_back(m);
    }
  return all;
}

const std::vector<Case> kCases = {{Op::AllGather, 8192, 2752, 4096, DType::BF16},
                                  {Op::ReduceScatter, 1024, 4096, 11008, DType::BF16}};
/// Enqueuing a command on its own, a run as a graph, and what a put waits for at its start.
constexpr double kSlowHost = 80e-6, kGraphRun = 20e-6, kEngineStart = 9e-6;
/// What the first of some commands with large operands takes longer, since they are in no cache.
constexpr double kCold = 5e-6;

Probe signalOnce() {
  Probe probe;
  probe.work = Work::Signal;
  return probe;
}

/// A GPU in both modes: direct, the host is what all but matmuls wait for.
std::vector<Measurement>
measureGpu(const std::vector<Case> &cases = kCases, uint32_t ranks = kRanks,
           const std::function<double(const Probe &)> &timeOf = secondsOf) {
  std::vector<Measurement> all;
  for (const Probe &probe : probesFor(ranks, true, cases))
    for (const Probe &program : {probe.once(), probe})
      for (Mode mode : {Mode::Direct, Mode::Graph}) {
        Measurement m;
        m.name = program.name();
        m.mode = mode;
        double each = timeOf(program);
        // Two rounds lost time that both programs lost.
        for (double lost : {0., 5e-3, 0., 1e-3, 0.})
          if (mode == Mode::Graph) {
            // Behind its puts a ring signals to both sides.
            double once = program.work == Work::Put ? kEngineStart + 2 * secondsOf(signalOnce())
                          : program.work == Work::Behind ? 2 * secondsOf(signalOnce())
                          : program.work == Work::Matmul ? coldShare * each
                          : program.bytes >= 1 << 20     ? kCold
                                                         : 0;
            m.seconds.push_back(lost + kGraphRun + program.repeats * each + once);
            m.host.push_back(lost + kGraphRun / 2);
          } else {
            m.seconds.push_back(lost + kRun + kSlowHost + each +
                                (program.repeats - 1) * std::max(each, kSlowHost));
            m.host.push_back(lost + kRun / 2 + program.repeats * kSlowHost);
          }
        all.push_back(m);
      }
  return all;
}

machine::Machine calibrated(Calibration &calibration, const std::string &base) {
  auto text = calibration.apply(base, "here", "made up");
  EXPECT_TRUE(text) << text.status().message();
  auto machine = machine::Machine::parse(text ? *text : "", "here");
  EXPECT_TRUE(machine) << machine.status().message();
  return machine ? *machine : machine::Machine();
}

} // namespace

TEST(Calibration, FindsTheNumbersOfAMachine) {
  Calibration calibration(kRanks, false, kRanks, kCores);
  calibration.note(measure(false));
  machine::Machine machine = calibrated(calibration, hostText());
  EXPECT_EQ(machine.name, "here");
  for (DType dtype : {DType::F32, DType::F16, DType::BF16})
    EXPECT_NEAR(machine.matmulSeconds(dtype, 1, 512, 1024, 512), 2.0 * 512 * 1024 * 512 / 100e9,
                1e-4)
        << int(dtype);
  EXPECT_NEAR(machine.memory[0].at(32 << 20), 10e9, 1e8);
  EXPECT_NEAR(machine.memory[1].at(48 << 20), 20e9, 2e8);
  EXPECT_NEAR(machine.memory[2].at(48 << 20), 20e9, 2e8);
  auto cost = [](machine::Cost cost) { return static_cast<size_t>(cost); };
  EXPECT_NEAR(machine.streams.issue[cost(machine::Cost::Message)], kIssue, 1e-9);
  EXPECT_NEAR(machine.streams.device[cost(machine::Cost::Kernel)], kTinyCommand, 1e-9);
  EXPECT_EQ(machine.streams.device[cost(machine::Cost::Matmul)], 0);
  EXPECT_NEAR(machine.streams.device[cost(machine::Cost::Event)], 5e-6, 1e-9);
  EXPECT_EQ(machine.streams.device[cost(machine::Cost::Copy)], 0);
  EXPECT_NEAR(machine.streams.issue[cost(machine::Cost::Copy)], kIssue, 1e-9);
  // Of the signal's and the wait's cost the base says that they are alike.
  EXPECT_NEAR(machine.streams.device[cost(machine::Cost::Signal)], 6e-6, 1e-9);
  EXPECT_NEAR(machine.streams.device[cost(machine::Cost::WaitSignal)], 6e-6, 1e-9);
  // What a run takes beside what its command takes and what issuing that does.
  EXPECT_NEAR(machine.streams.run.at(0), kRun - kIssue, 1e-9);
  // Two ranks share the medium; puts are quicker, so messages limit themselves.
  EXPECT_NEAR(machine.node.bandwidth.at(8 << 20), 8e9, 1e8);
  EXPECT_NEAR(machine.twoSided.bandwidth, 4e9, 1e8);
  EXPECT_NEAR(machine.twoSided.startup.at(4096), 7e-6 - 3840 / 2e9, 1e-8);
  EXPECT_NEAR(machine.oneSided.startup.at(4096), 5e-6 - 3840 / 4e9, 1e-8);
  EXPECT_TRUE(std::isinf(machine.oneSided.bandwidth));
  EXPECT_NEAR(machine.collectives.startup, 20e-6 - kStep, 1e-8);
  EXPECT_NEAR(machine.collectives.step, kStep, 1e-8);
  EXPECT_NEAR(machine.collectives.bandwidth.at(8 << 20), 1e9, 1e7);
  EXPECT_THAT(calibration.log(), Contains(HasSubstr("device.matmul: 6 points for bf16")));
}

TEST(Calibration, KeepsWhatWasNotMeasured) {
  auto base = machine::Machine::parse(hostText(), "base");
  ASSERT_TRUE(base);
  Calibration calibration(kRanks, false, kRanks, kCores);
  calibration.note(measure(false, {Work::AllGather, Work::Put, Work::Matmul, Work::Copy}));
  machine::Machine machine = calibrated(calibration, hostText());
  EXPECT_EQ(machine.collectives.startup, base->collectives.startup);
  EXPECT_EQ(machine.oneSided.startup.at(1), base->oneSided.startup.at(1));
  EXPECT_EQ(machine.memory[0].at(1 << 20), base->memory[0].at(1 << 20));
  for (DType dtype : {DType::F32, DType::F16, DType::BF16})
    EXPECT_EQ(machine.matmulSeconds(dtype, 1, 512, 1024, 1024),
              base->matmulSeconds(dtype, 1, 512, 1024, 1024));
  EXPECT_NEAR(machine.node.bandwidth.at(8 << 20), 4e9, 1e8);
  EXPECT_TRUE(std::isinf(machine.twoSided.bandwidth));
  EXPECT_THAT(calibration.log(), Contains("transports.collectives.startup: kept"));
  EXPECT_THAT(calibration.log(), Contains("device.memory.copy: kept"));
}

TEST(Calibration, WithoutAnAllReduceHalfOfAGatherIsItsSteps) {
  Calibration calibration(kRanks, false, kRanks, kCores);
  calibration.note(measure(false, {Work::AllReduce}));
  machine::Machine machine = calibrated(calibration, hostText());
  EXPECT_NEAR(machine.collectives.startup, 10e-6, 1e-8);
  EXPECT_NEAR(machine.collectives.step, 10e-6, 1e-8);
}

TEST(Calibration, ContentionIsThatOfOneHost) {
  Calibration spread(kRanks, false, 1, kCores);
  spread.note(measure(false));
  calibrated(spread, hostText());
  EXPECT_THAT(spread.log(), Not(Contains(HasSubstr("device.contention"))));
  Calibration full(kRanks, false, kCores, kCores);
  full.note(measure(false));
  calibrated(full, hostText());
  EXPECT_THAT(full.log(), Contains(HasSubstr("device.contention")));
}

TEST(Calibration, NothingAtAllChangesNoNumber) {
  auto base = machine::Machine::load(machine::pathOf("h200x8"));
  ASSERT_TRUE(base);
  Calibration calibration(8, true, 8, kCores);
  machine::Machine machine = calibrated(calibration, baseText("h200x8"));
  EXPECT_EQ(machine.matmulSeconds(DType::BF16, 1, 8192, 3584, 8192),
            base->matmulSeconds(DType::BF16, 1, 8192, 3584, 8192));
  EXPECT_EQ(machine.node.bandwidth.at(1 << 26), base->node.bandwidth.at(1 << 26));
  EXPECT_EQ(machine.graph.run.at(0), base->graph.run.at(0));
  EXPECT_EQ(machine.graph.engineChange, base->graph.engineChange);
}

// Among four a tree has fewer steps than a ring, and moves more: few bytes go by it.
TEST(Calibration, AllReducesTakeAsLongAsTheyDid) {
  constexpr uint32_t ranks = 4;
  auto timeOf = [](const Probe &p) {
    double bytes = double(p.bytes), start = 2e-6;
    switch (p.work) {
    case Work::AllGather:
    case Work::ReduceScatter:
      return start + 3 * kStep + 3 * bytes / 200e9;
    case Work::AllReduce:
      return start + std::min(4 * kStep + 2 * bytes / 150e9, 6 * kStep + 1.5 * bytes / 300e9);
    default:
      return secondsOf(p);
    }
  };
  Calibration calibration(ranks, true, ranks, kCores);
  calibration.note(measureGpu({}, ranks, timeOf));
  machine::Machine machine = calibrated(calibration, baseText("h200x4"));
  EXPECT_NEAR(machine.collectives.step, kStep, 1e-8);
  bool byTree = false, byRing = false;
  for (const Probe &probe : probesFor(ranks, true))
    if (probe.work == Work::AllReduce) {
      auto cost = machine.collectiveCost(CollectiveKind::AllReduce, ranks, 1, double(probe.bytes));
      (cost.tree ? byTree : byRing) = true;
      EXPECT_NEAR(cost.seconds / timeOf(probe), 1, 0.05) << probe.bytes;
    }
  EXPECT_TRUE(byTree && byRing);
}

TEST(Calibration, DeviceTimesAreThoseOfGraphs) {
  Calibration calibration(kRanks, true, kRanks, kCores);
  calibration.note(measureGpu());
  machine::Machine machine = calibrated(calibration, baseText("h200x8"));
  auto cost = [](machine::Cost cost) { return static_cast<size_t>(cost); };
  // Two steps of an all-reduce take longer than the one of an all-gather.
  EXPECT_NEAR(machine.collectives.startup, 20e-6 - kStep, 1e-8);
  EXPECT_NEAR(machine.collectives.step, kStep, 1e-8);
  EXPECT_NEAR(machine.collectiveCost(CollectiveKind::AllGather, 2, 1, 256).latency, 20e-6, 1e-8);
  EXPECT_NEAR(machine.collectiveCost(CollectiveKind::AllReduce, 2, 1, 256).latency, 20e-6 + kStep,
              1e-8);
  // A curve between those of gathers and reduce-scatters, or of gathers alone where few bytes are
  // moved; all-reduces are as fast as gathers.
  EXPECT_NEAR(machine.collectives.allReduce.at(1 << 26), 1.5, 0.01);
  EXPECT_NEAR(machine.collectives.allReduce.at(1 << 16), 1, 0.01);
  EXPECT_NEAR(machine.oneSided.startup.at(4096), 5e-6, 1e-6);
  EXPECT_NEAR(machine.graph.device[cost(machine::Cost::Kernel)], kTinyCommand, 1e-9);
  EXPECT_NEAR(machine.graph.device[cost(machine::Cost::Event)], 5e-6, 1e-9);
  EXPECT_NEAR(machine.streams.issue[cost(machine::Cost::Collective)], kSlowHost, 1e-9);
  EXPECT_NEAR(machine.graph.run.at(0), kGraphRun, 1e-8);
  EXPECT_NEAR(machine.graph.engineStart, kEngineStart, 1e-7);
  EXPECT_NEAR(machine.graph.engineChange, kEngineChange, 1e-7);
  EXPECT_NEAR(machine.streams.run.at(0), kRun, 1e-8);
  // Whole, half, a quarter: these shapes themselves.
  for (int64_t m : {8192, 4096, 2048})
    EXPECT_NEAR(machine.matmulSeconds(DType::BF16, 1, double(m), 1376, 4096) /
                    (kTinyCommand + 2.0 * double(m) * 1376 * 4096 / 50e9),
                1, 1e-3);
  // One curve for gathers at 1 GB/s and reductions at .5.
  EXPECT_NEAR(machine.collectives.bandwidth.at(64 << 20), 1e9 / 1.5, 1e7);
  EXPECT_NEAR(machine.copyInterference, kInterference, 1e-3);
  for (int64_t m : {8192, 2048})
    EXPECT_NEAR(machine.matmulSeconds(DType::BF16, 1, double(m), 1376, 4096) /
                    machine.gatedMatmulSeconds(DType::BF16, double(m), 1376, 4096, {}, 0),
                m == 8192 ? 1 : .8, 1e-3)
        << m;
}

TEST(Calibration, ALongerRunTakesMoreBesidesItsCommands) {
  std::vector<Case> cases;
  for (int64_t n : {2560, 2624, 2688, 2752, 2816}) // of two ranks: 172 to 189 us, and parts of it
    cases.push_back({Op::AllGather, 8192, n, 4096, DType::BF16});
  matmulRate = 500e12;
  coldShare = .05;
  Calibration calibration(kRanks, true, kRanks, kCores);
  calibration.note(measureGpu(cases));
  matmulRate = 50e9;
  coldShare = 0;
  machine::Machine machine = calibrated(calibration, baseText("h200x8"));
  EXPECT_LT(machine.graph.run.at(0), kGraphRun + .05 * 50e-6);
  EXPECT_NEAR(machine.graph.run.at(90), kGraphRun + .05 * 90e-6, .3e-6);
  EXPECT_NEAR(machine.graph.run.at(180), kGraphRun + .05 * 180e-6, .6e-6);
  EXPECT_NEAR(machine.streams.run.at(180), kRun, 1e-8);
  // Where nothing is measured it is kept, whatever its unit.
  nlohmann::json base = nlohmann::json::parse(*calibration.apply(baseText("h200x8"), "x", "y"));
  nlohmann::json &run = base["launch"]["graph"]["run"];
  for (nlohmann::json &point : run[0])
    point[1] = double(point[1]) / 1000;
  run[1] = "ms";
  Calibration next(kRanks, true, kRanks, kCores);
  EXPECT_NEAR(calibrated(next, base.dump()).graph.run.at(90), kGraphRun + .05 * 90e-6, .3e-6);
}

TEST(Calibration, APutIsBesideMatmulsThatMemoryDoesNotLimit) {
  std::set<int64_t> rows;
  for (const Probe &probe : probesFor(kRanks, true,
                                      {{Op::AllGather, 1024, 13312, 16384, DType::BF16},
                                       {Op::AllGather, 256, 53248, 16384, DType::BF16}}))
    if (probe.work == Work::Beside)
      rows.insert(probe.m);
  // Both take as long by their operations; with 256 rows, memory is what they wait for.
  EXPECT_EQ(rows.count(1024), 1U);
  EXPECT_EQ(rows.count(256), 0U);
}

TEST(Calibration, PutsMayBeSlowerIntoMemoryWithGaps) {
  for (bool matters : {false, true}) {
    gapsMatter = matters;
    Calibration calibration(kRanks, true, kRanks, kCores);
    calibration.note(measureGpu());
    gapsMatter = false;
    nlohmann::json base = nlohmann::json::parse(baseText("h200x8"));
    base["transports"]["one_sided"]["rows"] = {0.5, "1", "estimate"};
    machine::Machine machine = calibrated(calibration, base.dump());
    for (double row : {1024, 8192, 16384})
      EXPECT_NEAR(machine.oneSided.rows.at(row), 1, 1e-3) << row;
    EXPECT_NEAR(machine.oneSided.rows.at(9216), matters ? 0.8 : 1, 1e-3);
    EXPECT_EQ(
        nlohmann::json::parse(*calibration.apply(base.dump(), "x", "y"))["transports"]["one_sided"]
            .contains("rows"),
        matters);
  }
}

TEST(Calibration, MatmulsAreSlowerWhoseRowsDoNotBeginAtLines) {
  linesMatter = true;
  Calibration calibration(kRanks, true, kRanks, kCores);
  calibration.note(measureGpu({{Op::AllGather, 2048, 8192, 4096, DType::BF16}}));
  linesMatter = false;
  machine::Machine machine = calibrated(calibration, baseText("h200x8"));
  const machine::Unaligned &found = machine.unaligned[static_cast<size_t>(DType::BF16)];
  for (double bytes : {16, 32, 64}) {
    EXPECT_NEAR(found.both.at(bytes), 1 + 6.4 / bytes, 1e-3) << bytes;
    EXPECT_NEAR(found.left.at(bytes), 1 + 3.2 / bytes, 1e-3) << bytes;
  }
  EXPECT_EQ(found.both.at(128), 1);
  EXPECT_EQ(found.left.at(128), 1);
  // The table has only the matmuls with aligned rows.
  EXPECT_THAT(calibration.log(), Contains(HasSubstr("device.matmul: 4 points for bf16")));
  // A calibration without such probes keeps them, and the tile.
  nlohmann::json base = nlohmann::json::parse(*calibration.apply(baseText("h200x8"), "x", "y"));
  for (nlohmann::json &table : base["device"]["matmul"])
    if (table["dtypes"] == nlohmann::json({"bf16"}))
      table["tile"] = {64, "1", "estimate"};
  Calibration next(kRanks, true, kRanks, kCores);
  machine::Machine kept = calibrated(next, base.dump());
  EXPECT_NEAR(kept.unaligned[static_cast<size_t>(DType::BF16)].both.at(16), 1.4, 1e-3);
  EXPECT_EQ(kept.matmulTile[static_cast<size_t>(DType::BF16)], 64);
}

TEST(Calibration, MessagesBySmsReachTheirRateLate) {
  rampOfMessages = 40e-6;
  Calibration calibration(kRanks, true, kRanks, kCores);
  calibration.note(measureGpu());
  machine::Machine machine = calibrated(calibration, baseText("h200x8"));
  rampOfMessages = 0;
  EXPECT_NEAR(machine.twoSided.bandwidth, 2e9, 1e7);
  EXPECT_NEAR(machine.twoSided.startup.at(4096), 5e-6, 1e-6);
  EXPECT_NEAR(machine.twoSided.startup.at(16 << 20), 25e-6, 1e-6);
  EXPECT_NEAR(machine.twoSided.startup.at(64 << 20), 45e-6, 1e-6);
}

TEST(Calibration, RatesOfMessagesAloneAreThoseOfLargeOnes) {
  rampOfMessages = 40e-6;
  Calibration calibration(kRanks, true, kRanks, kCores);
  std::vector<Measurement> all = measureGpu();
  for (Measurement &m : all)
    if (m.name.rfind("put ", 0) == 0)
      m = {};
  calibration.note(all);
  machine::Machine machine = calibrated(calibration, baseText("h200x8"));
  rampOfMessages = 0;
  EXPECT_NEAR(machine.node.bandwidth.at(1 << 20), 2e9, 1e7);
  machine::LinkClass link = machine.node;
  EXPECT_NEAR(machine.messageSeconds(machine.twoSided, link, 16 << 20), 25e-6 + (16 << 20) / 2e9,
              2e-6);
}

TEST(Calibration, FusedExchangesByTheirProbes) {
  Calibration calibration(kRanks, true, kRanks, kCores);
  calibration.note(measureGpu());
  for (bool has : {true, false}) {
    nlohmann::json base = nlohmann::json::parse(baseText("h200x8"));
    if (has)
      base["transports"]["fused_exchange"]["beside_compute"] = {1, "1", "exchange"};
    else
      base["transports"].erase("fused_exchange");
    machine::Machine machine = calibrated(calibration, base.dump());
    ASSERT_TRUE(machine.hasExchangeKernel);
    EXPECT_NEAR(machine.exchange.startup, kExchangeStartup, 1e-9);
    EXPECT_NEAR(machine.exchange.signal, kExchangeSignal, 1e-9);
    EXPECT_NEAR(machine.exchange.count, kExchangeCount, 1e-9);
    EXPECT_NEAR(machine.exchange.stores, kBlockStores, 1e7);
    EXPECT_NEAR(machine.exchange.memory, kBlockMemory, 1e8);
    EXPECT_EQ(machine.exchange.besideCompute, has ? 1 : 0); // kept
  }
}

TEST(Calibration, ADeviceWithoutExchangeKernelsHasNoPriceForThem) {
  const std::set<Work> exchanges = {Work::Exchange, Work::ExchangeTwice, Work::ExchangeBlocks,
                                    Work::ExchangeReduce};
  std::vector<Measurement> refused = measure(true, exchanges), none = refused;
  for (Measurement &m : none)
    m.noKernels = !m.refused.empty();
  const std::pair<std::vector<Measurement>, bool> cases[] = {
      {measure(true), true}, {refused, true}, {none, false}};
  for (const auto &[measurements, has] : cases) {
    Calibration calibration(kRanks, true, kRanks, kCores);
    calibration.note(measurements);
    EXPECT_EQ(calibrated(calibration, baseText("h200x8")).hasExchangeKernel, has);
  }
}

TEST(Calibration, ADeviceWithoutGatedKernelsHasNoRateForThem) {
  nlohmann::json base = nlohmann::json::parse(baseText("h200x8"));
  base["sources"]["test"] = {{"kind", "estimate"}, {"text", "made up"}};
  base["device"]["gated_matmul"] = {{"source", "test"}, {"points", {{8192, 1376, 4096, .9}}}};
  std::vector<Measurement> refused = measure(true, {Work::Gated}), none = refused;
  for (Measurement &m : none)
    m.noKernels = !m.refused.empty();
  Figures figures{kRanks, "cuda-peer", kRanks, kCores, "made up", none, {}, {}};
  std::string path = testing::TempDir() + "/tandem-gated-figures.json";
  std::ofstream(path) << figuresJson(figures);
  auto read = readFigures(path);
  ASSERT_TRUE(read) << read.status().message();
  // Refused for another reason, the base's rate stays.
  const std::pair<std::vector<Measurement>, bool> cases[] = {
      {measure(true), true}, {refused, true}, {none, false}, {read->measurements, false}};
  for (const auto &[measurements, has] : cases) {
    Calibration calibration(kRanks, true, kRanks, kCores);
    calibration.note(measurements);
    EXPECT_EQ(calibrated(calibration, base.dump()).hasGatedMatmuls(), has);
  }
}

TEST(Calibration, IsTheSameFromARecording) {
  Figures figures{kRanks, "cuda-peer", kRanks, kCores, "made up", measureGpu(), {}, {"a b"}};
  figures.measurements.push_back(
      {Role::Probe, "put 4 x9", Mode::Graph, "why", {}, {}, false, 0, "", nullptr});
  roundTimes(figures);
  std::string path = testing::TempDir() + "/tandem-figures.json";
  std::ofstream(path) << figuresJson(figures);
  auto read = readFigures(path);
  ASSERT_TRUE(read) << read.status().message();
  EXPECT_EQ(read->ranks, kRanks);
  EXPECT_EQ(read->target, "cuda-peer");
  EXPECT_EQ(read->cores, kCores);
  ASSERT_EQ(read->measurements.size(), figures.measurements.size());
  EXPECT_EQ(read->measurements.back().refused, "why");
  // To the last bit: half a unit of a machine file's last digit can be the time of one nanosecond.
  for (size_t i = 0; i < figures.measurements.size(); ++i) {
    EXPECT_EQ(read->measurements[i].seconds, figures.measurements[i].seconds);
    EXPECT_EQ(read->measurements[i].host, figures.measurements[i].host);
  }
  EXPECT_EQ(read->left, figures.left);
  std::string texts[2];
  for (auto *one : {&figures, &*read}) {
    Calibration calibration(kRanks, true, kRanks, kCores);
    calibration.note(one->measurements);
    auto text = calibration.apply(baseText("h200x8"), "here", "made up");
    ASSERT_TRUE(text) << text.status().message();
    texts[one == &figures ? 0 : 1] = *text;
  }
  EXPECT_EQ(texts[0], texts[1]);
}

TEST(Calibration, RefusesFiguresThatAreNone) {
  std::string path = testing::TempDir() + "/tandem-no-figures.json";
  auto errorOf = [&](const std::string &text) {
    std::ofstream(path) << text;
    return readFigures(path).status().message();
  };
  EXPECT_THAT(errorOf("[]"), HasSubstr("tandem_probe_figures: expected version 1"));
  std::string head = R"({"tandem_probe_figures": 1, "ranks": 2, "target": "t", "host_ranks": 2,
      "cores": 2, "command": "", "figures": [)";
  EXPECT_EQ(errorOf(head + "]}"), "");
  std::string noRanks = head;
  noRanks.replace(noRanks.find("\"ranks\": 2"), 10, "\"ranks\": -1");
  EXPECT_THAT(errorOf(noRanks + "]}"), HasSubstr("ranks: expected 2 to 65536, found -1"));
  EXPECT_THAT(errorOf(head + R"({"name": "copy 4 x2", "mode": "fast"}]})"),
              HasSubstr("figures[0]: mode: expected direct or graph"));
  EXPECT_THAT(errorOf(head + R"({"name": "copy 4 x2", "mode": "graph", "times_us": [1],
      "host_us": []}]})"),
              HasSubstr("figures[0]: times_us, host_us"));
}

TEST(Calibration, AProbeThatIsShorterThanTheNoiseHasABound) {
  Probe ring;
  ring.work = Work::Message;
  ring.bytes = 65536;
  ring.repeats = 4;
  // The neighbours have cost the single ring more than three rings take.
  Measurement one, many;
  one.name = ring.once().name();
  one.seconds = one.host = {9e-6, 9e-6, 9e-6};
  many.name = ring.name();
  many.seconds = many.host = {4e-6, 8e-6, 12e-6};
  Calibration calibration(kRanks, false, kRanks, kCores);
  EXPECT_FALSE(calibration.mostSeconds(ring, Mode::Direct));
  calibration.note({one, many});
  EXPECT_FALSE(calibration.seconds(ring, Mode::Direct));
  EXPECT_DOUBLE_EQ(calibration.mostSeconds(ring, Mode::Direct).value_or(0), 2e-6);
  EXPECT_FALSE(calibration.mostSeconds(ring, Mode::Graph));
}

TEST(Calibration, RefusesABaseThatIsNone) {
  Calibration calibration(kRanks, false, kRanks, kCores);
  EXPECT_FALSE(calibration.apply("{", "here", "").ok());
}

TEST(Probes, HaveNamesOfTheirOwn) {
  for (bool gpu : {false, true}) {
    std::set<std::string> names;
    for (const std::vector<Case> &cases : {std::vector<Case>(), kCases}) {
      names.clear();
      for (const Probe &probe : probesFor(8, gpu, cases)) {
        EXPECT_GT(probe.repeats, 1u);
        EXPECT_TRUE(names.insert(probe.name()).second) << probe.name();
        auto parsed = parseProbe(probe.name());
        ASSERT_TRUE(parsed) << probe.name();
        EXPECT_EQ(parsed->name(), probe.name());
        EXPECT_EQ(probeText(*parsed, 8), probeText(probe, 8));
      }
    }
  }
}

TEST(Probes, NamesThatAreNone) {
  for (const char *name : {"", "matmul", "matmul 256 x5", "copy x5", "hop 256 x5", "push 256 x5",
                           "copy 256", "copy 256 x5 alone x5", "copy 256 x100000"})
    EXPECT_FALSE(parseProbe(name)) << name;
  EXPECT_FALSE(parseProbe(std::string(1 << 20, 'a')));
}

TEST(Probes, Texts) {
  Probe put;
  put.work = Work::Put;
  put.bytes = 100;
  put.repeats = 3;
  std::string text = probeText(put, 4);
  EXPECT_THAT(text, HasSubstr("symmetric_bytes = 128"));
  EXPECT_THAT(text, HasSubstr("can [one_sided]"));
  Probe exchange;
  exchange.work = Work::ExchangeTwice;
  exchange.bytes = 256;
  text = probeText(exchange, 2);
  EXPECT_THAT(text, HasSubstr("hostir.fused_exchange on %main blocks 1 {"));
  EXPECT_THAT(text, HasSubstr("hostir.signal %c1 = %value"));
  Probe alone;
  alone.alone = true;
  EXPECT_THAT(probeText(alone, 4), HasSubstr("scf.if %alone"));
}
