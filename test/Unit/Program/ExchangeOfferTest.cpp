//===- ExchangeOfferTest.cpp - fused exchanges of all ranks -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ExchangeSpec.h"

#include "tandem/Program/ExchangeOffer.h"
#include "tandem/Program/Program.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>

namespace tandem::test {
namespace {

using program::ExchangeMatch;
using program::ExchangeOffer;
using program::ExchangePart;
using program::exchangeRoom;
using program::ExchangeRoom;
using program::ExchangeSignals;
using program::matchExchange;
using program::OfferedPart;
using PartKind = ExchangePart::Kind;

constexpr uint8_t kByBlocks = 1, kByWords = 2;

/// Of command 0.
std::vector<ExchangeOffer> offersOf(const ProgramSpec &spec) {
  auto file = ProgramFile::fromMemory(spec.encode());
  EXPECT_TRUE(file.ok()) << file.status().message();
  std::vector<ExchangeOffer> offers;
  for (uint32_t rank = 0; rank < spec.ranks.size(); ++rank) {
    auto loaded = (*file)->rankProgram(rank);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    ExchangeRoom room = exchangeRoom((*loaded)->data());
    ExchangeOffer &offer = offers.emplace_back();
    offer.signals = room.places.at(0).signals;
    offer.blocks = offer.blocksOfRoom = 2 + rank;
    offer.numByWords = room.numByWords;
    offer.halfOfWords = room.halfOfWords;
    std::vector<ExchangePart> parts = program::exchangeParts(**loaded, 0);
    for (uint32_t i = 0; i < parts.size(); ++i) {
      const CommandSpec &command = spec.ranks[rank].commands[1 + i];
      OfferedPart &offered = offer.parts.emplace_back();
      offered.part = parts[i];
      if (parts[i].moves())
        continue;
      offered.part.peer = command.peer;
      offered.slot = command.aux;
      offered.value = command.value;
      offered.perRun = 1;
    }
  }
  return offers;
}

OfferedPart &partOf(ExchangeOffer &offer, PartKind kind, uint32_t n = 0) {
  for (OfferedPart &offered : offer.parts)
    if (offered.part.kind == kind && n-- == 0)
      return offered;
  ADD_FAILURE() << "no such part";
  return offer.parts.at(0);
}

/// Why the members do not agree, or why not by words, after a change.
std::string whyNot(const ProgramSpec &spec,
                   const std::function<void(std::vector<ExchangeOffer> &)> &edit) {
  std::vector<ExchangeOffer> offers = offersOf(spec);
  edit(offers);
  auto match = matchExchange(offers);
  return match ? match->whyNotByWords : match.status().message();
}

TEST(ExchangeOffer, SignalsOfOneShot) {
  auto match = matchExchange(offersOf(ExchangeSpec(4, false, 16, 2, kByWords)));
  ASSERT_TRUE(match.ok()) << match.status().message();
  EXPECT_EQ(match->blocks, 2u);
  EXPECT_EQ(match->whyNotByWords, "");
  EXPECT_EQ(match->terms, (std::vector<uint32_t>{0, 1, 2, 3}));
  // Rank 0 signals 3, 2, 1. They await 2, 1, 0; 1, 0, 3; 0, 3, 2.
  EXPECT_EQ(match->waitOf.at(0), (std::vector<uint32_t>{2, 1, 0}));
  EXPECT_EQ(match->waitOf.at(2), (std::vector<uint32_t>{2, 1, 0}));
}

TEST(ExchangeOffer, TwoShotsSignalByBlocks) {
  for (uint8_t signals : {kByBlocks, kByWords}) {
    auto match = matchExchange(offersOf(ExchangeSpec(4, true, 16, 2, signals)));
    ASSERT_TRUE(match.ok()) << match.status().message();
    EXPECT_EQ(match->waitOf.at(0), (std::vector<uint32_t>{2, 1, 0, 5, 4, 3}));
    EXPECT_NE(match->whyNotByWords, "");
  }
}

TEST(ExchangeOffer, MembersMoveTheSameElements) {
  ExchangeSpec one(4, false, 16, 2, kByWords), two(4, true, 16, 2, kByBlocks);
  EXPECT_EQ(whyNot(one, [](auto &) {}), "");
  EXPECT_EQ(whyNot(one, [](auto &all) { all[2].number = 1; }), "member 2 has no such exchange");
  EXPECT_EQ(whyNot(one, [&](auto &all) { all[1] = offersOf(two)[1]; }),
            "member 1 has 3 steps, member 0 2");
  EXPECT_EQ(whyNot(one, [](auto &all) { partOf(all[3], PartKind::Reduce).part.reduceOp = 1; }),
            "step 1 of member 3 moves other elements than that of member 0");
  EXPECT_EQ(whyNot(one, [](auto &all) { all[3].blocksOfRoom = 0; }),
            "a member has no thread block");
}

TEST(ExchangeOffer, EachSignalHasItsWait) {
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

TEST(ExchangeOffer, BlocksMeetOnlyBlocksOfTheirNumber) {
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
                     for (OfferedPart &offered : all[0].parts)
                       if (offered.part.kind == PartKind::Put)
                         offered.part.out.buffer = uint64_t(1) << 32;
                   }),
            "a put of member 0 is not to symmetric memory");
}

