//===- DataTest.cpp - programs that compute something else ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DataPrograms.h"

#include <algorithm>

using namespace tandem;
using namespace tandem::check;

/// Moves operand k of a command by so many elements.
static void shift(DataSpec &spec, uint32_t rank, Kind kind, size_t n, uint32_t k,
                  int64_t elements) {
  RankSpec &list = spec.ranks[rank];
  CommandSpec &which = command(spec, rank, kind, n);
  sp::View view = list.views[which.operands[k]];
  list.views.emplace_back(view.buffer(), view.layout(),
                          view.offset() + static_cast<uint64_t>(elements * 4));
  which.operands[k] = static_cast<uint32_t>(list.views.size() - 1);
}

// What is read

TEST(Data, RowsInAnotherOrder) {
  DataSpec spec = gatherMatmul(3);
  std::swap(command(spec, 1, Kind::matmul, 0).operands[1],
            command(spec, 1, Kind::matmul, 2).operands[1]);
  expectOnly(spec, kWrong);
}

TEST(Data, RowOfAnotherRank) {
  DataSpec spec = gatherMatmul(3);
  command(spec, 2, Kind::matmul, 1).operands[1] = command(spec, 2, Kind::matmul, 0).operands[1];
  expectOnly(spec, kWrong);
}

TEST(Data, ShiftedByOneElement) {
  DataSpec spec = gatherMatmul(4);
  // From the row before: the gathered rows stand one behind the other.
  RankSpec &rank = spec.ranks[1];
  uint32_t all = command(spec, 1, Kind::collective, 0).operands[0];
  uint32_t buffer = rank.views[all].buffer();
  command(spec, 1, Kind::matmul, 2).operands[1] = rank.view(buffer, DType::F32, {1, 4}, 36);
  expectOnly(spec, kWrong);
}

TEST(Data, StrideOfAnotherView) {
  DataSpec spec = gatherMesh();
  RankSpec &rank = spec.ranks[3];
  CommandSpec &copy = command(spec, 3, Kind::copy, 0);
  uint32_t buffer = rank.views[copy.operands[1]].buffer();
  copy.operands[1] = rank.view(buffer, DType::F32, {2, 4, 2}, Shape{2, 4, 1}, 0);
  expectOnly(spec, kWrong);
}

TEST(Data, HalvesOfTheMeshExchanged) {
  DataSpec spec = gatherMesh();
  for (RankSpec &rank : spec.ranks)
    std::reverse(rank.channels[1].group.begin(), rank.channels[1].group.end());
  for (RankSpec &rank : spec.ranks)
    rank.channels[1].self = 1 - rank.channels[1].self;
  expectOnly(spec, kWrong);
}

TEST(Data, FactorTransposed) {
  DataSpec spec = gatherMatmul(2);
  command(spec, 0, Kind::matmul, 0).flags |= static_cast<uint8_t>(sp::CommandFlags::transpose_b);
  expectOnly(spec, kWrong);
}

TEST(Data, FactorsExchanged) {
  DataSpec spec(1);
  uint32_t x = spec.whole("x", false, {4, 4}), w = spec.whole("w", false, {4, 4});
  uint32_t y = spec.whole("y", true, {4, 4});
  RankSpec &rank = spec.ranks[0], &reference = *spec.reference;
  matmul(reference, spec.view(reference, y), spec.view(reference, x), spec.view(reference, w));
  matmul(rank, spec.view(rank, y), spec.view(rank, w), spec.view(rank, x));
  expectOnly(spec, kWrong);
}

TEST(Data, ArgumentsExchanged) {
  DataSpec spec(2);
  uint32_t a = spec.whole("a", false, {4}), b = spec.whole("b", false, {4});
  uint32_t y = spec.whole("y", true, {4});
  spec.reference->copy(0, spec.view(*spec.reference, y), spec.view(*spec.reference, a));
  for (RankSpec &rank : spec.ranks)
    rank.copy(0, spec.view(rank, y), spec.view(rank, rank.rank == 1 ? b : a));
  expectOnly(spec, kWrong);
}

