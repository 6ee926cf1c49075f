//===- VerifyTest.cpp - gathering and comparing -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Verify.h"

#include "Inputs.h"
#include "Results.h"
#include "Support/ProgramSpec.h"

#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::run;
using namespace tandem::test;
using testing::HasSubstr;

static ArgumentInfo argument(DType dtype, std::vector<int64_t> shape) {
  ArgumentInfo info;
  info.name = "y";
  info.dtype = dtype;
  info.shape = std::move(shape);
  return info;
}

static Tensor filled(DType dtype, std::vector<int64_t> shape, double first, double step) {
  Tensor tensor(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.numElements(); ++i)
    tensor.set(i, first + step * static_cast<double>(i));
  return tensor;
}

static std::string bytes(const Tensor &tensor) {
  return {reinterpret_cast<const char *>(tensor.data.data()), tensor.data.size()};
}

/// From pieces of at most 3 elements, as which runs of elements begin and end in some of them.
static Expected<Tensor> assemble(const ArgumentInfo &info, const Placement &placement,
                                 const std::vector<std::string> &parts) {
  Assembly assembly(info, placement);
  auto size = static_cast<int64_t>(sizeOf(info.dtype));
  for (uint32_t rank = 0; rank < parts.size(); ++rank)
    for (int64_t begin = 0, end = placement[rank].numElements(); begin < end; begin += 3)
      assembly.add(rank, begin, std::min<int64_t>(3, end - begin),
                   reinterpret_cast<const std::byte *>(parts[rank].data()) + begin * size);
  return assembly.finish();
}

/// Rows of "y", 4x8, on two ranks, of which each holds 5 columns: with all fields of a shard.
static std::shared_ptr<const Program> rowsOfTwo() {
  ProgramSpec spec(2);
  spec.arguments.push_back({"y", sp::ArgumentRole::result, sp::DType::f32, {4, 8}, 0});
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    rank.shards = {{true, 16 * r, {2, 8}, {8, 1}, {2, 5}}};
    uint32_t y = rank.view(rank.argument(0, 40), DType::F32, {2, 5});
    rank.copy(0, y, rank.view(rank.arena(40), DType::F32, {2, 5}));
  }
  auto file = ProgramFile::fromMemory(spec.encode());
  EXPECT_TRUE(file) << file.status().message();
  auto program = (*file)->rankProgram(0);
  EXPECT_TRUE(program) << program.status().message();
  return *program;
}

TEST(Placements, NumbersOfPeersAreChecked) {
  auto program = rowsOfTwo();
  size_t count = 0, index = 0, accepted = 0;
  int64_t number = 0;
  BootstrapCallbacks callbacks;
  callbacks.worldSize = callbacks.localSize = 2;
  callbacks.barrier = [] { return 0; };
  // Rank 1 says what this rank says, but for one number.
  callbacks.allGather = [&](const void *mine, size_t bytes, void *all) {
    std::memcpy(all, mine, bytes);
    std::memcpy(static_cast<char *>(all) + bytes, mine, bytes);
    count = bytes / sizeof number;
    if (count > 1 && index < count)
      std::memcpy(static_cast<char *>(all) + bytes + index * sizeof number, &number, sizeof number);
    return 0;
  };
  auto bootstrap = createCallbackBootstrap(callbacks);
  ASSERT_TRUE(bootstrap) << bootstrap.status().message();
  index = SIZE_MAX;
  ASSERT_TRUE(gatherPlacements(*program, **bootstrap));
  size_t numbers = count;
  ASSERT_EQ(numbers, 11u); // present, offset, term, dims, shape, strides, dims, local
  std::vector<std::byte> data(1 << 16);
  for (index = 0; index < numbers; ++index)
    for (int64_t value : {int64_t(-1), int64_t(0), int64_t(1), int64_t(3), int64_t(100),
                          int64_t(1) << 40, int64_t(1) << 62, INT64_MIN, INT64_MAX}) {
      number = value;
      auto placements = gatherPlacements(*program, **bootstrap);
      if (!placements)
        continue;
      ++accepted;
      // What is accepted lies in the tensor.
      Assembly assembly(program->arguments()[0], (*placements)[0]);
      assembly.add(1, 0, (*placements)[0][1].numElements(), data.data());
    }
  EXPECT_GT(accepted, 5u);
  EXPECT_LT(accepted, 50u);
}

TEST(Assemble, PutsShardsInTheirPlaces) {
  Placement placement = {
      {true, 0, {2, 2}, {4, 1}, {}}, {false, 0, {}, {}, {}}, {true, 2, {2, 2}, {4, 1}, {}}};
  Tensor left = filled(DType::I32, {4}, 0, 1), right = filled(DType::I32, {4}, 10, 1);
  auto whole = assemble(argument(DType::I32, {2, 4}), placement, {bytes(left), "", bytes(right)});
  ASSERT_TRUE(whole) << whole.status().message();
  std::vector<double> values;
  for (int64_t i = 0; i < 8; ++i)
    values.push_back(whole->get(i));
  EXPECT_EQ(values, (std::vector<double>{0, 1, 10, 11, 2, 3, 12, 13}));
}

TEST(Assemble, CopiesMustBeEqualToTheLastBit) {
  Placement placement(2, Shard{true, 0, {2, 2}, {2, 1}, {}});
  Tensor a = filled(DType::F32, {4}, 1, 1), b = a;
  EXPECT_TRUE(assemble(argument(DType::F32, {2, 2}), placement, {bytes(a), bytes(b)}));
  b.setBits(2, b.bits(2) + 1);
  auto whole = assemble(argument(DType::F32, {2, 2}), placement, {bytes(a), bytes(b)});
  ASSERT_FALSE(whole);
  EXPECT_THAT(whole.status().message(),
              HasSubstr("argument \"y\", index [1,0]: rank 1 holds another value than rank 0"));
}

