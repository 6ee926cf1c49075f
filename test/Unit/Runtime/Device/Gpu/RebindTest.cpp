//===- RebindTest.cpp - graphs of runs at other addresses ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "tandem/Runtime/Registry.h"

#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

/// Rows that copy engines copy: at least 1024 bytes, with space between them.
constexpr int64_t kRows = 2, kColumns = 256;
constexpr int64_t kExtent = 4;

/// Arguments x, w, rows; results y = x * w + x, half = the left half of each of `rows`. Two
/// streams. `collective`: y is then summed over the ranks.
ProgramSpec program(uint32_t ranks, bool copiesRows, bool collective) {
  ProgramSpec spec(ranks);
  uint32_t x = spec.stacked("x", false, DType::F32, {kExtent, kExtent});
  uint32_t w = spec.stacked("w", false, DType::F32, {kExtent, kExtent});
  uint32_t rows = spec.stacked("rows", false, DType::F32, {kRows, 2 * kColumns});
  uint32_t y = spec.stacked("y", true, DType::F32, {kExtent, kExtent});
  uint32_t half = spec.stacked("half", true, DType::F32, {kRows, kColumns});
  std::vector<uint32_t> all;
  for (uint32_t r = 0; r < ranks; ++r)
    all.push_back(r);
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = spec.ranks[r];
    auto matrix = [&](uint32_t i) {
      return rank.view(rank.argument(i, 4 * kExtent * kExtent), DType::F32, {kExtent, kExtent});
    };
    uint32_t xv = matrix(x), wv = matrix(w), yv = matrix(y);
    uint32_t left = rank.view(rank.argument(rows, 8 * kRows * kColumns), DType::F32,
                              {kRows, kColumns}, {2 * kColumns, 1}, 0);
    uint32_t to =
        rank.view(rank.argument(half, 4 * kRows * kColumns), DType::F32, {kRows, kColumns});
    rank.sync(1, 0);
    rank.add(sp::CommandKind::matmul, 1, {yv, xv, wv});
    rank.sync(0, 1);
    rank.add(sp::CommandKind::accumulate, 0, {yv, xv});
    if (copiesRows)
      rank.copy(1, to, left);
    rank.sync(0, 1);
    if (collective)
      rank.collective(0, rank.channel(all, Collectives), CollectiveKind::AllReduce, yv, yv);
  }
  return spec;
}

/// Memory for all arguments, with numbers that depend on `seed`.
class Set {
public:
  static Expected<Set> make(Context &context, Instance &instance, int seed) {
    Set set;
    TANDEM_ASSIGN_OR_RETURN(set.memory, bindAll(context, instance));
    for (size_t i : {0, 1, 2}) {
      std::vector<float> values(set.memory[i]->size() / 4);
      for (size_t e = 0; e < values.size(); ++e)
        values[e] = static_cast<float>((e + i + static_cast<size_t>(seed)) % 5);
      TANDEM_RETURN_IF_ERROR(
          context.device().upload(set.memory[i]->data(), values.data(), values.size() * 4));
      set.values[i] = std::move(values);
    }
    return set;
  }

  Status bind(Instance &instance) const {
    const auto &arguments = instance.program().arguments();
    for (uint32_t i = 0; i < memory.size(); ++i) {
      Layout layout = Layout::dense(DType::F32, arguments[i].localShape.data(),
                                    static_cast<unsigned>(arguments[i].localShape.size()));
      TANDEM_RETURN_IF_ERROR(
          instance.bind(i, {memory[i]->data(), layout}, arguments[i].localBytes()));
    }
    return Status();
  }

