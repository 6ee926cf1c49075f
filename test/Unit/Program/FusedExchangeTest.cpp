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

using program::CommandKind;
using program::ExchangePart;
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

std::vector<ExchangeStep> stepsOfRank1(const ExchangeSpec &spec) {
  auto file = ProgramFile::fromMemory(spec.encode());
  EXPECT_TRUE(file.ok()) << file.status().message();
  auto loaded = (*file)->rankProgram(1);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return stepsOf(program::exchangeParts(**loaded, spec.head));
}

TEST(FusedExchange, StepsOfOneShot) {
  std::vector<ExchangeStep> steps = stepsOfRank1(ExchangeSpec(4));
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
  std::vector<ExchangeStep> steps = stepsOfRank1(ExchangeSpec(4, /*twoShots=*/true));
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

ExchangePart copyOf(DType type, int64_t count, CommandKind kind = CommandKind::Copy) {
  ExchangePart part;
  part.kind = kind;
  part.outLayout = part.inLayout = Layout::dense(type, {count});
  return part;
}

TEST(FusedExchange, StepsOfOtherShapes) {
  ExchangePart wait;
  wait.kind = CommandKind::WaitSignal;
  // Copies of another value are a step of their own, and so is a reduction.
  ExchangePart reduce = copyOf(DType::F32, 4, CommandKind::Reduce);
  reduce.inLayout = Layout::dense(DType::F32, {2, 4});
  std::vector<ExchangePart> parts{copyOf(DType::F32, 4), copyOf(DType::I8, 7), wait, reduce};
  EXPECT_EQ(stepsOf(parts).size(), 3u);
  EXPECT_EQ(stepsOf({copyOf(DType::F32, 4), reduce}).size(), 2u);
  // A sum is stored further from where it is.
  reduce.out = 5;
  ExchangePart put = copyOf(DType::F32, 4, CommandKind::Put);
  put.in = 5;
  EXPECT_EQ(stepsOf({reduce, put}).at(0).move.stores.size(), 2u);
  put.in = 6;
  EXPECT_EQ(stepsOf({reduce, put}).size(), 2u);
}

TEST(FusedExchange, WhatKernelsCannotDo) {
  EXPECT_EQ(whyNoKernel(stepsOf({copyOf(DType::I8, 4), copyOf(DType::F32, 4)})), "");
  EXPECT_EQ(whyNoKernel(stepsOf({copyOf(DType::F64, 4)})), "there is no kernel for f64");
  std::vector<ExchangePart> parts;
  for (int64_t count = 1; count <= 3; ++count)
    parts.push_back(copyOf(DType::F32, count));
  EXPECT_EQ(whyNoKernel(stepsOf(parts)), "expected at most 2 shapes, found 3");
  parts.assign(29, copyOf(DType::F32, 4));
  EXPECT_EQ(whyNoKernel(stepsOf(parts)), "expected at most 28 steps and 28 stores, found 1 and 29");
  parts.assign(29, ExchangePart());
  for (ExchangePart &part : parts)
    part.kind = CommandKind::Signal;
  EXPECT_EQ(whyNoKernel(stepsOf(parts)),
            "expected at most 16 waits and 28 signals, found 0 and 29");
}

} // namespace
} // namespace tandem::test
