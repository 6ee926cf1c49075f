//===- SignalsTest.cpp - signals to GPUs without atomic operations ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"
#include "Support/ExchangeSpec.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

/// Four runs that add what all ranks have, each with other values.
Status addFour(Context &context, Instance &instance) {
  TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
  size_t count = memory[0]->size() / 4;
  auto ranks = static_cast<float>(context.worldSize());
  for (int run = 1; run <= 4; ++run) {
    std::vector<float> values(count, static_cast<float>(run));
    TANDEM_RETURN_IF_ERROR(context.device().upload(memory[0]->data(), values.data(), count * 4));
    TANDEM_RETURN_IF_ERROR(instance.run());
    TANDEM_RETURN_IF_ERROR(context.device().download(values.data(), memory[1]->data(), count * 4));
    for (float value : values)
      if (value != static_cast<float>(run) * ranks)
        return Status(Code::Internal, fmt::format("run {}: found {}", run, value));
  }
  return Status();
}

/// What all runs of a program have raised so far, by maxima and by plain stores.
struct Raised {
  int64_t maxima = fakeNumber("raises"), plain = fakeNumber("plain-raises");
};

/// An exchange as one kernel, whose signals are of steps, of blocks or words; or in parts.
ProgramSpec sums(uint32_t ranks, int signals) {
  ExchangeSpec spec(ranks, false, 64, 2, static_cast<uint8_t>(std::max(signals, 0)));
  if (signals < 0)
    spec.makePlain();
  return std::move(spec);
}

TEST(GpuSignals, ArePlainStoresWhereAtomicOperationsAreNot) {
  for (bool graphs : {true, false})
    for (uint32_t ranks : {2, 4}) // 4: two on each GPU
      for (int signals : {-1, 0, 1, 2}) {
        SCOPED_TRACE(fmt::format("{} ranks, signals {}, graphs {}", ranks, signals, graphs));
        RankOptions options;
        options.graphs = graphs;
        Raised before;
        expectAllOk(runRanks(sums(ranks, signals), "peer", addFour, options));
        Raised with;
        EXPECT_EQ(with.plain, before.plain);
        Knob none("no-atomics", 1);
        takeLog();
        expectAllOk(runRanks(sums(ranks, signals), "peer", addFour, options));
        Raised without;
        EXPECT_EQ(without.maxima, with.maxima);
        EXPECT_EQ(without.plain - with.plain, with.maxima - before.maxima);
        if (!graphs && signals < 2) { // else copies and words may do without
          EXPECT_GT(without.plain, with.plain);
        }
        if (!testsHip()) {
          EXPECT_EQ(takeLog().find("one by one"), std::string::npos);
        }
      }
}

// A plain store can lower what an abort has raised: a stream memory operation would wait for ever.
TEST(GpuSignals, ThatArePlainStoresAreAwaitedByKernels) {
  if (testsHip())
    GTEST_SKIP() << "there are no stream memory operations";
  RankOptions options;
  options.graphs = false;
  int64_t before = fakeNumber("launches.signal_wait");
  expectAllOk(runRanks(sums(2, -1), "peer", addFour, options));
  EXPECT_EQ(fakeNumber("launches.signal_wait"), before);
  Knob none("no-atomics", 1);
  expectAllOk(runRanks(sums(2, -1), "peer", addFour, options));
  EXPECT_EQ(fakeNumber("launches.signal_wait"), before + 8);
}

// One GPU's atomic operations on its own memory are atomic.
TEST(GpuSignals, OfRanksThatShareAGpuAreMaxima) {
  RankOptions options;
  options.gpus = 1;
  Knob none("no-atomics", 1);
  Raised before;
  expectAllOk(runRanks(sums(2, -1), "peer", addFour, options));
  Raised after;
  EXPECT_GT(after.maxima, before.maxima);
  EXPECT_EQ(after.plain, before.plain);
}

TEST(GpuSignals, OfSeveralWritersNeedAtomicOperations) {
  ProgramSpec spec = sums(2, /*signals=*/-1); // those of an exchange have one writer
  for (RankSpec &rank : spec.ranks)
    for (CommandSpec &command : rank.commands)
      if (command.kind == sp::CommandKind::signal)
        command.flags = 0; // not exclusive
  expectAllOk(runRanks(spec, "peer", addFour));
  Knob none("no-atomics", 1);
  std::vector<Status> ranks = runRanks(spec, "peer", addFour);
  for (uint32_t r : {0, 1}) {
    EXPECT_EQ(ranks[r].code(), Code::Unsupported) << ranks[r].message();
    EXPECT_NE(ranks[r].message().find(
                  fmt::format("several ranks or streams raise signal slot {} of rank {}, and "
                              "GPUs of its group have no atomic operations on each other's "
                              "memory",
                              r, 1 - r)),
              std::string::npos)
        << ranks[r].message();
  }
}

} // namespace