  /// Whether the results are right; then they are overwritten. `ranks`: summed over so many.
  Status check(Context &context, bool copiesRows, uint32_t ranks = 1) const {
    std::vector<float> y(kExtent * kExtent), half(kRows * kColumns);
    TANDEM_RETURN_IF_ERROR(context.device().download(y.data(), memory[3]->data(), y.size() * 4));
    TANDEM_RETURN_IF_ERROR(
        context.device().download(half.data(), memory[4]->data(), half.size() * 4));
    const std::vector<float> &x = values[0], &w = values[1], &rows = values[2];
    for (size_t i = 0; i < kExtent; ++i)
      for (size_t j = 0; j < kExtent; ++j) {
        float sum = x[i * kExtent + j];
        for (size_t k = 0; k < kExtent; ++k)
          sum += x[i * kExtent + k] * w[k * kExtent + j];
        if (y[i * kExtent + j] != sum * static_cast<float>(ranks))
          return Status(Code::Internal, "y: found " + std::to_string(y[i * kExtent + j]) +
                                            ", expected " +
                                            std::to_string(sum * static_cast<float>(ranks)));
      }
    for (size_t e = 0; copiesRows && e < half.size(); ++e)
      if (half[e] != rows[e / kColumns * 2 * kColumns + e % kColumns])
        return Status(Code::Internal, "half: element " + std::to_string(e));
    std::vector<float> zeros(std::max(y.size(), half.size()));
    TANDEM_RETURN_IF_ERROR(context.device().upload(memory[3]->data(), zeros.data(), y.size() * 4));
    return context.device().upload(memory[4]->data(), zeros.data(), half.size() * 4);
  }

private:
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<float> values[3];
};

/// What the stand-in driver has counted.
struct Counts {
  int64_t captures = fakeNumber("captures"), made = fakeNumber("instantiations"),
          patches = fakeNumber("patches"), launches = fakeNumber("graph-launches");
  Counts operator-(const Counts &before) const {
    Counts change;
    change.captures = captures - before.captures;
    change.made = made - before.made;
    change.patches = patches - before.patches;
    change.launches = launches - before.launches;
    return change;
  }
};

Status runAndCheck(Context &context, Instance &instance, const Set &set, bool copiesRows,
                   uint32_t ranks = 1) {
  TANDEM_RETURN_IF_ERROR(set.bind(instance));
  TANDEM_RETURN_IF_ERROR(instance.run());
  return set.check(context, copiesRows, ranks);
}

Expected<std::vector<Set>> makeSets(Context &context, Instance &instance, int count) {
  std::vector<Set> sets;
  for (int i = 0; i < count; ++i) {
    TANDEM_ASSIGN_OR_RETURN(Set set, Set::make(context, instance, i));
    sets.push_back(std::move(set));
  }
  return sets;
}

void onOneRank(bool copiesRows, const Part &part) {
  Status status = runRanks(program(1, copiesRows, false), "local", part)[0];
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(GpuRebind, EqualAddressesCostNothing) {
  onOneRank(true, [](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(Set set, Set::make(context, instance, 1));
    for (int run = 0; run < 2; ++run)
      TANDEM_RETURN_IF_ERROR(runAndCheck(context, instance, set, true));
    Counts before;
    for (int run = 0; run < 10; ++run)
      TANDEM_RETURN_IF_ERROR(runAndCheck(context, instance, set, true));
    Counts change = Counts() - before;
    EXPECT_EQ(change.launches, 10);
    EXPECT_EQ(change.captures + change.made + change.patches, 0);
    return Status();
  });
}

TEST(GpuRebind, NewAddressesChangeTheNodesThatHaveThem) {
  onOneRank(false, [](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto sets, makeSets(context, instance, 12));
    for (int i : {0, 1})
      TANDEM_RETURN_IF_ERROR(runAndCheck(context, instance, sets[static_cast<size_t>(i)], false));
    Counts before;
    for (size_t i = 2; i < sets.size(); ++i)
      TANDEM_RETURN_IF_ERROR(runAndCheck(context, instance, sets[i], false));
    Counts change = Counts() - before;
    EXPECT_EQ(change.made, 0);
    EXPECT_EQ(change.patches, 20);  // the product and the sum
    EXPECT_EQ(change.captures, 10); // of the library's work alone
    EXPECT_EQ(change.launches, 10);
    return Status();
  });
}