TEST(Data, BufferFilledTooEarly) {
  // One place for two rows, in one stream: the second is there before the first is used.
  DataSpec spec(1);
  uint32_t x = spec.whole("x", false, {2, 4}), y = spec.whole("y", true, {2, 4});
  RankSpec &rank = spec.ranks[0];
  spec.reference->copy(0, spec.view(*spec.reference, y), spec.view(*spec.reference, x));
  uint32_t place = DataSpec::temporary(rank, {1, 4});
  rank.copy(0, place, spec.view(rank, x, 0));
  rank.copy(0, place, spec.view(rank, x, 1));
  rank.copy(0, spec.view(rank, y, 0), place);
  rank.copy(0, spec.view(rank, y, 1), place);
  expectOnly(spec, kWrong);
}

// What is added

TEST(Data, TermAddedTwice) {
  DataSpec spec = splitContraction(3);
  RankSpec &rank = spec.ranks[1];
  size_t at = nth(spec, 1, Kind::accumulate, 0);
  rank.commands.insert(rank.commands.begin() + static_cast<ptrdiff_t>(at), rank.commands[at]);
  expectOnly(spec, kWrong);
}

TEST(Data, TermLeftOut) {
  DataSpec spec = splitContraction(3);
  drop(spec, 2, Kind::accumulate, 1);
  expectOnly(spec, kWrong);
}

TEST(Data, TermCopiedInsteadOfAdded) {
  DataSpec spec = splitContraction(2);
  command(spec, 0, Kind::accumulate, 0).kind = Kind::copy;
  expectOnly(spec, kWrong);
}

TEST(Data, OwnTermAddedAgain) {
  DataSpec spec = splitContraction(3);
  command(spec, 0, Kind::accumulate, 1).operands[1] =
      command(spec, 0, Kind::accumulate, 0).operands[1];
  expectOnly(spec, kWrong);
}

TEST(Data, MaximumInsteadOfSum) {
  DataSpec spec = splitContraction(3);
  command(spec, 0, Kind::accumulate, 0).reduceOp = sp::ReduceOp::max;
  expectOnly(spec, kWrong);
}

TEST(Data, ShiftedTerm) {
  DataSpec spec = splitContraction(2);
  // The second row first: the buffer behind it is 64 bytes away, so all stays inside the arena.
  RankSpec &rank = spec.ranks[0];
  uint32_t buffer = rank.views[command(spec, 0, Kind::matmul, 0).operands[0]].buffer();
  command(spec, 0, Kind::copy, 0).operands[1] =
      rank.view(buffer, DType::F32, {4, 4}, Shape{1, 4}, 0);
  expectOnly(spec, kWrong);
}

/// y = x w + b in two steps over K, on one rank; `flags` of the steps, and which has the bias.
static DataSpec twoSteps(uint8_t first, uint8_t second, bool biasFirst, bool biasSecond) {
  DataSpec spec(1);
  uint32_t x = spec.whole("x", false, {2, 4}), w = spec.whole("w", false, {4, 2});
  uint32_t b = spec.whole("b", false, {2}), y = spec.whole("y", true, {2, 2});
  RankSpec &rank = spec.ranks[0], &reference = *spec.reference;
  matmul(reference, spec.view(reference, y), spec.view(reference, x), spec.view(reference, w), 0,
         spec.view(reference, b));
  uint32_t columns = rank.views[spec.view(rank, x)].buffer();
  auto half = [&](uint64_t k) {
    return rank.view(columns, DType::F32, {2, 2}, Shape{4, 1}, 8 * k);
  };
  matmul(rank, spec.view(rank, y), half(0), spec.view(rank, w, 0, 2), first,
         biasFirst ? spec.view(rank, b) : sp::kNoView);
  matmul(rank, spec.view(rank, y), half(1), spec.view(rank, w, 2, 2), second,
         biasSecond ? spec.view(rank, b) : sp::kNoView);
  return spec;
}

TEST(Data, StepsOfAContraction) {
  expectClean(twoSteps(0, kAdd, true, false));
  expectClean(twoSteps(0, kAdd, false, true));
}
TEST(Data, StepOverwritesTheOneBefore) { expectOnly(twoSteps(0, 0, false, true), kWrong); }
TEST(Data, BiasLeftOut) { expectOnly(twoSteps(0, kAdd, false, false), kWrong); }
TEST(Data, BiasAddedTwice) { expectOnly(twoSteps(0, kAdd, true, true), kWrong); }