TEST(ExchangeOffer, WordsAreForOneShot) {
  ExchangeSpec spec(4, false, 16, 2, kByWords);
  EXPECT_EQ(whyNot(ExchangeSpec(4, true, 16, 2, kByWords), [](auto &) {}), "it is not one shot");
  EXPECT_EQ(whyNot(spec, [](auto &all) { all[1].signals = ExchangeSignals::Block; }),
            "member 1 does not offer it");
  EXPECT_EQ(whyNot(spec, [](auto &all) { all[1].wordNumber = 1; }), "member 1 does not offer it");
  EXPECT_EQ(whyNot(spec, [](auto &all) { all[3].numByWords = 2; }), "member 3 does not offer it");
  EXPECT_EQ(whyNot(spec, [](auto &all) { all[2].halfOfWords = 0; }), "member 2 does not offer it");
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
                     OfferedPart copy = parts.front();
                     copy.part.in = parts.back().part.out;
                     copy.part.out.buffer = 1;
                     parts.push_back(copy);
                   }),
            "it adds and does more");
}

TEST(ExchangeOffer, WordsOfAReduceScatter) {
  ExchangeSpec spec(4, true, 16, 2, kByWords);
  spec.dropSecondShot();
  auto match = matchExchange(offersOf(spec));
  ASSERT_TRUE(match.ok()) << match.status().message();
  EXPECT_EQ(match->whyNotByWords, "");
  EXPECT_EQ(match->terms, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(match->slots, (std::vector<uint64_t>{0, 16, 32, 48}));
  // The own value may be another one than that of a peer, but not two.
  EXPECT_EQ(whyNot(spec,
                   [](auto &all) {
                     OfferedPart copy = partOf(all[1], PartKind::Copy);
                     copy.part.in.address += 64;
                     copy.part.out.buffer = 1;
                     all[1].parts.insert(all[1].parts.begin(), copy);
                   }),
            "a member copies several values");
}

TEST(ExchangeOffer, WordsOfAGather) {
  ProgramSpec spec = gatherSpec(3, {DType::F32}, 4, 2, kByWords);
  auto match = matchExchange(offersOf(spec));
  ASSERT_TRUE(match.ok()) << match.status().message();
  EXPECT_EQ(match->whyNotByWords, "");
  EXPECT_EQ(match->terms, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(match->slots, (std::vector<uint64_t>{0, 16, 32}));
  // Stores: own slot, own copy, puts to the two others; then copies of what they have sent. Those
  // of rank 1 come from ranks 0 and 2.
  EXPECT_EQ(match->copies.at(0), (std::vector<uint32_t>{1, 5, 4}));
  EXPECT_EQ(match->copies.at(1), (std::vector<uint32_t>{4, 1, 5}));
  auto lastCopy = [](ExchangeOffer &offer) -> ExchangePart & { return offer.parts.back().part; };
  EXPECT_EQ(whyNot(spec, [&](auto &all) { lastCopy(all[1]).in.address = 0; }),
            "a value has several copies");
  EXPECT_EQ(whyNot(spec, [&](auto &all) { lastCopy(all[1]).in.address = 48; }),
            "it copies other elements than it got");
  EXPECT_EQ(whyNot(spec, [&](auto &all) { partOf(all[2], PartKind::Put).part.out.address += 48; }),
            "the values have other places on other members");
}

TEST(ExchangeOffer, Text) {
  for (const ExchangeOffer &offer : offersOf(ExchangeSpec(4, true, 16, 2, kByBlocks))) {
    std::optional<ExchangeOffer> read = ExchangeOffer::parse(offer.str());
    ASSERT_TRUE(read);
    EXPECT_EQ(read->str(), offer.str());
    EXPECT_EQ(read->parts.size(), 20u);
    EXPECT_FALSE(ExchangeOffer::parse(offer.str() + " 1"));
    std::string text = offer.str();
    for (size_t end = 0; end + 1 < text.size(); ++end)
      if (text[end] == ' ') {
        EXPECT_FALSE(ExchangeOffer::parse(text.substr(0, end))) << end;
      }
  }
  ExchangeOffer offer = offersOf(ExchangeSpec(2, false, 16, 2, kByWords))[0];
  offer.parts[0].part.in.layout.shape[0] = int64_t(1) << 62;
  EXPECT_FALSE(ExchangeOffer::parse(offer.str()));
  offer.parts[0].part.in.layout.shape[0] = 16;
  offer.parts[0].part.in.layout.strides[0] = -1;
  EXPECT_FALSE(ExchangeOffer::parse(offer.str()));
  EXPECT_FALSE(ExchangeOffer::parse(""));
}

ExchangeRoom roomOf(const ProgramSpec &spec) {
  auto file = ProgramFile::fromMemory(spec.encode());
  EXPECT_TRUE(file.ok()) << file.status().message();
  auto loaded = (*file)->rankProgram(0);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return exchangeRoom((*loaded)->data());
}

TEST(ExchangeOffer, Room) {
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
