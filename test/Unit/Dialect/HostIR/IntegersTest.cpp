//===- IntegersTest.cpp - arithmetic at compile time ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/HostIR/Evaluate/RankNumbers.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace tandem::hostir;
using K = IntegerKind;

namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

std::optional<int64_t> compare(arith::CmpIPredicate predicate, int64_t a, int64_t b,
                               uint8_t width = 64) {
  return evaluate({K::Compare, width, predicate}, a, b);
}

} // namespace

TEST(Integers, SumsWrapInTheirWidth) {
  EXPECT_EQ(evaluate({K::Add, 8}, 127, 1), -128);
  EXPECT_EQ(evaluate({K::Mul, 32}, 65536, 65536), 0);
  EXPECT_EQ(evaluate({K::Sub, 64}, kMin, 1), kMax);
  EXPECT_EQ(evaluate({K::Add, 1}, 1, 1), 0);
}

TEST(Integers, QuotientsRoundAsTheirNamesSay) {
  EXPECT_EQ(evaluate({K::DivS}, -7, 2), -3);
  EXPECT_EQ(evaluate({K::FloorDivS}, -7, 2), -4);
  EXPECT_EQ(evaluate({K::CeilDivS}, -7, 2), -3);
  EXPECT_EQ(evaluate({K::CeilDivS}, 7, 2), 4);
  EXPECT_EQ(evaluate({K::RemS}, -7, 2), -1);
  EXPECT_EQ(evaluate({K::DivU, 8}, -1, 2), 127);
  EXPECT_EQ(evaluate({K::CeilDivU, 8}, 7, 2), 4);
  EXPECT_EQ(evaluate({K::RemU, 8}, -1, 16), 15);
}

TEST(Integers, UndefinedResults) {
  for (K kind : {K::DivS, K::DivU, K::CeilDivS, K::CeilDivU, K::FloorDivS, K::RemS, K::RemU})
    EXPECT_FALSE(evaluate({kind}, 1, 0));
  EXPECT_FALSE(evaluate({K::DivS}, kMin, -1));
  EXPECT_FALSE(evaluate({K::Shl, 8}, 1, 8));
  EXPECT_EQ(describeUndefined({K::DivS}, 0), "division by zero");
  EXPECT_EQ(describeUndefined({K::DivS}, -1), "the quotient overflows");
  EXPECT_EQ(describeUndefined({K::Shl, 8}, 9), "shift by 9 of 8 bits");
}

TEST(Integers, ComparisonsOfSignsAndTruths) {
  using P = arith::CmpIPredicate;
  EXPECT_EQ(compare(P::slt, -1, 1), 1);
  EXPECT_EQ(compare(P::ult, -1, 1), 0);
  EXPECT_EQ(compare(P::slt, 1, 0, 1), 1); // true is -1
  EXPECT_EQ(compare(P::ult, 1, 0, 1), 0);
}

TEST(Integers, LoopsEndWhereTheIndexDoesNotFit) {
  EXPECT_EQ(advance(5, 3, 64), 8);
  EXPECT_FALSE(advance(kMax, 1, 64));
  EXPECT_FALSE(advance(127, 1, 8));
  EXPECT_TRUE(isLess(1, -1, 64, /*isUnsigned=*/true));
  EXPECT_FALSE(isLess(1, -1, 64, /*isUnsigned=*/false));
}

TEST(RankNumbers, TablesOfRanks) {
  RankNumbers numbers(4);
  Number me = numbers.table({0, 1, 2, 3}), one = Number::constant(1), four = Number::constant(4);
  Number right = numbers.evaluate({K::RemU}, numbers.evaluate({K::Add}, me, one), four);
  EXPECT_EQ(numbers.at(right, 0), 1);
  EXPECT_EQ(numbers.at(right, 3), 0);
  EXPECT_EQ(right, numbers.table({1, 2, 3, 0}));
  // The same from another number on.
  Number slots = numbers.evaluate({K::Add}, Number::constant(7), right);
  EXPECT_EQ(numbers.evaluate({K::Sub}, slots, Number::constant(7)), right);
  EXPECT_EQ(slots.getLeast(), 7);
  EXPECT_EQ(numbers.getGreatest(slots), 10);
  EXPECT_EQ(numbers.at(slots, 2), 10);
  // The same on all ranks.
  EXPECT_EQ(numbers.evaluate({K::Sub}, right, right).getConstant(), 0);
  EXPECT_EQ(numbers.select(one, me, four), me);
}

TEST(RankNumbers, UnknownIsContagious) {
  RankNumbers numbers(2);
  Number me = numbers.table({0, 1});
  EXPECT_FALSE(numbers.evaluate({K::Add}, me, Number()).isKnown());
  EXPECT_FALSE(numbers.evaluate({K::DivU}, Number::constant(1), me).isKnown()); // by 0 on rank 0
  EXPECT_FALSE(RankNumbers(0).table({}).isKnown());
}

/// Against plain numbers, one rank at a time.
TEST(RankNumbers, AgreeWithEachRank) {
  RankNumbers numbers(3);
  std::vector<std::vector<int64_t>> tables{{0, 1, 2}, {5, 5, 5}, {-3, 8, 2}, {1, 2, 1}};
  for (K kind : {K::Add, K::Sub, K::Mul, K::MinS, K::MaxU, K::And, K::Xor, K::RemS, K::Compare})
    for (const std::vector<int64_t> &a : tables)
      for (const std::vector<int64_t> &b : tables) {
        IntegerOp op{kind};
        Number result = numbers.evaluate(op, numbers.table(a), numbers.table(b));
        for (uint32_t rank = 0; rank < 3 && result.isKnown(); ++rank)
          EXPECT_EQ(numbers.at(result, rank), evaluate(op, a[rank], b[rank]));
      }
}
