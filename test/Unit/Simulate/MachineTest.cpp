//===- MachineTest.cpp - machine files and their formulas ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToyMachine.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::machine {
namespace {

using test::toyMachine;
using test::toyMachineText;
using testing::HasSubstr;

TEST(Machine, ShippedFilesAreGood) {
  for (const auto &file : std::filesystem::directory_iterator(TANDEM_MACHINES)) {
    std::string name = file.path().stem();
    auto machine = Machine::load(file.path());
    ASSERT_TRUE(machine.ok()) << machine.status().message();
    EXPECT_EQ(machine->name, name);
    EXPECT_FALSE(machine->about.empty());
    for (const Source &source : machine->sources) {
      EXPECT_GT(source.text.size(), 20u) << name << ": " << source.name;
      if (source.kind == Source::Published) {
        EXPECT_THAT(source.text, HasSubstr("https://")) << name << ": " << source.name;
      }
    }
    EXPECT_GT(machine->numbersBySource[0] + machine->numbersBySource[1] +
                  machine->numbersBySource[2],
              30u);
  }
}

TEST(Machine, PathOfABareName) {
  EXPECT_TRUE(std::filesystem::equivalent(pathOf("h200x8"), TANDEM_MACHINES "/h200x8.json"));
  EXPECT_EQ(pathOf("folder/h200x8"), "folder/h200x8");
  ASSERT_EQ(setenv("TANDEM_MACHINES", "elsewhere", /*overwrite=*/1), 0);
  EXPECT_EQ(pathOf("h200x8"), "elsewhere/h200x8.json");
  EXPECT_EQ(pathOf("h200x8.json"), "elsewhere/h200x8.json");
  unsetenv("TANDEM_MACHINES");
}

/// Machine files in a folder of their own.
struct MachineExtends : testing::Test {
  void SetUp() override {
    folder = testing::TempDir() + "machine-extends-XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string path(const std::string &name) const { return folder + "/" + name; }
  void write(const std::string &name, const std::string &text) const {
    std::ofstream(path(name)) << text;
  }
  std::string error(const std::string &name) const {
    return std::string(Machine::load(path(name)).status().message());
  }

  std::string folder;
};

TEST_F(MachineExtends, ObjectsAreMergedByKey) {
  write("base.json", toyMachineText({{"/device/sm_interference", R"([2, "1", "toy"])"}}));
  write("middle.json", R"({"extends": "base", "name": "middle",
      "sources": {"here": {"kind": "measured", "text": "here"}},
      "device": {"sms": [50, "1", "here"], "sm_interference": null}})");
  write("top.json", R"({"extends": "./middle.json", "name": "top",
      "device": {"memory": {"copy": [[[8, 2], [16, 4]], "GB/s", "here"]}}})");
  Machine base = toyMachine();
  auto middle = Machine::load(path("middle.json")), top = Machine::load(path("top.json"));
  ASSERT_TRUE(middle.ok() && top.ok()) << error("middle.json") << error("top.json");
  EXPECT_EQ(middle->name, "middle");
  EXPECT_EQ(middle->sms, 50);
  EXPECT_EQ(middle->smInterference, 1); // the default
  EXPECT_EQ(middle->copyEngines, base.copyEngines);
  EXPECT_EQ(middle->memorySeconds(MemoryWork::Copy, 8), base.memorySeconds(MemoryWork::Copy, 8));
  EXPECT_EQ(middle->sources.size(), 2u);
  EXPECT_EQ(middle->numbersBySource[Source::Measured], 1u);
  EXPECT_EQ(top->name, "top");
  EXPECT_EQ(top->sms, 50);
  EXPECT_EQ(top->memory[0].at(16), 4e9);
  EXPECT_EQ(top->memory[1].at(16), base.memory[1].at(16));
  auto files = readMachine(path("top.json"));
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->size(), 3u);
  EXPECT_TRUE(std::filesystem::equivalent((*files)[2].path, path("base.json")));
  EXPECT_THAT((*files)[1].text, HasSubstr("middle"));
}

