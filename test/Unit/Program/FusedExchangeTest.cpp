//===- FusedExchangeTest.cpp - fused exchanges in stream programs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ExchangeSpec.h"

#include "tandem/Program/FusedExchange.h"
#include "tandem/Program/Program.h"

#include <functional>
#include <gtest/gtest.h>
#include <utility>

namespace tandem::test {
namespace {

using program::ExchangeStep;
using program::stepsOf;
using program::whyNoKernel;

std::string errorOf(const ProgramSpec &spec) {
  auto file = ProgramFile::fromMemory(spec.encode());
  if (!file)
    return file.status().message();
  auto program = (*file)->rankProgram(0);
  return program ? "" : program.status().message();
}

/// On rank 1.
std::vector<ExchangeStep> stepsOfSpec(const ProgramSpec &spec, uint32_t head = 0) {
  auto file = ProgramFile::fromMemory(spec.encode());
  EXPECT_TRUE(file.ok()) << file.status().message();
  auto loaded = (*file)->rankProgram(1);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return stepsOf(**loaded, head);
}
std::vector<ExchangeStep> stepsOfSpec(const ExchangeSpec &spec) {
  return stepsOfSpec(spec, spec.head);
}

TEST(FusedExchange, StepsOfOneShot) {
  std::vector<ExchangeStep> steps = stepsOfSpec(ExchangeSpec(4));
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].waits.size(), 0u);
  ASSERT_EQ(steps[0].move.stores.size(), 4u); // to all
  EXPECT_FALSE(steps[0].move.reduces);
  EXPECT_EQ(steps[0].signals, (std::vector<uint32_t>{4, 5, 6}));
  EXPECT_EQ(steps[1].waits, (std::vector<uint32_t>{7, 8, 9}));
  EXPECT_TRUE(steps[1].move.reduces);
  EXPECT_EQ(steps[1].move.terms, 4);
  EXPECT_EQ(steps[1].move.termStride, 16);
  ASSERT_EQ(steps[1].move.stores.size(), 1u);
  EXPECT_EQ(steps[1].move.stores[0].target, 10u);
  EXPECT_TRUE(steps[1].signals.empty());
}

TEST(FusedExchange, StepsOfTwoShots) {
  std::vector<ExchangeStep> steps = stepsOfSpec(ExchangeSpec(4, /*twoShots=*/true));
  ASSERT_EQ(steps.size(), 3u);
  // The sum is read once and stored to all: from the reduction, part 10.
  ASSERT_EQ(steps[1].move.stores.size(), 4u);
  for (uint32_t k = 0; k < 4; ++k) {
    EXPECT_EQ(steps[1].move.stores[k].source, 10u);
    EXPECT_EQ(steps[1].move.stores[k].target, 10 + k);
  }
  EXPECT_EQ(steps[1].signals.size(), 3u);
  EXPECT_EQ(steps[2].waits.size(), 3u);
  EXPECT_TRUE(steps[2].move.stores.empty());
}

TEST(FusedExchange, Dump) {
  auto file = ProgramFile::fromMemory(ExchangeSpec(2).encode());
  ASSERT_TRUE(file.ok());
  auto loaded = (*file)->rankProgram(0);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  std::string text = dumpProgram(**loaded);
  EXPECT_NE(text.find("s0 fused_exchange 5 parts by 2 blocks \"fused_exchange #0\"\n"
                      "    1 s0   copy "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("    4 s0   wait_signal c0 slot 1 value 1"), std::string::npos) << text;
}

TEST(FusedExchange, DumpOfProtocol) {
  for (auto [protocol, name] : {std::pair(1, "block"), std::pair(2, "ll")}) {
    auto file = ProgramFile::fromMemory(
        ExchangeSpec(2, false, 16, 2, static_cast<uint8_t>(protocol)).encode());
    ASSERT_TRUE(file.ok());
    auto loaded = (*file)->rankProgram(0);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    EXPECT_NE(dumpProgram(**loaded).find(std::string("5 parts by 2 blocks protocol ") + name),
              std::string::npos);
  }
}

TEST(FusedExchange, FieldsOfTheCommand) {
  auto expectError = [](const std::string &text, const std::function<void(CommandSpec &)> &edit) {
    ExchangeSpec spec(4);
    edit(spec.ranks[0].commands[spec.head]);
    std::string error = errorOf(spec);
    EXPECT_NE(error.find(text), std::string::npos) << "expected " << text << "\nfound " << error;
  };
  EXPECT_EQ(errorOf(ExchangeSpec(4)), "");
  EXPECT_EQ(errorOf(ExchangeSpec(4, true)), "");
  expectError("command 0 (fused_exchange \"fused_exchange #0\"): field aux: 99 parts, only 0",
              [](CommandSpec &c) { c.aux = 99; });
  expectError("field value: expected 1 to 1024 thread blocks, found 0",
              [](CommandSpec &c) { c.value = 0; });
  expectError("field op: expected a protocol below 3, found 3", [](CommandSpec &c) { c.op = 3; });
}

TEST(FusedExchange, StepsOfSeveralValues) {
  // Values of one shape are one move, others have a step each; so have their copies behind the
  // waits.
  EXPECT_EQ(stepsOfSpec(gatherSpec(2, {DType::F32, DType::F32}, 4)).size(), 2u);
  std::vector<ExchangeStep> steps = stepsOfSpec(gatherSpec(2, {DType::F32, DType::I8}, 4));
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[0].move.out.dtype, DType::F32);
  EXPECT_EQ(steps[1].move.out.dtype, DType::I8);
  EXPECT_EQ(steps[1].signals.size(), 1u);
  EXPECT_EQ(steps[2].waits.size(), 1u);
  EXPECT_TRUE(steps[3].waits.empty());
}

TEST(FusedExchange, WhatKernelsCannotDo) {
  auto expectError = [](const char *text, uint32_t ranks, const std::vector<DType> &types) {
    EXPECT_EQ(whyNoKernel(stepsOfSpec(gatherSpec(ranks, types, 4))), text);
  };
  expectError("", 2, {DType::I8, DType::F32});
  expectError("there is no kernel for f64", 2, {DType::F64});
  expectError("expected at most 2 shapes, found 3", 2, {DType::F32, DType::I8, DType::F16});
  // A rank stores to all and to its result, and copies what the others have sent.
  expectError("", 14, {DType::F32});
  expectError("expected at most 28 steps and 28 stores, found 2 and 30", 15, {DType::F32});
  // One shot stores to all, and adds.
  EXPECT_EQ(whyNoKernel(stepsOfSpec(ExchangeSpec(17))), "");
  EXPECT_EQ(whyNoKernel(stepsOfSpec(ExchangeSpec(18))),
            "expected at most 16 waits and 28 signals, found 17 and 17");
}

} // namespace
} // namespace tandem::test