TEST(Data, StepRunsTwice) {
  DataSpec spec = twoSteps(0, kAdd, true, false);
  spec.ranks[0].commands.push_back(spec.ranks[0].commands.back());
  expectOnly(spec, kWrong);
}

/// y = x w + t on one rank, with a bias of the shape of y; `strides`: of t as the rank reads it.
static DataSpec plusTerm(const Shape &strides) {
  DataSpec spec(1);
  uint32_t x = spec.whole("x", false, {2, 4}), w = spec.whole("w", false, {4, 2});
  uint32_t t = spec.whole("t", false, {2, 2}), y = spec.whole("y", true, {2, 2});
  RankSpec &rank = spec.ranks[0], &reference = *spec.reference;
  matmul(reference, spec.view(reference, y), spec.view(reference, x), spec.view(reference, w), 0,
         spec.view(reference, t));
  uint32_t term = rank.views[spec.view(rank, t)].buffer();
  matmul(rank, spec.view(rank, y), spec.view(rank, x), spec.view(rank, w), 0,
         rank.view(term, DType::F32, {2, 2}, strides, 0));
  return spec;
}

TEST(Data, BiasOfTheShapeOfTheResult) {
  expectClean(plusTerm({2, 1}));
  expectOnly(plusTerm({1, 2}), kWrong);
  expectOnly(plusTerm({0, 1}), kWrong);
}

// Reductions

TEST(Data, OtherDimensionReduced) {
  DataSpec spec(1);
  uint32_t x = spec.whole("x", false, {4, 4}), y = spec.whole("y", true, {4});
  RankSpec &rank = spec.ranks[0], &reference = *spec.reference;
  reduce(reference, spec.view(reference, y), spec.view(reference, x), 1);
  reduce(rank, spec.view(rank, y), spec.view(rank, x), 2);
  expectOnly(spec, kWrong);
}

TEST(Data, SumInsteadOfMaximum) {
  DataSpec spec = kernels(2);
  command(spec, 1, Kind::reduce, 0).reduceOp = sp::ReduceOp::sum;
  expectOnly(spec, kWrong);
}

TEST(Data, MinimumInsteadOfMaximum) {
  DataSpec spec = kernels(1);
  command(spec, 0, Kind::reduce, 0).reduceOp = sp::ReduceOp::min;
  expectOnly(spec, kWrong);
}

/// y [4] is the sum over all ranks of their row of x.
static DataSpec collectiveSum(CollectiveKind kind, sp::ReduceOp op) {
  DataSpec spec(4);
  uint32_t x = spec.split("x", false, {4, 4}, 0);
  bool scattered = kind == CollectiveKind::ReduceScatter;
  uint32_t y = scattered ? spec.split("y", true, {4}, 0) : spec.whole("y", true, {4});
  reduce(*spec.reference, spec.view(*spec.reference, y), spec.view(*spec.reference, x), 1);
  for (RankSpec &rank : spec.ranks) {
    uint32_t in = rank.views[spec.view(rank, x)].buffer();
    rank.collective(0, spec.everyone(rank), kind, spec.view(rank, y),
                    rank.view(in, DType::F32, scattered ? Shape{4, 1} : Shape{4}))
        .reduceOp = op;
  }
  return spec;
}

TEST(Data, CollectivesThatReduce) {
  for (CollectiveKind kind : {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter}) {
    expectClean(collectiveSum(kind, sp::ReduceOp::sum));
    expectOnly(collectiveSum(kind, sp::ReduceOp::max), kWrong);
  }
}

// Communication

TEST(Data, GroupInAnotherOrder) {
  DataSpec spec = gatherMatmul(3);
  for (RankSpec &rank : spec.ranks) {
    rank.channels[0].group = {0, 2, 1};
    rank.channels[0].self = rank.rank == 0 ? 0 : 3 - rank.rank;
  }
  expectOnly(spec, kWrong);
}

