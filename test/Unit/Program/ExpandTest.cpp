//===- ExpandTest.cpp - the parts of typed exchanges ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ExchangeSpec.h"
#include "Support/GatedSpec.h"

#include "tandem/Program/ExchangeMemory.h"
#include "tandem/Program/Program.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>
#include <regex>
#include <sstream>

namespace tandem::test {
namespace {

using program::ExchangeMemory;
using program::exchangeMemory;

constexpr uint8_t kPerBlock = 1, kLL = 2;

Expected<std::shared_ptr<const Program>> load(const ProgramSpec &spec, uint32_t rank = 0) {
  TANDEM_ASSIGN_OR_RETURN(auto file, ProgramFile::fromMemory(spec.encode()));
  return file->rankProgram(rank);
}

/// The commands of a rank without their numbers and names, sorted: a barrier's order is free.
std::vector<std::string> commandsOf(const ProgramSpec &spec, uint32_t rank) {
  auto program = load(spec, rank);
  EXPECT_TRUE(program.ok()) << program.status().message();
  std::vector<std::string> lines;
  std::istringstream text(program ? dumpProgram(**program) : "");
  for (std::string line; std::getline(text, line);)
    if (std::regex_search(line, std::regex("^ *[0-9]+ s0  *(?!fused_exchange)")))
      lines.push_back(std::regex_replace(line, std::regex("^ *[0-9]+ s0 *| \"[^\"]*\"$"), ""));
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(Expand, MeansItsParts) {
  for (uint32_t ranks : {2, 4})
    for (bool twoShots : {false, true}) {
      ExchangeSpec plain(ranks, twoShots), typed(ranks, twoShots);
      plain.makePlain();
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(commandsOf(typed, rank), commandsOf(plain, rank));
        EXPECT_GT(commandsOf(typed, rank).size(), ranks);
      }
    }
  using Types = std::vector<DType>;
  for (const Types &types : {Types{DType::F32}, Types{DType::I8, DType::F32}})
    for (uint32_t rank = 0; rank < 3; ++rank)
      EXPECT_EQ(commandsOf(gatherSpec(3, types, 4), rank),
                commandsOf(gatherSpec(3, types, 4, 1, 0, /*isPlain=*/true), rank));
}

TEST(Expand, PartsOfAReduceScatter) {
  auto parts = program::deriveParts(program::ExchangeKind::ReduceScatter, 4, {false});
  using Kind = program::CommandKind;
  std::vector<std::pair<Kind, uint32_t>> found; // kind and peer of member 1
  for (const program::DerivedPart &part : parts)
    found.emplace_back(part.kind, part.peer(1, 4));
  EXPECT_EQ(found, (std::vector<std::pair<Kind, uint32_t>>{{Kind::Copy, 1},
                                                           {Kind::Put, 0},
                                                           {Kind::Put, 3},
                                                           {Kind::Put, 2},
                                                           {Kind::Signal, 0},
                                                           {Kind::Signal, 3},
                                                           {Kind::Signal, 2},
                                                           {Kind::WaitSignal, 2},
                                                           {Kind::WaitSignal, 3},
                                                           {Kind::WaitSignal, 0},
                                                           {Kind::Reduce, 1}}));
}

TEST(Expand, PartsOfAPush) {
  auto parts = program::deriveParts(program::ExchangeKind::Push, 3, {false, false});
  std::string found; // of member 0
  for (const program::DerivedPart &part : parts)
    found += fmt::format("{} {} to {}, ", toString(part.kind), part.value, part.peer(0, 3));
  EXPECT_EQ(found, "put 0 to 2, signal 0 to 2, put 1 to 2, signal 1 to 2, "
                   "put 0 to 1, signal 0 to 1, put 1 to 1, signal 1 to 1, ");
}

/// Expects that rank 0's program is refused after a change, with this text in the message.
void expectError(const std::string &text, ProgramSpec spec,
                 const std::function<void(RankSpec &)> &edit) {
  edit(spec.ranks[0]);
  auto program = load(spec);
  ASSERT_FALSE(program.ok()) << text;
  EXPECT_NE(program.status().message().find(text), std::string::npos)
      << "expected " << text << "\nfound " << program.status().message();
}

TEST(Expand, Refuses) {
  ExchangeSpec one(4, false, 16, 2, kPerBlock), two(4, true, 16, 2, kPerBlock);
  ProgramSpec gather = gatherSpec(4, {DType::I8, DType::F32}, 4, 2, kPerBlock);
  expectError("field peer: exchange 1 of 1", one, [](RankSpec &r) { r.commands[0].peer = 1; });
  expectError("expected no parts in the file, found 3", one, [](RankSpec &r) {
    r.commands[0].aux = 3;
    for (int i = 0; i < 3; ++i)
      r.waitSignal(0, 0, 0, 1);
  });
  expectError("field kind: unknown kind 5", one,
              [](RankSpec &r) { r.exchanges[0].kind = static_cast<sp::ExchangeKind>(5); });
  expectError("exchanges[0]: field channel: 1 of 1", one,
              [](RankSpec &r) { r.exchanges[0].channel = 1; });
  expectError("field channel: expected at least 2 members, found 1", one,
              [](RankSpec &r) { r.exchanges[0].channel = r.channel({0}, 2, "alone"); });
  expectError("field slot: slots 1 to 4 of 4", one, [](RankSpec &r) { r.exchanges[0].slot = 1; });
  expectError("slot 1 belongs to exchange 0", one, [](RankSpec &r) {
    r.slots.push_back(1);
    r.exchanges.push_back(r.exchanges[0]);
    r.exchanges[1].slot = 1;
    r.commands.push_back(r.commands[0]);
    r.commands[1].peer = 1;
  });
  expectError("slot 2 belongs to an exchange", one, [](RankSpec &r) { r.waitSignal(0, 0, 2, 1); });
  expectError("found 2, 1 and 1", one, [](RankSpec &r) { r.exchanges[0].in.push_back(0); });
  expectError("field copy: expected none, found view 0", one,
              [](RankSpec &r) { r.exchanges[0].copy = {0}; });
  expectError("view 99 of", one, [](RankSpec &r) { r.exchanges[0].in = {99}; });
  expectError("field scratch: view 0 of", gather, [](RankSpec &r) { r.exchanges[0].scratch = 0; });
  expectError("expected a part for each of 4 members in dimension 1", two,
              [](RankSpec &r) { r.exchanges[0].cut = 1; });
  expectError("field out: overlaps other elements of in", one, [](RankSpec &r) {
    sp::View view = r.views[r.exchanges[0].in[0]];
    r.views.emplace_back(view.buffer(), view.layout(), view.offset());
    r.exchanges[0].out = {r.view(view.buffer(), DType::F32, {8, 2}, Shape{1, 8}, 0)};
  });
  expectError("field out: overlaps in", gather, [](RankSpec &r) {
    sp::View all = r.views[r.exchanges[0].out[0]];
    r.exchanges[0].in[0] = r.view(all.buffer(), DType::I8, {4}, 2);
  });
  for (const ProgramSpec &spec : {static_cast<ProgramSpec>(two), gather})
    expectError("protocol LL: expected one shot and one value", spec,
                [](RankSpec &r) { r.commands[0].op = kLL; });
}

TEST(Expand, APushSignalsPerStep) {
  GatedSpec spec(2, 2, 2);
  auto exchange = std::find_if(
      spec.ranks[0].commands.begin(), spec.ranks[0].commands.end(),
      [](const CommandSpec &command) { return command.kind == sp::CommandKind::fused_exchange; });
  exchange->op = kPerBlock;
  EXPECT_NE(load(spec).status().message().find("expected one signal per step of a push"),
            std::string::npos);
}

ExchangeMemory memoryOf(const ProgramSpec &spec) {
  auto program = load(spec);
  EXPECT_TRUE(program.ok()) << program.status().message();
  return exchangeMemory((*program)->data());
}

TEST(Expand, Memory) {
  EXPECT_EQ(memoryOf(ExchangeSpec(4)).size, 0u); // one signal per step
  ExchangeMemory flags = memoryOf(ExchangeSpec(4, true, 16, 3, kPerBlock));
  ASSERT_EQ(flags.places.size(), 1u);
  EXPECT_EQ(flags.size, 24u); // 2 shots of 4 members and 3 blocks
  EXPECT_EQ(flags.find(0), flags.places.data());
  EXPECT_EQ(flags.find(1), nullptr);
  // 18 floats are 5 units, of 4 words from each of 4 ranks, twice.
  ExchangeMemory words = memoryOf(ExchangeSpec(4, false, 18, 2, kLL));
  EXPECT_EQ(words.firstLL, 8u);
  EXPECT_EQ(words.bufferLL, 80u);
  EXPECT_EQ(words.size, 8u + 160);
  EXPECT_EQ(words.numLL, 1u);
  // For more ranks, or bytes, than LL has buffers for, each block signals.
  EXPECT_EQ(memoryOf(ExchangeSpec(9, false, 18, 2, kLL)).numLL, 0u);
  EXPECT_EQ(memoryOf(ExchangeSpec(2, false, 200000, 2, kLL)).numLL, 0u);
  // Exchanges of several sizes alternate between the same two buffers: 25 units, then one.
  ProgramSpec two = gatherSpec(2, {DType::F32}, 100, 2, kLL);
  for (RankSpec &rank : two.ranks) {
    sp::ExchangeT second = rank.exchanges[0];
    auto shorter = [&](uint32_t &view, const Shape &shape) {
      sp::View from = rank.views.at(view);
      view = rank.view(from.buffer(), DType::F32, shape, from.offset());
    };
    second.slot = 2;
    shorter(second.in[0], {4});
    shorter(second.out[0], {2, 4});
    shorter(second.copy[0], {2, 4});
    rank.slots.assign(4, 1);
    rank.exchanges.push_back(second);
    CommandSpec again = rank.commands[0];
    again.peer = 1;
    rank.commands.push_back(again);
  }
  ExchangeMemory both = memoryOf(two);
  EXPECT_EQ(both.numLL, 2u);
  EXPECT_EQ(both.bufferLL, 200u);
}

} // namespace
} // namespace tandem::test