/// The driver cannot change such copies. They are kernels in a graph that is made when that is
/// found out.
TEST(GpuRebind, CopiesOfRowsAreMovedToo) {
  onOneRank(true, [](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto sets, makeSets(context, instance, 12));
    int64_t kernels = fakeNumber("launches.copy_128_32");
    for (size_t i = 0; i < 4; ++i)
      TANDEM_RETURN_IF_ERROR(runAndCheck(context, instance, sets[i], true));
    EXPECT_EQ(fakeNumber("launches.copy_128_32") - kernels, 2);
    Counts before;
    for (size_t i = 4; i < sets.size(); ++i)
      TANDEM_RETURN_IF_ERROR(runAndCheck(context, instance, sets[i], true));
    Counts change = Counts() - before;
    EXPECT_EQ(change.made, 0);
    EXPECT_EQ(change.patches, 24);
    return Status();
  });
}

/// In turn, but each in runs of both halves.
Status runAll(Context &context, Instance &instance, const std::vector<Set> &sets) {
  for (const Set &set : sets)
    for (int run = 0; run < 2; ++run)
      TANDEM_RETURN_IF_ERROR(runAndCheck(context, instance, set, true));
  return Status();
}

TEST(GpuRebind, AddressesThatReturnHaveGraphs) {
  onOneRank(true, [](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto sets, makeSets(context, instance, 8));
    for (int round = 0; round < 3; ++round)
      TANDEM_RETURN_IF_ERROR(runAll(context, instance, sets));
    Counts before;
    TANDEM_RETURN_IF_ERROR(runAll(context, instance, sets));
    Counts change = Counts() - before;
    EXPECT_EQ(change.launches, 16);
    EXPECT_EQ(change.captures + change.made + change.patches, 0);
    return Status();
  });
}

TEST(GpuRebind, MoreSetsThanGraphs) {
  onOneRank(true, [](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto sets, makeSets(context, instance, 20));
    Counts before;
    for (int round = 0; round < 3; ++round)
      TANDEM_RETURN_IF_ERROR(runAll(context, instance, sets));
    // The first ones, and those with kernels for rows: of 16 graphs for each parity.
    EXPECT_LE((Counts() - before).made, 64);
    return Status();
  });
}

/// Two runs in flight at different addresses; the graph of one is moved while the other runs.
TEST(GpuRebind, RunsInFlightKeepTheirAddresses) {
  Knob slow("product-time.0", 20000);
  Variable tune("TANDEM_TUNE", "0");
  onOneRank(true, [](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto sets, makeSets(context, instance, 12));
    for (size_t i = 0; i + 1 < sets.size(); i += 2) {
      for (size_t k : {i, i + 1}) {
        TANDEM_RETURN_IF_ERROR(sets[k].bind(instance));
        TANDEM_RETURN_IF_ERROR(instance.enqueue());
      }
      TANDEM_RETURN_IF_ERROR(instance.wait());
      for (size_t k : {i, i + 1})
        TANDEM_RETURN_IF_ERROR(sets[k].check(context, true));
    }
    return Status();
  });
}

/// The host is not held until the first of three runs has ended.
TEST(GpuRebind, ManyRunsInFlight) {
  Knob slow("product-time.0", 100000);
  Variable tune("TANDEM_TUNE", "0");
  onOneRank(true, [](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto sets, makeSets(context, instance, 2));
    for (const Set &set : sets) // makes the graphs
      TANDEM_RETURN_IF_ERROR(runAndCheck(context, instance, set, true));
    auto start = std::chrono::steady_clock::now();
    for (int run = 0; run < 10; ++run) {
      TANDEM_RETURN_IF_ERROR(sets[static_cast<size_t>(run % 2)].bind(instance));
      TANDEM_RETURN_IF_ERROR(instance.enqueue());
    }
    std::chrono::duration<double> enqueued = std::chrono::steady_clock::now() - start;
    TANDEM_RETURN_IF_ERROR(instance.wait());
    std::chrono::duration<double> ended = std::chrono::steady_clock::now() - start;
    EXPECT_LT(enqueued.count(), 0.5);
    EXPECT_GE(ended.count(), 1.0);
    for (const Set &set : sets)
      TANDEM_RETURN_IF_ERROR(set.check(context, true));
    return Status();
  });
}