/// Rank 0 (of 3) gives out x, or the rows of x.
static DataSpec fromRoot(CollectiveKind kind, uint32_t root) {
  DataSpec spec(3);
  uint32_t x = spec.split("x", false, {9, 4}, 0);
  bool scatters = kind == CollectiveKind::Scatter;
  uint32_t y = scatters ? spec.split("y", true, {3, 4}, 0) : spec.whole("y", true, {3, 4});
  spec.reference->copy(0, spec.view(*spec.reference, y), spec.view(*spec.reference, x, 0, 3));
  for (RankSpec &rank : spec.ranks) {
    uint32_t in = rank.views[spec.view(rank, x)].buffer();
    Shape shape = scatters ? Shape{3, 1, 4} : Shape{3, 4};
    rank.collective(0, spec.everyone(rank), kind, spec.view(rank, y),
                    rank.view(in, DType::F32, shape))
        .peer = root;
  }
  return spec;
}

TEST(Data, AnotherRoot) {
  for (CollectiveKind kind : {CollectiveKind::Broadcast, CollectiveKind::Scatter}) {
    expectClean(fromRoot(kind, 0));
    expectOnly(fromRoot(kind, 2), kWrong);
  }
}

TEST(Data, RingTurnsTheOtherWay) {
  // Sums do not mind, slices do.
  for (bool backwards : {false, true}) {
    DataSpec spec(3);
    uint32_t x = spec.split("x", false, {3, 4}, 0), y = spec.split("y", true, {3, 4}, 0);
    RankSpec &reference = *spec.reference;
    for (int64_t i = 0; i < 3; ++i)
      reference.copy(0, spec.view(reference, y, i), spec.view(reference, x, (i + 1) % 3));
    for (RankSpec &rank : spec.ranks) {
      uint32_t next = (rank.rank + 1) % 3, last = (rank.rank + 2) % 3;
      exchangeMessages(rank, spec.everyone(rank), backwards ? last : next, spec.view(rank, x),
                       backwards ? next : last, spec.view(rank, y));
    }
    expectOnly(spec, backwards ? kWrong : std::set<std::string>());
  }
}

TEST(Data, PutIntoAnotherSlot) {
  for (uint32_t wrong : {0, 1}) {
    DataSpec spec(2);
    uint32_t x = spec.split("x", false, {4, 4}, 0), y = spec.whole("y", true, {2, 4});
    RankSpec &reference = *spec.reference;
    reference.copy(0, spec.view(reference, y), spec.view(reference, x, 0, 2));
    for (RankSpec &rank : spec.ranks) {
      uint16_t channel = spec.everyone(rank);
      uint32_t buffer = rank.symmetric(32);
      rank.slots = {1, 1};
      if (rank.rank == 0) {
        for (uint32_t i : {0u, 1u})
          rank.put(0, channel, rank.view(buffer, DType::F32, {1, 4}, kBytes * (i ^ wrong)),
                   spec.view(rank, x, i), 1);
        rank.signal(0, channel, 1, 0, 1);
        rank.copy(0, spec.view(rank, y), spec.view(rank, x));
        rank.waitSignal(0, channel, 1, 1);
      } else {
        rank.waitSignal(0, channel, 0, 1);
        rank.copy(0, spec.view(rank, y), rank.view(buffer, DType::F32, {2, 4}));
        rank.signal(0, channel, 0, 1, 1);
      }
    }
    expectOnly(spec, wrong ? kWrong : std::set<std::string>());
  }
}

// Terms of a partial result, copies

TEST(Data, TermOfAPartialResultTwice) {
  DataSpec spec = partials(3);
  spec.ranks[0].commands.clear();
  spec.ranks[1].commands.clear();
  spec.ranks[2].commands.clear();
  for (RankSpec &rank : spec.ranks)
    rank.copy(0, spec.view(rank, 1), spec.view(rank, 0));
  expectClean(spec);
  accumulate(spec.ranks[1], spec.view(spec.ranks[1], 1), spec.view(spec.ranks[1], 0));
  expectOnly(spec, kWrong);
}

TEST(Data, TermThatDoesNotCountInAMaximum) {
  DataSpec spec = partials(3, sp::ReduceOp::max);
  expectClean(spec);
  // Rank 1 keeps rank 0's term, which rank 2 has too: one is left out.
  for (uint32_t r : {0u, 1u, 2u})
    spec.ranks[r].commands.clear();
  for (RankSpec &rank : spec.ranks) {
    uint16_t channel = spec.everyone(rank);
    if (rank.rank == 1) {
      rank.group(0, channel, 1);
      rank.recv(0, channel, spec.view(rank, 1), 0, 0);
      continue;
    }
    if (rank.rank == 0) {
      rank.group(0, channel, 1);
      rank.send(0, channel, spec.view(rank, 0), 1, 0);
    }
    rank.copy(0, spec.view(rank, 1), spec.view(rank, 0));
  }
  expectOnly(spec, kWrong);
}

