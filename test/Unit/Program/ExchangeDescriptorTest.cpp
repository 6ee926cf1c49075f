//===- ExchangeDescriptorTest.cpp - fused exchanges of all ranks -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ExchangeSpec.h"

#include "tandem/Program/ExchangeDescriptor.h"
#include "tandem/Program/Program.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>

namespace tandem::test {
namespace {

using program::DescribedPart;
using program::ExchangeDescriptor;
using program::ExchangeMatch;
using program::ExchangePart;
using program::exchangeRoom;
using program::ExchangeRoom;
using program::ExchangeSignals;
using program::matchExchange;
using PartKind = ExchangePart::Kind;

constexpr uint8_t kByBlocks = 1, kByWords = 2;

/// Of command 0.
std::vector<ExchangeDescriptor> descriptorsOf(const ProgramSpec &spec) {
  auto file = ProgramFile::fromMemory(spec.encode());
  EXPECT_TRUE(file.ok()) << file.status().message();
  std::vector<ExchangeDescriptor> descriptors;
  for (uint32_t rank = 0; rank < spec.ranks.size(); ++rank) {
    auto loaded = (*file)->rankProgram(rank);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    ExchangeRoom room = exchangeRoom((*loaded)->data());
    ExchangeDescriptor &descriptor = descriptors.emplace_back();
    descriptor.signals = room.places.at(0).signals;
    descriptor.blocks = descriptor.blocksOfRoom = 2 + rank;
    descriptor.numByWords = room.numByWords;
    descriptor.halfOfWords = room.halfOfWords;
    std::vector<ExchangePart> parts = program::exchangeParts(**loaded, 0);
    for (uint32_t i = 0; i < parts.size(); ++i) {
      const CommandSpec &command = spec.ranks[rank].commands[1 + i];
      DescribedPart &described = descriptor.parts.emplace_back();
      described.part = parts[i];
      if (parts[i].moves())
        continue;
      described.part.peer = command.peer;
      described.slot = command.aux;
      described.value = command.value;
      described.perRun = 1;
    }
  }
  return descriptors;
}

DescribedPart &partOf(ExchangeDescriptor &descriptor, PartKind kind, uint32_t n = 0) {
  for (DescribedPart &described : descriptor.parts)
    if (described.part.kind == kind && n-- == 0)
      return described;
  ADD_FAILURE() << "no such part";
  return descriptor.parts.at(0);
}

/// Why the members do not agree, or why not by words, after a change.
std::string whyNot(const ProgramSpec &spec,
                   const std::function<void(std::vector<ExchangeDescriptor> &)> &edit) {
  std::vector<ExchangeDescriptor> descriptors = descriptorsOf(spec);
  edit(descriptors);
  auto match = matchExchange(descriptors);
  return match ? match->whyNotByWords : match.status().message();
}

TEST(ExchangeDescriptor, SignalsOfOneShot) {
  auto match = matchExchange(descriptorsOf(ExchangeSpec(4, false, 16, 2, kByWords)));
  ASSERT_TRUE(match.ok()) << match.status().message();
  EXPECT_EQ(match->blocks, 2u);
  EXPECT_EQ(match->whyNotByWords, "");
  EXPECT_EQ(match->terms, (std::vector<uint32_t>{0, 1, 2, 3}));
  // Rank 0 signals 3, 2, 1. They await 2, 1, 0; 1, 0, 3; 0, 3, 2.
  EXPECT_EQ(match->waitOf.at(0), (std::vector<uint32_t>{2, 1, 0}));
  EXPECT_EQ(match->waitOf.at(2), (std::vector<uint32_t>{2, 1, 0}));
}

TEST(ExchangeDescriptor, TwoShotsSignalByBlocks) {
  for (uint8_t signals : {kByBlocks, kByWords}) {
    auto match = matchExchange(descriptorsOf(ExchangeSpec(4, true, 16, 2, signals)));
    ASSERT_TRUE(match.ok()) << match.status().message();
    EXPECT_EQ(match->waitOf.at(0), (std::vector<uint32_t>{2, 1, 0, 5, 4, 3}));
    EXPECT_NE(match->whyNotByWords, "");
  }
}

TEST(ExchangeDescriptor, MembersMoveTheSameElements) {
  ExchangeSpec one(4, false, 16, 2, kByWords), two(4, true, 16, 2, kByBlocks);
  EXPECT_EQ(whyNot(one, [](auto &) {}), "");
  EXPECT_EQ(whyNot(one, [](auto &all) { all[2].number = 1; }), "member 2 has no such exchange");
  EXPECT_EQ(whyNot(one, [&](auto &all) { all[1] = descriptorsOf(two)[1]; }),
            "member 1 has 3 steps, member 0 2");
  EXPECT_EQ(whyNot(one, [](auto &all) { partOf(all[3], PartKind::Reduce).part.reduceOp = 1; }),
            "step 1 of member 3 moves other elements than that of member 0");
  EXPECT_EQ(whyNot(one, [](auto &all) { all[3].blocksOfRoom = 0; }),
            "a member has no thread block");
}

TEST(ExchangeDescriptor, EachSignalHasItsWait) {
  ExchangeSpec spec(4, true, 16, 2, kByBlocks);
  EXPECT_EQ(whyNot(spec, [](auto &all) { partOf(all[0], PartKind::Signal, 4).slot = 9; }),
            "member 2 does not await a signal of member 0 here");
  EXPECT_EQ(whyNot(spec, [](auto &all) { partOf(all[0], PartKind::Signal, 4).value = 2; }),
            "member 2 does not await a signal of member 0 here");
  EXPECT_EQ(whyNot(spec, [](auto &all) { partOf(all[0], PartKind::Signal, 4).part.peer = 4; }),
            "a signal of member 0 is to no other member");
  EXPECT_EQ(whyNot(spec,
                   [](auto &all) {
                     all[1].parts.push_back(partOf(all[1], PartKind::WaitSignal));
                     all[1].parts.back().slot = 9;
                   }),
            "member 1 awaits a signal that no member raises here");
}

TEST(ExchangeDescriptor, BlocksMeetOnlyBlocksOfTheirNumber) {
  ExchangeSpec one(4, false, 16, 2, kByWords), two(4, true, 16, 2, kByBlocks);
  // Half a slot further than the receiver reads it.
  EXPECT_EQ(whyNot(one, [](auto &all) { partOf(all[0], PartKind::Put).part.out.address += 32; }),
            "members 0 and 1 store to one place of member 3");
  EXPECT_EQ(whyNot(ExchangeSpec(2, false, 16, 2, kByWords),
                   [](auto &all) { partOf(all[0], PartKind::Put).part.out.address += 32; }),
            "member 1 writes what member 0 stores there");
  EXPECT_EQ(whyNot(ExchangeSpec(3, false, 16, 2, kByWords),
                   [](auto &all) { partOf(all[2], PartKind::Put).part.out.address += 32; }),
            "member 1 reads what member 2 stores there, as other elements");
  EXPECT_EQ(whyNot(two,
                   [](auto &all) {
                     for (DescribedPart &described : all[0].parts)
                       if (described.part.kind == PartKind::Put)
                         described.part.out.buffer = uint64_t(1) << 32;
                   }),
            "a put of member 0 is not to symmetric memory");
}

TEST(ExchangeDescriptor, WordsAreForOneShot) {
  ExchangeSpec spec(4, false, 16, 2, kByWords);
  EXPECT_EQ(whyNot(ExchangeSpec(4, true, 16, 2, kByWords), [](auto &) {}), "it is not one shot");
  EXPECT_EQ(whyNot(spec, [](auto &all) { all[1].signals = ExchangeSignals::Block; }),
            "member 1 does not support it");
  EXPECT_EQ(whyNot(spec, [](auto &all) { all[1].wordNumber = 1; }), "member 1 does not support it");
  EXPECT_EQ(whyNot(spec, [](auto &all) { all[3].numByWords = 2; }), "member 3 does not support it");
  EXPECT_EQ(whyNot(spec, [](auto &all) { all[2].halfOfWords = 0; }),
            "member 2 does not support it");
  EXPECT_EQ(whyNot(spec,
                   [](auto &all) {
                     auto &parts = all[2].parts;
                     parts.erase(parts.begin() + 1);
                   }),
            "not all members get a value");
  EXPECT_EQ(whyNot(spec,
                   [](auto &all) {
                     auto &parts = all[2].parts;
                     parts.erase(parts.begin());
                   }),
            "not all members get a value");
  // The sums of the first shot are copied in it, too.
  EXPECT_EQ(whyNot(spec,
                   [](auto &all) {
                     auto &parts = all[2].parts;
                     DescribedPart copy = parts.front();
                     copy.part.in = parts.back().part.out;
                     copy.part.out.buffer = 1;
                     parts.push_back(copy);
                   }),
            "it adds and does more");
}

TEST(ExchangeDescriptor, WordsOfAReduceScatter) {
  ExchangeSpec spec(4, true, 16, 2, kByWords);
  spec.dropSecondShot();
  auto match = matchExchange(descriptorsOf(spec));
  ASSERT_TRUE(match.ok()) << match.status().message();
  EXPECT_EQ(match->whyNotByWords, "");
  EXPECT_EQ(match->terms, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(match->slots, (std::vector<uint64_t>{0, 16, 32, 48}));
  // The own value may be another one than that of a peer, but not two.
  EXPECT_EQ(whyNot(spec,
                   [](auto &all) {
                     DescribedPart copy = partOf(all[1], PartKind::Copy);
                     copy.part.in.address += 64;
                     copy.part.out.buffer = 1;
                     all[1].parts.insert(all[1].parts.begin(), copy);
                   }),
            "a member copies several values");
}

TEST(ExchangeDescriptor, WordsOfAGather) {
  ProgramSpec spec = gatherSpec(3, {DType::F32}, 4, 2, kByWords);
  auto match = matchExchange(descriptorsOf(spec));
  ASSERT_TRUE(match.ok()) << match.status().message();
  EXPECT_EQ(match->whyNotByWords, "");
  EXPECT_EQ(match->terms, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(match->slots, (std::vector<uint64_t>{0, 16, 32}));
  // Stores: own slot, own copy, puts to the two others; then copies of what they have sent. Those
  // of rank 1 come from ranks 0 and 2.
  EXPECT_EQ(match->copies.at(0), (std::vector<uint32_t>{1, 5, 4}));
  EXPECT_EQ(match->copies.at(1), (std::vector<uint32_t>{4, 1, 5}));
  auto lastCopy = [](ExchangeDescriptor &descriptor) -> ExchangePart & {
    return descriptor.parts.back().part;
  };
  EXPECT_EQ(whyNot(spec, [&](auto &all) { lastCopy(all[1]).in.address = 0; }),
            "a value has several copies");
  EXPECT_EQ(whyNot(spec, [&](auto &all) { lastCopy(all[1]).in.address = 48; }),
            "it copies other elements than it got");
  EXPECT_EQ(whyNot(spec, [&](auto &all) { partOf(all[2], PartKind::Put).part.out.address += 48; }),
            "the values have other places on other members");
}

TEST(ExchangeDescriptor, Text) {
  for (const ExchangeDescriptor &descriptor :
       descriptorsOf(ExchangeSpec(4, true, 16, 2, kByBlocks))) {
    std::optional<ExchangeDescriptor> read = ExchangeDescriptor::parse(descriptor.str());
    ASSERT_TRUE(read);
    EXPECT_EQ(read->str(), descriptor.str());
    EXPECT_EQ(read->parts.size(), 20u);
    EXPECT_FALSE(ExchangeDescriptor::parse(descriptor.str() + " 1"));
    std::string text = descriptor.str();
    for (size_t end = 0; end + 1 < text.size(); ++end)
      if (text[end] == ' ') {
        EXPECT_FALSE(ExchangeDescriptor::parse(text.substr(0, end))) << end;
      }
  }
  ExchangeDescriptor descriptor = descriptorsOf(ExchangeSpec(2, false, 16, 2, kByWords))[0];
  descriptor.parts[0].part.in.layout.shape[0] = int64_t(1) << 62;
  EXPECT_FALSE(ExchangeDescriptor::parse(descriptor.str()));
  descriptor.parts[0].part.in.layout.shape[0] = 16;
  descriptor.parts[0].part.in.layout.strides[0] = -1;
  EXPECT_FALSE(ExchangeDescriptor::parse(descriptor.str()));
  EXPECT_FALSE(ExchangeDescriptor::parse(""));
}

ExchangeRoom roomOf(const ProgramSpec &spec) {
  auto file = ProgramFile::fromMemory(spec.encode());
  EXPECT_TRUE(file.ok()) << file.status().message();
  auto loaded = (*file)->rankProgram(0);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return exchangeRoom((*loaded)->data());
}

TEST(ExchangeDescriptor, Room) {
  EXPECT_EQ(roomOf(ExchangeSpec(4)).size, 0u); // one signal per step
  ExchangeRoom blocks = roomOf(ExchangeSpec(4, true, 16, 3, kByBlocks));
  ASSERT_EQ(blocks.places.size(), 1u);
  EXPECT_EQ(blocks.size, 24u); // 6 waits of 3 blocks, in whole lines
  EXPECT_EQ(blocks.find(0), blocks.places.data());
  EXPECT_EQ(blocks.find(1), nullptr);
  // 18 floats are 5 units, of 4 words from each of 4 ranks, twice.
  ExchangeRoom words = roomOf(ExchangeSpec(4, false, 18, 2, kByWords));
  EXPECT_EQ(words.firstOfWords, 8u);
  EXPECT_EQ(words.halfOfWords, 80u);
  EXPECT_EQ(words.size, 8u + 160);
  EXPECT_EQ(words.numByWords, 1u);
  // For more ranks than the kernel has, each block signals.
  ExchangeRoom many = roomOf(ExchangeSpec(9, false, 18, 2, kByWords));
  EXPECT_EQ(many.places.at(0).signals, ExchangeSignals::Block);
  EXPECT_EQ(many.numByWords, 0u);
  // Exchanges of several sizes use one half and the other one in turn: 25 units, then one.
  ProgramSpec two = gatherSpec(2, {DType::F32}, 100, 2, kByWords);
  for (RankSpec &rank : two.ranks) {
    std::vector<CommandSpec> again = rank.commands;
    for (CommandSpec &command : again)
      for (uint32_t &operand : command.operands)
        if (operand != sp::kNoView) {
          sp::View view = rank.views.at(operand);
          operand = rank.view(view.buffer(), DType::F32, {4}, view.offset());
        }
    rank.commands.insert(rank.commands.end(), again.begin(), again.end());
  }
  ExchangeRoom both = roomOf(two);
  EXPECT_EQ(both.numByWords, 2u);
  EXPECT_EQ(both.halfOfWords, 200u);
}

} // namespace
} // namespace tandem::test