/// NCCL's work cannot be changed, but what was captured stays.
TEST(GpuRebind, CollectivesAtKnownAddressesNeedNoNewGraph) {
  if (auto transport = createTransport("ccl"); !transport)
    GTEST_SKIP() << transport.status().message();
  auto ended =
      runRanks(program(2, true, true), "ccl", [](Context &context, Instance &instance) -> Status {
        TANDEM_ASSIGN_OR_RETURN(auto sets, makeSets(context, instance, 4));
        for (int round = 0; round < 3; ++round) {
          Counts before;
          for (const Set &set : sets)
            for (int run = 0; run < 2; ++run)
              TANDEM_RETURN_IF_ERROR(runAndCheck(context, instance, set, true, 2));
          TANDEM_RETURN_IF_ERROR(context.bootstrap().barrier());
          Counts change = Counts() - before;
          if (round > 0) { // another rank may be ahead, but it makes none either
            EXPECT_EQ(change.captures + change.made + change.patches, 0);
          }
          TANDEM_RETURN_IF_ERROR(context.bootstrap().barrier());
        }
        return Status();
      });
  for (const Status &status : ended)
    EXPECT_TRUE(status.ok()) << status.message();
}

/// y = x, for any number of rows up to 4.
ProgramSpec varyingRows() {
  ProgramSpec spec(1);
  const Shape shape{4, 3};
  for (bool isResult : {false, true}) {
    spec.arguments.push_back({isResult ? "y" : "x",
                              isResult ? sp::ArgumentRole::result : sp::ArgumentRole::input,
                              static_cast<sp::DType>(DType::F32), shape});
    spec.arguments.back().varying = {0};
    spec.ranks[0].shards.push_back({true, 0, shape, denseStrides(shape), shape});
  }
  RankSpec &rank = spec.ranks[0];
  uint32_t x = rank.view(rank.argument(0, 48), DType::F32, shape);
  rank.copy(0, rank.view(rank.argument(1, 48), DType::F32, shape), x);
  return spec;
}

TEST(GpuRebind, ExtentsVaryBetweenRunsInFlight) {
  takeLog();
  auto ended = runRanks(varyingRows(), "peer", [](Context &context, Instance &instance) -> Status {
    const std::vector<int64_t> rows = {4, 1, 0, 3, 3, 2, 4, 1, 2, 4, 3, 1};
    std::vector<std::vector<std::unique_ptr<Memory>>> memory(rows.size());
    for (size_t run = 0; run < rows.size(); ++run)
      for (float value : {static_cast<float>(run + 1), -1.f}) {
        std::vector<float> values(12, value);
        TANDEM_ASSIGN_OR_RETURN(auto made, context.device().allocate(48, MemoryKind::Plain));
        TANDEM_RETURN_IF_ERROR(context.device().upload(made->data(), values.data(), 48));
        memory[run].push_back(std::move(made));
      }
    for (int round = 0; round < 3; ++round)
      for (size_t run = 0; run < rows.size(); ++run) {
        TANDEM_RETURN_IF_ERROR(instance.setExtent(rows[run]));
        void *data[] = {memory[run][0]->data(), memory[run][1]->data()};
        TANDEM_RETURN_IF_ERROR(instance.bindAll(data, nullptr));
        TANDEM_RETURN_IF_ERROR(instance.enqueue());
      }
    TANDEM_RETURN_IF_ERROR(instance.wait());
    for (size_t run = 0; run < rows.size(); ++run) {
      std::vector<float> y(12);
      TANDEM_RETURN_IF_ERROR(context.device().download(y.data(), memory[run][1]->data(), 48));
      for (size_t i = 0; i < 12; ++i) {
        bool inside = static_cast<int64_t>(i / 3) < rows[run];
        EXPECT_EQ(y[i], inside ? static_cast<float>(run + 1) : -1.f) << run << ", " << i;
      }
    }
    return Status();
  });
  EXPECT_TRUE(ended[0].ok()) << ended[0].message();
  EXPECT_EQ(takeLog(), ""); // runs are graphs
}

} // namespace