TEST(Data, CopiesOfATermThatDiffer) {
  // Two ranks hold the only term; one of them holds something else.
  DataSpec spec(2);
  uint32_t x = spec.whole("x", false, {4}), y = spec.partial("y", true, {4});
  spec.arguments[y].partialTerms = 1;
  spec.reference->copy(0, spec.view(*spec.reference, y), spec.view(*spec.reference, x));
  for (RankSpec &rank : spec.ranks) {
    rank.shards[y].term = 0;
    rank.copy(0, spec.view(rank, y), spec.view(rank, x));
  }
  expectClean(spec);
  accumulate(spec.ranks[1], spec.view(spec.ranks[1], y), spec.view(spec.ranks[1], x));
  expectOnly(spec, kWrong);
}

TEST(Data, OneReplicaDiffers) {
  DataSpec spec = gatherMatmul(4);
  shift(spec, 3, Kind::matmul, 3, 1, -1);
  std::string text;
  Report report = run(spec, {}, &text);
  EXPECT_EQ(diagnoses(report), kWrong) << text;
  EXPECT_NE(text.find("rank 3: 4 of its 16 elements of result \"y\" differ from the unsharded "
                      "reference, from [3,0] to [3,3]"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("was written by rank 3 stream 0 command 4 (matmul"), std::string::npos)
      << text;
}

TEST(Data, CopiesRoundedOtherwise) {
  // Three terms; rank 1 adds the last two in the other order.
  DataSpec spec(2);
  uint32_t x = spec.whole("x", false, {3, 4}), y = spec.whole("y", true, {1, 4});
  RankSpec &reference = *spec.reference;
  uint32_t flat = reference.views[spec.view(reference, y)].buffer();
  reduce(reference, reference.view(flat, DType::F32, {4}), spec.view(reference, x), 1);
  for (RankSpec &rank : spec.ranks) {
    rank.copy(0, spec.view(rank, y), spec.view(rank, x, 0));
    accumulate(rank, spec.view(rank, y), spec.view(rank, x, 1));
    accumulate(rank, spec.view(rank, y), spec.view(rank, x, 2));
  }
  expectClean(spec);
  swapCommands(spec, 1, nth(spec, 1, Kind::accumulate, 0), nth(spec, 1, Kind::accumulate, 1));
  expectOnly(spec, {"copies-differ"});
  // Which of two is added to the other does not matter.
  for (RankSpec &rank : spec.ranks)
    rank.commands.clear();
  for (RankSpec &rank : spec.ranks) {
    bool other = rank.rank == 1;
    rank.copy(0, spec.view(rank, y), spec.view(rank, x, other ? 1 : 0));
    accumulate(rank, spec.view(rank, y), spec.view(rank, x, other ? 0 : 1));
    accumulate(rank, spec.view(rank, y), spec.view(rank, x, 2));
  }
  expectClean(spec);
}

TEST(Data, TermThatAMaximumLeavesOut) {
  // Of eight terms, whichever: where it is not the largest, it does not show.
  for (int64_t left = 0; left < 8; ++left) {
    DataSpec spec(1);
    uint32_t x = spec.whole("x", false, {8, 2}), y = spec.whole("y", true, {1, 2});
    RankSpec &rank = spec.ranks[0], &reference = *spec.reference;
    uint32_t flat = reference.views[spec.view(reference, y)].buffer();
    reduce(reference, reference.view(flat, DType::F32, {2}), spec.view(reference, x), 1,
           sp::ReduceOp::max);
    rank.copy(0, spec.view(rank, y), spec.view(rank, x, left == 0 ? 1 : 0));
    for (int64_t i = 1; i < 8; ++i)
      if (i != left)
        accumulate(rank, spec.view(rank, y), spec.view(rank, x, i), sp::ReduceOp::max);
    expectOnly(spec, kWrong);
    accumulate(rank, spec.view(rank, y), spec.view(rank, x, left), sp::ReduceOp::max);
    expectClean(spec);
  }
}

TEST(Data, CopiesOfAMatmulOfOtherShape) {
  // y = x w on both ranks; rank 1 computes the rows one by one. A library may then add along K in
  // another order, so the copies may differ.
  for (int64_t inner : {1, 4})
    for (bool split : {false, true}) {
      DataSpec spec(2);
      uint32_t x = spec.whole("x", false, {2, inner}), w = spec.whole("w", false, {inner, 4});
      uint32_t y = spec.whole("y", true, {2, 4});
      matmul(*spec.reference, spec.view(*spec.reference, y), spec.view(*spec.reference, x),
             spec.view(*spec.reference, w));
      for (RankSpec &rank : spec.ranks) {
        if (!split || rank.rank == 0)
          matmul(rank, spec.view(rank, y), spec.view(rank, x), spec.view(rank, w));
        for (int64_t row : {0, 1})
          if (split && rank.rank == 1)
            matmul(rank, spec.view(rank, y, row), spec.view(rank, x, row), spec.view(rank, w));
      }
      // One product has no order.
      expectOnly(spec, split && inner > 1 ? std::set<std::string>{"copies-differ"}
                                          : std::set<std::string>());
    }
}

TEST(Data, OrderedMatmulsOfOtherShapes) {
  // In a deterministic program M and N decide nothing, but K does.
  DataSpec spec(2);
  spec.deterministic = sp::Determinism::bitwise;
  uint32_t x = spec.whole("x", false, {2, 4}), w = spec.whole("w", false, {4, 4});
  uint32_t y = spec.whole("y", true, {2, 4});
  matmul(*spec.reference, spec.view(*spec.reference, y), spec.view(*spec.reference, x),
         spec.view(*spec.reference, w));
  matmul(spec.ranks[0], spec.view(spec.ranks[0], y), spec.view(spec.ranks[0], x),
         spec.view(spec.ranks[0], w));
  RankSpec &rank = spec.ranks[1];
  for (int64_t row : {0, 1})
    matmul(rank, spec.view(rank, y, row), spec.view(rank, x, row), spec.view(rank, w));
  expectClean(spec);
}

TEST(Data, CopiesOfASumOfOtherShape) {
  // y = the sums of the rows of x; rank 1 computes them one by one. A device may then add in
  // another order, but not if the program is deterministic, nor where there are two terms.
  for (int64_t terms : {2, 4})
    for (bool deterministic : {false, true}) {
      DataSpec spec(2);
      if (deterministic)
        spec.deterministic = sp::Determinism::bitwise;
      uint32_t x = spec.whole("x", false, {2, terms}), y = spec.whole("y", true, {2});
      for (RankSpec *rank : {&*spec.reference, spec.ranks.data()})
        reduce(*rank, spec.view(*rank, y), spec.view(*rank, x), 2);
      RankSpec &other = spec.ranks[1];
      for (int64_t row : {0, 1})
        reduce(other, spec.view(other, y, row), spec.view(other, x, row), 2);
      expectOnly(spec, terms > 2 && !deterministic ? std::set<std::string>{"copies-differ"}
                                                   : std::set<std::string>());
    }
}

/// y = the sum of the three rows of x, added in this order.
static DataSpec sumOfRows(const std::vector<int64_t> &order) {
  DataSpec spec(1);
  uint32_t x = spec.whole("x", false, {3, 4}), y = spec.whole("y", true, {1, 4});
  RankSpec &reference = *spec.reference, &rank = spec.ranks[0];
  uint32_t flat = reference.views[spec.view(reference, y)].buffer();
  reduce(reference, reference.view(flat, DType::F32, {4}), spec.view(reference, x), 1);
  rank.copy(0, spec.view(rank, y), spec.view(rank, x, order[0]));
  for (size_t i = 1; i < order.size(); ++i)
    accumulate(rank, spec.view(rank, y), spec.view(rank, x, order[i]));
  return spec;
}

TEST(Data, BitsOfAnotherProgram) {
  auto file = ProgramFile::fromMemory(sumOfRows({0, 1, 2}).encode());
  ASSERT_TRUE(file) << file.status().message();
  auto other = replay::World::load(**file);
  ASSERT_TRUE(other) << other.status().message();
  CheckOptions options;
  options.sameBits = other->get();
  expectOnly(sumOfRows({0, 1, 2}), {}, options);
  expectOnly(sumOfRows({1, 0, 2}), {}, options);
  expectOnly(sumOfRows({0, 2, 1}), {"bits-differ"}, options);
}

/// y = x w + b: by the matmul's bias, by a matmul onto b, or by a command of its own.
enum class Addition { Bias, OntoOld, Own };
static DataSpec productAndTerm(Addition how) {
  DataSpec spec(1);
  uint32_t x = spec.whole("x", false, {2, 3}), w = spec.whole("w", false, {3, 4});
  uint32_t b = spec.whole("b", false, {2, 4}), y = spec.whole("y", true, {2, 4});
  for (RankSpec *rank : {&spec.ranks[0], &*spec.reference}) {
    bool isBias = rank != &spec.ranks[0] || how == Addition::Bias;
    if (!isBias && how == Addition::OntoOld)
      rank->copy(0, spec.view(*rank, y), spec.view(*rank, b));
    matmul(*rank, spec.view(*rank, y), spec.view(*rank, x), spec.view(*rank, w),
           !isBias && how == Addition::OntoOld ? kAdd : 0,
           isBias ? spec.view(*rank, b) : sp::kNoView);
    if (!isBias && how == Addition::Own)
      accumulate(*rank, spec.view(*rank, y), spec.view(*rank, b));
  }
  return spec;
}

/// Devices add it before the product is rounded, or before its first term is added.
TEST(Data, BitsOfWhatAMatmulAdds) {
  for (Addition first : {Addition::Bias, Addition::OntoOld, Addition::Own}) {
    auto file = ProgramFile::fromMemory(productAndTerm(first).encode());
    ASSERT_TRUE(file) << file.status().message();
    auto other = replay::World::load(**file);
    ASSERT_TRUE(other) << other.status().message();
    CheckOptions options;
    options.sameBits = other->get();
    for (Addition second : {Addition::Bias, Addition::OntoOld, Addition::Own}) {
      std::set<std::string> found;
      if (first != second)
        found.insert("bits-differ");
      expectOnly(productAndTerm(second), found, options);
    }
  }
}

TEST(Data, BitsOfAProgramWithOtherArguments) {
  DataSpec other(1);
  uint32_t x = other.whole("x", false, {2, 2}), y = other.whole("z", true, {2, 2});
  other.reference->copy(0, other.view(*other.reference, y), other.view(*other.reference, x));
  other.ranks[0].copy(0, other.view(other.ranks[0], y), other.view(other.ranks[0], x));
  auto file = ProgramFile::fromMemory(other.encode());
  ASSERT_TRUE(file) << file.status().message();
  auto world = replay::World::load(**file);
  ASSERT_TRUE(world) << world.status().message();
  CheckOptions options;
  options.sameBits = world->get();
  options.dataWanted = true;
  Report report = run(sumOfRows({0, 1, 2}), options);
  ASSERT_EQ(report.limits.size(), 1u);
  EXPECT_EQ(report.limits[0], "bits: the other program has other arguments");
  EXPECT_EQ(report.data.rfind("checked", 0), 0u) << report.data;
  EXPECT_FALSE(report.hasSameBits);
}

TEST(Data, BitsOfAProgramWithAnError) {
  DataSpec spec = sumOfRows({0, 1, 2});
  auto load = [&] {
    auto file = ProgramFile::fromMemory(spec.encode());
    return file ? replay::World::load(**file)
                : Expected<std::shared_ptr<const replay::World>>(file.status());
  };
  CheckOptions options;
  auto same = load();
  ASSERT_TRUE(same) << same.status().message();
  options.sameBits = same->get();
  EXPECT_TRUE(run(sumOfRows({0, 1, 2}), options).hasSameBits);
  spec.ranks[0].commands.clear();
  auto empty = load();
  ASSERT_TRUE(empty) << empty.status().message();
  options.sameBits = empty->get();
  Report report = run(sumOfRows({0, 1, 2}), options);
  EXPECT_FALSE(report.hasSameBits);
  ASSERT_EQ(report.limits.size(), 1u);
  EXPECT_EQ(report.limits[0].rfind("bits: the other program has an error: ", 0), 0u)
      << report.limits[0];
}