TEST_F(MachineExtends, TablesOfMatmulsHaveNames) {
  std::string table =
      R"({"dtypes": ["f32", "f16"], "unit": "us", "source": "toy", "points": [[8, 8, 8, 1]]})";
  write("base.json", toyMachineText({{"/device/matmul", R"({"f32": )" + table + R"(, "bf16": {
      "dtypes": ["bf16"], "unit": "us", "source": "toy", "points": [[8, 8, 8, 2]]}})"}}));
  write("top.json",
        R"({"extends": "base", "device": {"matmul": {"bf16": {"points": [[8, 8, 8, 4]]}}}})");
  auto machine = Machine::load(path("top.json"));
  ASSERT_TRUE(machine.ok()) << error("top.json");
  EXPECT_EQ(machine->matmuls[static_cast<size_t>(DType::F16)].at(0).seconds, 1e-6);
  ASSERT_EQ(machine->matmuls[static_cast<size_t>(DType::BF16)].size(), 1u);
  EXPECT_EQ(machine->matmuls[static_cast<size_t>(DType::BF16)][0].seconds, 4e-6);
  write("top.json", R"({"extends": "base", "device": {"matmul": {"bf16": {"unit": "B"}}}})");
  EXPECT_THAT(error("top.json"), HasSubstr("top.json: device.matmul.bf16.unit: expected one of"));
}

TEST_F(MachineExtends, AFileOfTheSameFolderComesBeforeAShippedOne) {
  write("mine.json", R"({"extends": "h200x8", "devices_per_node": 4})");
  auto machine = Machine::load(path("mine.json"));
  ASSERT_TRUE(machine.ok()) << error("mine.json");
  EXPECT_EQ(machine->name, "h200x8");
  EXPECT_EQ(machine->devicesPerNode, 4u);
  write("h200x8.json", toyMachineText());
  EXPECT_EQ(Machine::load(path("mine.json"))->name, "toy");
}

TEST_F(MachineExtends, ErrorsNameTheFileWithTheMistake) {
  write("base.json", toyMachineText());
  write("one.json", R"({"extends": "two"})");
  write("two.json", R"({"extends": "one.json"})");
  write("self.json", R"({"extends": "self"})");
  EXPECT_EQ(error("self.json"),
            path("self.json") + ": extends: a cycle: " + path("self.json") + " extends this file");
  EXPECT_EQ(error("one.json"), path("one.json") + ": extends: " + path("two.json") +
                                   ": extends: a cycle: " + path("one.json") +
                                   " extends this file");
  write("top.json", R"({"extends": "nothing"})");
  EXPECT_THAT(error("top.json"), testing::StartsWith(path("top.json") + ": extends: "));
  EXPECT_THAT(error("top.json"), HasSubstr("machines/nothing.json: cannot read: "));
  write("top.json", R"({"extends": "./nothing"})");
  EXPECT_THAT(error("top.json"), HasSubstr(path("./nothing.json") + ": cannot read: "));
  write("top.json", R"({"extends": ["base"]})");
  EXPECT_EQ(error("top.json"), path("top.json") + ": extends: expected the name of a machine file");
  // What does not fit is the file's that has it.
  write("top.json", R"({"extends": "base", "device": {"sms": 3}})");
  EXPECT_EQ(error("top.json"),
            path("top.json") + ": device.sms: expected [value, unit, source], found 3");
  write("base.json", toyMachineText({{"/device/sms", "4"}}));
  write("top.json", R"({"extends": "base", "name": "top"})");
  EXPECT_EQ(error("top.json"), path("top.json") + ": extends: " + path("base.json") +
                                   ": device.sms: expected [value, unit, source], found 4");
  for (const char *text : {"[]", "{", "\"base\"", ""}) {
    write("base.json", text);
    write("top.json", R"({"name": {"extends": 1}, "extends": "base"})"); // the outermost one counts
    EXPECT_THAT(error("top.json"), HasSubstr(": extends: " + path("base.json") + ": ")) << text;
  }
  write("top.json", R"({"extends": "base", )");
  EXPECT_THAT(error("top.json"), testing::StartsWith(path("top.json") + ": "));
  // A text alone has no folder.
  EXPECT_THAT(Machine::parse(R"({"extends": "h200x8"})", "bad.json").status().message(),
              HasSubstr("bad.json: extends: unknown field"));
}

TEST(Machine, OffersWhatItsFileHas) {
  using program::Capability;
  auto offers = [](const std::map<std::string, std::string> &changes) {
    return toyMachine(changes).capabilities();
  };
  EXPECT_TRUE(offers({}).empty());
  EXPECT_TRUE(offers({{"/links/node/topology", R"("mesh")"}}).has(Capability::LinkPerPair));
  std::map<std::string, std::string> kernel{
      {"/transports/fused_exchange",
       R"({"startup": [1, "us", "toy"], "signal": [1, "us", "toy"]})"}};
  EXPECT_TRUE(offers(kernel).has(Capability::SimpleProtocol));
  EXPECT_TRUE((offers(kernel) - program::CapabilitySet{Capability::SimpleProtocol}).empty());
  kernel["/transports/fused_exchange/ll_signal"] = R"([1, "us", "toy"])";
  kernel["/transports/fused_exchange/beside_compute"] = R"([1, "1", "toy"])";
  EXPECT_TRUE(offers(kernel).has(Capability::LLProtocol));
  EXPECT_TRUE(offers(kernel).has(Capability::StoresBesideCompute));
  EXPECT_FALSE(offers(kernel).has(Capability::BlockProtocol));
}

TEST(Machine, MarginsAreThoseOfItsFile) {
  EXPECT_EQ(toyMachine().margins.gain, program::Margins().gain);
  program::Margins margins =
      toyMachine(
          {{"/selection", R"({"gain": [0.5, "1", "toy"], "time_of_split": [2, "ms", "toy"]})"}})
          .margins;
  EXPECT_EQ(margins.gain, 0.5);
  EXPECT_EQ(margins.secondsOfSplit, 2e-3);
  EXPECT_EQ(margins.seconds, program::Margins().seconds);
  program::Thresholds sizes =
      toyMachine({{"/selection", R"({"row": [2, "KiB", "toy"], "most_blocks": [3, "1", "toy"]})"}})
          .margins.thresholds;
  EXPECT_EQ(sizes.row, 2048);
  EXPECT_EQ(sizes.mostBlocks, 3);
  EXPECT_EQ(sizes.kernel, program::Thresholds().kernel);
}

// Numbers of the H200's own file against what was measured there (ms).
TEST(Machine, ChoosesThePlainestThatIsNearlyTheFastest) {
  Machine machine;
  auto choose = [&](std::vector<double> microseconds) {
    for (double &one : microseconds)
      one *= 1e-6;
    return machine.choose(microseconds);
  };
  EXPECT_EQ(choose({}), 0u);
  EXPECT_EQ(choose({40}), 0u);
  EXPECT_EQ(choose({78.0, 78.1, 75.4, 100.8}), 0u);    // gains less than 5 us
  EXPECT_EQ(choose({300, 295.5, 293, 294}), 0u);       // ... than 3 %
  EXPECT_EQ(choose({207.8, 158.3, 155.3, 160.7}), 1u); // as fast as 2, but for 2 %
  EXPECT_EQ(choose({300.8, 225.5, 199.1, 193.3}), 3u);
  machine.margins.tolerance = 0.04;
  EXPECT_EQ(choose({300.8, 225.5, 199.1, 193.3}), 2u);
  machine.margins.gainOfCopies = 0.4;
  EXPECT_EQ(choose({300.8, 225.5, 199.1, 193.3}), 0u);
}

TEST(Machine, FilesOfGpus) {
  auto find = [](const char *gpu, uint32_t ranks) { return findForGpu(gpu, ranks); };
  EXPECT_EQ(find("NVIDIA H200", 1), "h200x2");
  EXPECT_EQ(find("NVIDIA H200", 2), "h200x2");
  EXPECT_EQ(find("NVIDIA H200", 3), "h200x4");
  EXPECT_EQ(find("NVIDIA H200", 8), "h200x8");
  EXPECT_EQ(find("NVIDIA H200", 9), "");
  EXPECT_EQ(find("NVIDIA H100 80GB HBM3", 2), "h100x2");
  EXPECT_EQ(find("NVIDIA H100 80GB HBM3", 4), "h100x8"); // no pod, whose nodes are these
  EXPECT_EQ(find("AMD Instinct MI300X", 8), "mi300x8");
  EXPECT_EQ(find("NVIDIA A100-SXM4-80GB", 2), "");
  EXPECT_EQ(find("", 2), "");
}

TEST(Machine, H200MatmulsAndCollectives) {
  auto machine = Machine::load(std::string(TANDEM_MACHINES) + "/h200x8.json");
  ASSERT_TRUE(machine.ok());
  EXPECT_NEAR(machine->matmulSeconds(DType::BF16, 1, 8192, 3584, 8192), .607e-3, 1e-6);
  EXPECT_NEAR(machine->matmulSeconds(DType::BF16, 1, 8192, 6656, 16384), 2.366e-3, 1e-6);
  // A chunk of an eighth of the rows costs something, but not much.
  double chunks = 8 * machine->matmulSeconds(DType::BF16, 1, 1024, 3584, 8192);
  EXPECT_GT(chunks, .607e-3 * 1.02);
  EXPECT_LT(chunks, .607e-3 * 1.35);
  double gather = machine->collectiveCost(CollectiveKind::AllGather, 8, 1, 1024 * 8192 * 2).seconds;
  EXPECT_NEAR(gather, .383e-3, .02e-3);
}

TEST(Machine, MatmulMeetsItsPointsAndStaysBetweenThem) {
  Machine machine =
      toyMachine({{"/device/matmul/0/points",
                   "[[100, 1000, 1000, 0.5], [1000, 1000, 1000, 0.8], [4000, 1000, 1000, 1.0]]"}});
  auto rate = [&](double m) {
    return 2 * m * 1e6 / machine.matmulSeconds(DType::F32, 1, m, 1000, 1000) / 1e12;
  };
  EXPECT_NEAR(rate(100), 0.5, 1e-6);
  EXPECT_NEAR(rate(1000), 0.8, 1e-6);
  EXPECT_NEAR(rate(4000), 1.0, 1e-6);
  EXPECT_GT(rate(300), 0.5);
  EXPECT_LT(rate(300), 0.8);
  // More work takes longer.
  double last = 0;
  for (int rows = 16; rows <= 65536; rows *= 2) {
    double seconds = machine.matmulSeconds(DType::F32, 1, rows, 1000, 1000);
    EXPECT_GT(seconds, last);
    last = seconds;
  }
  EXPECT_EQ(machine.matmulSeconds(DType::F32, 1, 0, 1000, 1000), 0);
}

TEST(Machine, AMatmulIsNoQuickerThanItsOperandsAreRead) {
  Machine machine = toyMachine({{"/device/memory/elementwise", R"([1, "GB/s", "toy"])"}});
  // 4 bytes * (1 * 1000 + 1000 * 1000 + 1000).
  EXPECT_NEAR(machine.matmulSeconds(DType::F32, 1, 1, 1000, 1000), 4.008e-3, 1e-9);
}

TEST(Machine, MatmulsAreSlowerWhoseRowsDoNotBeginAtLines) {
  std::map<std::string, std::string> changes = {
      {"/device/matmul/0/points", "[[1000, 1024, 1024, 1]]"},
      {"/device/matmul/0/unaligned",
       R"({"left": [[[16, 1.2], [128, 1]], "1", "toy"], "both": [[[16, 2], [128, 1]], "1", "toy"]})"}};
  Machine machine = toyMachine(changes);
  auto slowdown = [&](uint64_t left, uint64_t right) {
    return machine.matmulSeconds(DType::BF16, 1, 1000, 1024, 1024, {left, right}) /
           machine.matmulSeconds(DType::BF16, 1, 1000, 1024, 1024);
  };
  EXPECT_NEAR(slowdown(128, 128), 1, 1e-9);
  EXPECT_NEAR(slowdown(16, 128), 1.2, 1e-9);
  EXPECT_EQ(slowdown(128, 16), 1);
  EXPECT_NEAR(slowdown(16, 16), 2, 1e-9);
  EXPECT_NEAR(slowdown(16, 32), std::sqrt(2 * (2 - 1. / 3)), 1e-9);
  // Dense rows of 1028 numbers begin at multiples of 8 bytes in bf16, and of 16 in f32.
  EXPECT_NEAR(machine.matmulSeconds(DType::F32, 1, 1000, 1024, 1028) /
                  machine.matmulSeconds(DType::F32, 1, 1000, 1024, 1024),
              1.2 * 1028 / 1024, 1e-6);
  // A measured matmul takes what was measured.
  changes["/device/matmul/0/points"] = "[[1000, 1028, 1028, 1], [1000, 4096, 4096, 2]]";
  EXPECT_NEAR(toyMachine(changes).matmulSeconds(DType::F32, 1, 1000, 1028, 1028),
              2e3 * 1028 * 1028 / 1e12, 1e-9);
}

TEST(Machine, MatmulsAreOfWholeTiles) {
  Machine machine = toyMachine({{"/device/matmul/0/points", "[[1000, 1000, 1000, 1]]"},
                                {"/device/matmul/0/tile", R"([128, "1", "toy"])"}});
  auto seconds = [&](double batch, double m, double n) {
    return machine.matmulSeconds(DType::F32, batch, m, n, 1000);
  };
  // A point takes what was measured.
  EXPECT_NEAR(seconds(1, 1000, 1000), 2e-3, 1e-9);
  EXPECT_EQ(seconds(1, 897, 1024), seconds(1, 1024, 1000));
  EXPECT_NEAR(seconds(1, 1025, 1000), 2e-3 * 9 / 8, 1e-9);
  EXPECT_NEAR(seconds(1, 1000, 1025), 2e-3 * 9 / 8, 1e-9);
  EXPECT_NEAR(seconds(3, 200, 1000), 2e-3 * 3 * 256 / 1024, 1e-9);
  // There are smaller tiles for few rows.
  EXPECT_NEAR(seconds(1, 64, 1000), 2e-3 * 64 / 1024, 1e-9);
}

TEST(Machine, SmallAllReducesGoThroughATree) {
  Machine machine = toyMachine({{"/transports/collectives/step", R"([10, "us", "toy"])"}});
  // 64 bytes among 16: 8 steps of a tree, not 30 of a ring.
  CollectiveCost small = machine.collectiveCost(CollectiveKind::AllReduce, 16, 1, 64);
  EXPECT_TRUE(small.tree);
  EXPECT_NEAR(small.latency, 80e-6, 1e-9);
  CollectiveCost large = machine.collectiveCost(CollectiveKind::AllReduce, 16, 1, 16e6);
  EXPECT_FALSE(large.tree);
  EXPECT_NEAR(large.seconds, 300e-6 + 30e-3, 1e-9);
  EXPECT_EQ(machine.collectiveCost(CollectiveKind::AllReduce, 1, 1, 16e6).seconds, 0);
}

TEST(Machine, CurvesAreLinearInTheLogarithm) {
  Curve curve({{1024, 1}, {4096, 3}});
  EXPECT_DOUBLE_EQ(curve.at(0), 1);
  EXPECT_DOUBLE_EQ(curve.at(2048), 2);
  EXPECT_DOUBLE_EQ(curve.at(4096), 3);
  EXPECT_DOUBLE_EQ(curve.at(1e9), 3);
}

TEST(Machine, MemoryAndLinksGoBySize) {
  const char *points = R"([[[1000, 4], [1000000, 1]], "GB/s", "toy"])";
  Machine machine =
      toyMachine({{"/device/memory/copy", points}, {"/links/node/bandwidth", points}});
  EXPECT_NEAR(machine.memorySeconds(MemoryWork::Copy, 1000), 0.25e-6, 1e-12);
  EXPECT_NEAR(machine.memorySeconds(MemoryWork::Copy, 1e7), 1e-2, 1e-9);
  EXPECT_NEAR(machine.messageSeconds(machine.twoSided, machine.node, 1000), 0.25e-6, 1e-12);
  EXPECT_TRUE(machine.scale("memory.bandwidth", 2).ok());
  EXPECT_TRUE(machine.scale("link.bandwidth", 4).ok());
  EXPECT_NEAR(machine.memorySeconds(MemoryWork::Copy, 1e7), 5e-3, 1e-9);
  EXPECT_NEAR(machine.messageSeconds(machine.twoSided, machine.node, 1e6), 0.25e-3, 1e-9);
}

// 1 MB is measured at 8 GB/s, from a cache. Memory has 2 GB/s: the rate of the largest piece.
TEST(Machine, WhatIsInNoCacheMovesAtTheRateOfTheLargestPiece) {
  Machine machine =
      toyMachine({{"/device/memory/elementwise",
                   R"([[[1000, 1], [1000000, 8], [1000000000, 2]], "GB/s", "toy"])"}});
  EXPECT_NEAR(machine.uncachedSeconds(1e6), 0.5e-3, 1e-12);
  EXPECT_NEAR(machine.uncachedSeconds(1e9), 0.5, 1e-9);
  EXPECT_NEAR(machine.uncachedSeconds(1000), 1e-6, 1e-12);
}

TEST(Machine, SlowdownGoesFromAloneToAllCores) {
  EXPECT_EQ(slowdown(1.6, 1, 8), 1);
  EXPECT_NEAR(slowdown(1.7, 4, 8), 1.3, 1e-12);
  EXPECT_EQ(slowdown(1.6, 8, 8), 1.6);
  EXPECT_EQ(slowdown(1.6, 20, 8), 1.6);
  EXPECT_EQ(slowdown(1.6, 3, 0), 1);
}

TEST(Machine, ScalesWhatIsNamed) {
  for (std::string_view name : Machine::scalable()) {
    Machine machine = toyMachine();
    EXPECT_TRUE(machine.scale(name, 2).ok()) << name;
  }
  Machine machine = toyMachine();
  EXPECT_TRUE(machine.scale("matmul.rate", 4).ok());
  EXPECT_NEAR(machine.matmulSeconds(DType::F32, 1, 1000, 1000, 1000), 0.5e-3, 1e-9);
  machine.graph.engineStart = machine.graph.engineChange = 3e-6;
  machine.graph.run = machine::Curve({{20, 10e-6}, {80, 15e-6}});
  EXPECT_TRUE(machine.scale("host.issue", 2).ok());
  EXPECT_NEAR(machine.graph.run.at(20), 20e-6, 1e-12);
  EXPECT_NEAR(machine.graph.run.at(80), 30e-6, 1e-12);
  EXPECT_EQ(machine.graph.engineChange, 3e-6);
  EXPECT_TRUE(machine.scale("device.overhead", 2).ok());
  EXPECT_EQ(machine.graph.engineStart, 6e-6);
  EXPECT_EQ(machine.graph.engineChange, 6e-6);
  machine.exchange.blockSignal = 4e-6;
  machine.exchange.llSignal = 2e-6;
  machine.exchange.llReads = 5e11;
  EXPECT_TRUE(machine.scale("link.latency", 2).ok());
  EXPECT_EQ(machine.exchange.blockSignal, 8e-6);
  EXPECT_EQ(machine.exchange.llSignal, 4e-6);
  EXPECT_TRUE(machine.scale("memory.bandwidth", 2).ok());
  EXPECT_EQ(machine.exchange.llReads, 1e12);
  EXPECT_THAT(machine.scale("link.width", 2).message(),
              HasSubstr("no parameter \"link.width\", expected one of link.bandwidth"));
  EXPECT_THAT(machine.scale("link.latency", 0).message(), HasSubstr("expected a factor above 0"));
}

struct Bad {
  const char *name, *pointer, *value, *message;
};
class MachineErrors : public testing::TestWithParam<Bad> {};

TEST_P(MachineErrors, NameFileAndField) {
  const Bad &bad = GetParam();
  auto machine = Machine::parse(toyMachineText({{bad.pointer, bad.value}}), "bad.json");
  ASSERT_FALSE(machine.ok());
  EXPECT_EQ(machine.status().message(), std::string("bad.json: ") + bad.message);
}

INSTANTIATE_TEST_SUITE_P(
    All, MachineErrors,
    testing::Values(
        Bad{"version", "/tandem_machine", "2", "tandem_machine: expected version 1, found 2"},
        Bad{"unknown", "/links/node/width", "1",
            "links.node.width: unknown field, expected one of topology, latency, bandwidth, "
            "sharing, core"},
        Bad{"bareNumber", "/links/node/bandwidth", "385",
            "links.node.bandwidth: expected [value, unit, source], found 385"},
        Bad{"margin", "/selection", R"({"gains": 1})",
            "selection.gains: unknown field, expected one of gain, gain_of_copies, gain_of_stores, "
            "tolerance, time, time_of_gathers, time_of_kernel, time_of_split, one_shot, kernel, "
            "block, "
            "block_ll, one_block, most_blocks, push_blocks, row"},
        Bad{"threshold", "/selection", R"({"kernel": [0, "KiB", "toy"]})",
            "selection.kernel: expected a number from 0.0009765625 to 976562500, found 0"},
        Bad{"thresholdBlocks", "/selection", R"({"push_blocks": [2000, "1", "toy"]})",
            "selection.push_blocks: expected a number from 1 to 1024, found 2000"},
        Bad{"thresholdUnit", "/selection", R"({"most_blocks": [1, "KiB", "toy"]})",
            "selection.most_blocks: expected one of the units 1, found \"KiB\""},
        Bad{"unit", "/links/node/bandwidth", R"([385, "us", "toy"])",
            "links.node.bandwidth: expected one of the units GB/s, TB/s, found \"us\""},
        Bad{"source", "/links/node/bandwidth", R"([385, "GB/s", "hearsay"])",
            "links.node.bandwidth: expected the name of a source, found \"hearsay\""},
        Bad{"range", "/device/sms", R"([0, "1", "toy"])",
            "device.sms: expected a number from 1 to 1000000, found 0"},
        Bad{"contention", "/device/contention",
            R"({"matmul": [1.6, "1", "toy"], "memory": [1, "1", "toy"]})",
            "device.contention: needs device.cores of 2 or more"},
        Bad{"contentionField", "/device/contention", R"({"matmuls": [1.6, "1", "toy"]})",
            "device.contention.matmuls: unknown field, expected one of matmul, memory"},
        Bad{"contentionRange", "/device/contention", R"({"matmul": [0.6, "1", "toy"]})",
            "device.contention.matmul: expected a number from 1 to 100, found 0.6"},
        Bad{"memoryPoint", "/device/memory/copy", R"([[[8, 0]], "GB/s", "toy"])",
            "device.memory.copy: expected a number from 1e-09 to 1000000000, found 0"},
        Bad{"linkPoints", "/links/node/bandwidth", R"([[[8, 2], [8, 4]], "GB/s", "toy"])",
            "links.node.bandwidth: expected [bytes, value] with bytes ascending, found [8,4]"},
        Bad{"runPoints", "/launch/streams/run", R"([[[8, 2], [8, 4]], "us", "toy"])",
            "launch.streams.run: expected [us, value] with us ascending, found [8,4]"},
        Bad{"type", "/device/memory", "[]", "device.memory: expected an object, found []"},
        Bad{"topology", "/links/node/topology", R"("torus")",
            "links.node.topology: expected one of switch, mesh, shared, found \"torus\""},
        Bad{"nodes", "/nodes", "2",
            "links.network: expected this field: there is more than one node"},
        Bad{"launching", "/launch/streams/signals", R"([3, "us", "toy"])",
            "launch.streams.signals: unknown field, expected one of issue, device, run, "
            "engine_start, engine_change"},
        Bad{"engineStart", "/launch/streams/engine_start", R"([1, "GB/s", "toy"])",
            "launch.streams.engine_start: expected one of the units s, ms, us, ns, found \"GB/s\""},
        Bad{"engineChange", "/launch/streams/engine_change", R"([-1, "us", "toy"])",
            "launch.streams.engine_change: expected a number from 0 to 1000000, found -1"},
        Bad{"kind", "/sources/toy/kind", R"("rumour")",
            "sources.toy.kind: expected one of measured, published, estimate, found \"rumour\""},
        Bad{"point", "/device/matmul/0/points/0", "[1, 2, 3]",
            "device.matmul[0].points[0]: expected [m, n, k, value], all above 0, found [1,2,3]"},
        Bad{"unaligned", "/device/matmul/0/unaligned",
            R"({"left": [[[16, 0.5]], "1", "toy"], "both": [1, "1", "toy"]})",
            "device.matmul[0].unaligned.left: expected a number from 1 to 100, found 0.5"},
        Bad{"tile", "/device/matmul/0/tile", R"([0, "1", "toy"])",
            "device.matmul[0].tile: expected a number from 1 to 1024, found 0"},
        Bad{"tileTwice", "/device/matmul",
            R"([{"dtypes": ["f32", "f16"], "unit": "us", "source": "toy", "points": [[1, 1, 1, 1]],
                 "tile": [64, "1", "toy"]},
                {"dtypes": ["f16", "bf16"], "unit": "us", "source": "toy", "points": [[1, 1, 1, 1]],
                 "tile": [128, "1", "toy"]}])",
            "device.matmul[1].tile: another table has that of f16"},
        Bad{"tilePart", "/device/matmul/0/tile", R"([1.5, "1", "toy"])",
            "device.matmul[0].tile: expected a whole number, found 1.5"},
        Bad{"unalignedField", "/device/matmul/0/unaligned", R"({"left": [1, "1", "toy"]})",
            "device.matmul[0].unaligned.both: missing"},
        Bad{"tables", "/device/matmul", "3",
            "device.matmul: expected tables by name, or a list, found 3"},
        Bad{"dtype", "/device/matmul/0/dtypes", R"(["f32"])", "device.matmul: no point for f16"},
        Bad{"curve", "/transports/two_sided/startup", R"([[[8, 1], [4, 2]], "us", "toy"])",
            "transports.two_sided.startup: expected [bytes, value] with bytes ascending, found "
            "[4,2]"},
        Bad{"count", "/devices_per_node", "-1",
            "devices_per_node: expected a whole number from 1 to 1048576, found -1"}),
    [](const auto &info) { return std::string(info.param.name); });

TEST(Machine, MissingFields) {
  auto machine = Machine::parse(R"({"tandem_machine": 1, "name": "x"})", "bad.json");
  ASSERT_FALSE(machine.ok());
  EXPECT_EQ(machine.status().message(), "bad.json: about: missing");
}

TEST(Machine, NotJson) {
  auto machine = Machine::parse("{", "bad.json");
  ASSERT_FALSE(machine.ok());
  EXPECT_THAT(machine.status().message(), HasSubstr("bad.json: "));
  EXPECT_THAT(Machine::load("/nowhere/x.json").status().message(),
              HasSubstr("/nowhere/x.json: cannot read"));
  EXPECT_FALSE(Machine::parse("[]", "bad.json").ok());
  machine = Machine::parse(R"({"tandem_machine": 1e999})", "bad.json");
  ASSERT_FALSE(machine.ok());
  EXPECT_THAT(machine.status().message(), HasSubstr("bad.json: "));
}

} // namespace
} // namespace tandem::machine