TEST(Assemble, ReplicasOverlapInPart) {
  // Rows 0 to 2, 1 to 3, and column 0 of all.
  Placement placement = {
      {true, 0, {3, 2}, {2, 1}, {}}, {true, 2, {3, 2}, {2, 1}, {}}, {true, 0, {4}, {2}, {}}};
  Tensor all = filled(DType::F16, {8}, 1, 1), column = filled(DType::F16, {4}, 1, 2);
  std::string whole = bytes(all);
  auto right = assemble(argument(DType::F16, {4, 2}), placement,
                        {whole.substr(0, 12), whole.substr(4), bytes(column)});
  ASSERT_TRUE(right) << right.status().message();
  EXPECT_EQ(bytes(*right), whole);
  column.set(3, 1);
  auto wrong = assemble(argument(DType::F16, {4, 2}), placement,
                        {whole.substr(0, 12), whole.substr(4), bytes(column)});
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.status().message(),
              HasSubstr("index [3,0]: rank 2 holds another value than rank 1"));
}

TEST(Assemble, EveryElementIsHeld) {
  Placement placement = {{true, 1, {3}, {1}, {}}};
  auto whole =
      assemble(argument(DType::F32, {4}), placement, {bytes(filled(DType::F32, {3}, 0, 1))});
  ASSERT_FALSE(whole);
  EXPECT_THAT(whole.status().message(), HasSubstr("index [0]: no rank holds this element"));
}

TEST(Assemble, TermsAreReduced) {
  ArgumentInfo info = argument(DType::F32, {3});
  info.partial = true;
  info.terms = 2;
  // Each on two ranks.
  Placement placement(4, Shard{true, 0, {3}, {1}, {}});
  placement[1].term = placement[3].term = 1;
  std::string one = bytes(filled(DType::F32, {3}, 1, 1)),
              two = bytes(filled(DType::F32, {3}, 5, -9));
  auto sum = assemble(info, placement, {one, two, one, two});
  ASSERT_TRUE(sum) << sum.status().message();
  EXPECT_EQ(sum->get(0), 6);
  EXPECT_EQ(sum->get(2), -10);
  info.partialOp = ReduceOp::Max;
  auto most = assemble(info, placement, {one, two, one, two});
  ASSERT_TRUE(most);
  EXPECT_EQ(most->get(0), 5);
  EXPECT_EQ(most->get(2), 3);

  auto copies = assemble(info, placement, {one, two, one, one});
  ASSERT_FALSE(copies);
  EXPECT_THAT(copies.status().message(),
              HasSubstr("index [0]: rank 3 holds another value than rank 1"));
  placement[1].term = placement[3].term = 0;
  auto missing = assemble(info, placement, {one, one, one, one});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.status().message(), HasSubstr("term 1 of 2: no rank holds this element"));
}

const Path kMoved;
Path computed(DType loosest) { return {true, loosest}; }

TEST(Compare, TolerancesOfTheDesign) {
  for (auto [dtype, tolerance] :
       {std::pair(DType::F32, 1e-5), {DType::F16, 1e-3}, {DType::BF16, 8e-3}}) {
    Tensor reference = filled(dtype, {1}, 1, 0);
    Tensor out = filled(dtype, {1}, 1 + 1.5 * tolerance, 0);
    Path path = computed(DType::F32);
    EXPECT_DOUBLE_EQ(compare(out, reference, path, false).tolerance, tolerance);
    EXPECT_EQ(compare(out, reference, path, false).firstWrong, 0);
    EXPECT_EQ(compare(out, reference, path, true).firstWrong, -1);
    EXPECT_EQ(compare(out, reference, kMoved, true).firstWrong, 0);
    EXPECT_EQ(compare(reference, reference, kMoved, false).firstWrong, -1);
  }
  // What has been bf16 on the way is no better for being f32 at the end.
  Tensor wide = filled(DType::F32, {1}, 1, 0);
  EXPECT_DOUBLE_EQ(compare(wide, wide, computed(DType::BF16), false).tolerance, 8e-3);
  EXPECT_DOUBLE_EQ(compare(wide, wide, computed(DType::F16), true).tolerance, 2e-3);
  EXPECT_DOUBLE_EQ(compare(wide, wide, {true, DType::F32, true}, false).tolerance, 5e-4);
  EXPECT_DOUBLE_EQ(compare(wide, wide, {true, DType::BF16, true}, false).tolerance, 8e-3);
}

TEST(Compare, NamesTheFirstThatIsWrong) {
  Tensor reference = filled(DType::F32, {100}, 1, 1), out = reference;
  // Rounding in one place, an error in another.
  out.setBits(3, out.bits(3) + 1);
  out.set(40, 0);
  Comparison comparison = compare(out, reference, computed(DType::F32), false);
  EXPECT_EQ(comparison.firstWrong, 40);
  EXPECT_EQ(compare(out, reference, kMoved, false).firstWrong, 3);
}

TEST(Compare, PoisonIsWrong) {
  Tensor reference = filled(DType::F32, {10}, 1, 1), out = reference, poisoned = reference;
  poison(poisoned);
  out.setBits(7, poisoned.bits(7));
  Comparison comparison = compare(out, reference, computed(DType::F32), false);
  EXPECT_EQ(comparison.firstWrong, 7);
  EXPECT_TRUE(std::isnan(comparison.error));
  EXPECT_EQ(compare(filled(DType::I32, {2}, 1, 1), filled(DType::I32, {2}, 1, 2),
                    computed(DType::I32), false)
                .firstWrong,
            1);
}
