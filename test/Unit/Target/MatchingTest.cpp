//===- MatchingTest.cpp - messages and collectives across ranks -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Translated.h"

#include <gtest/gtest.h>
#include <map>

using namespace tandem::test;

namespace {

std::string ringProgram(const std::string &body, int ranks = 4) {
  return programText(
      "%in: memref<8xf32>, %out: memref<4x8xf32> {hostir.result}",
      "  %c0 = arith.constant 0 : index\n  %c1 = arith.constant 1 : index\n"
      "  %p = arith.constant " +
          std::to_string(ranks) +
          " : index\n"
          "  %n = arith.addi %me, %c1 : index\n  %right = arith.remui %n, %p : index\n"
          "  %l = arith.addi %me, %p : index\n  %m = arith.subi %l, %c1 : index\n"
          "  %left = arith.remui %m, %p : index\n"
          "  %ch = hostir.channel \"ring\" over #tp [\"x\"] can [two_sided, collectives]\n" +
          body,
      "{workers = 2 : i64}", ranks);
}
std::string row(const std::string &name, const std::string &index) {
  return "  %" + name + " = memref.subview %out[" + index +
         ", 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>\n";
}
const std::string kRow = "memref<8xf32, strided<[1], offset: ?>>";

TEST(Matching, TagsCountPerPairAndDirection) {
  Translated t(ringProgram(row("r", "%left") +
                           "  %c3 = arith.constant 3 : index\n"
                           "  scf.for %i = %c0 to %c3 step %c1 {\n"
                           "    hostir.group via %ch on %main {\n"
                           "      hostir.recv %r from %left : " +
                           kRow +
                           "\n"
                           "      hostir.send %in to %right : memref<8xf32>\n    }\n  }\n"));
  ASSERT_TRUE(t.ok) << t.errors;
  std::string text = t.commands(1);
  for (std::string tag : {"0", "1", "2"}) {
    EXPECT_NE(text.find("recv c0 arg1:f32[8] from 0 tag " + tag + " bytes 32"), std::string::npos)
        << text;
    EXPECT_NE(text.find("send c0 arg0:f32[8] to 2 tag " + tag + " bytes 32"), std::string::npos)
        << text;
  }
  EXPECT_EQ(t.stats.messages, 24u);
}

/// All-to-all exchange: every tag of every send is that of its receive.
TEST(Matching, EverySendHasItsReceive) {
  const int ranks = 7;
  Translated t(
      programText("%in: memref<8xf32>, %out: memref<7x8xf32> {hostir.result}",
                  "  %c1 = arith.constant 1 : index\n  %p = arith.constant 7 : index\n"
                  "  %ch = hostir.channel \"x\" over #tp [\"x\"] can [two_sided]\n"
                  "  scf.for %i = %c1 to %p step %c1 {\n"
                  "    %a = arith.addi %me, %i : index\n    %from = arith.remui %a, %p : index\n"
                  "    %b = arith.addi %me, %p : index\n    %c = arith.subi %b, %i : index\n    "
                  "%to = arith.remui %c, %p : index\n"
                  "    %r = memref.subview %out[%from, 0] [1, 8] [1, 1] : memref<7x8xf32> to " +
                      kRow +
                      "\n"
                      "    hostir.group via %ch on %main {\n"
                      "      hostir.recv %r from %from : " +
                      kRow + "\n      hostir.send %in to %to : memref<8xf32>\n    }\n  }\n",
                  "{workers = 2 : i64}", ranks));
  ASSERT_TRUE(t.ok) << t.errors;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, int> open;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    auto program = t.file->rankProgram(rank);
    ASSERT_TRUE(program.ok()) << program.status().message();
    const auto &data = (*program)->data();
    for (const auto *command : *data.commands()) {
      uint32_t peer = data.channels()->Get(0)->group()->Get(command->peer());
      if (command->kind() == tandem::sp::CommandKind::send)
        ++open[{rank, peer, command->aux()}];
      if (command->kind() == tandem::sp::CommandKind::recv)
        --open[{peer, rank, command->aux()}];
    }
  }
  EXPECT_EQ(open.size(), 42u);
  for (const auto &[key, count] : open)
    EXPECT_EQ(count, 0);
}

TEST(Matching, GroupsAreRowMajorAlongTheNamedAxes) {
  std::string text =
      "#pod = #tandem.mesh<\"pod\", [\"node\" = 2, \"gpu\" = 3], devices = [5, 4, 3, 2, 1, 0]>\n"
      "hostir.program @p(%in: memref<8xf32>) {\n  %main = hostir.main_stream\n"
      "  %a = hostir.channel \"gpus\" over #pod [\"gpu\"] can [two_sided]\n"
      "  %b = hostir.channel \"nodes\" over #pod [\"node\"] can [two_sided]\n"
      "  %c = hostir.channel \"all\" over #pod [\"gpu\", \"node\"] can [two_sided]\n"
      "  hostir.group via %a on %main {\n  }\n  hostir.group via %b on %main {\n  }\n"
      "  hostir.group via %c on %main {\n  }\n}\n";
  Translated t(text);
  ASSERT_TRUE(t.ok) << t.errors;
  std::string dump = t.dump(4);
  EXPECT_NE(dump.find("\"gpus\" two_sided link \"\" group [5,4,3] self 1"), std::string::npos)
      << dump;
  EXPECT_NE(dump.find("\"nodes\" two_sided link \"\" group [4,1] self 0"), std::string::npos)
      << dump;
  EXPECT_NE(dump.find("\"all\" two_sided link \"\" group [5,2,4,1,3,0] self 2"), std::string::npos)
      << dump;
}

TEST(Matching, RanksOutsideAMeshTakeNoPart) {
  tandem::StreamProgramOptions options;
  options.numRanks = 6;
  Translated t("#part = #tandem.mesh<\"part\", [\"x\" = 2], devices = [3, 1]>\n"
               "hostir.program @p(%in: memref<8xf32>) {\n  %main = hostir.main_stream\n"
               "  %ch = hostir.channel \"c\" over #part [\"x\"] can [two_sided]\n"
               "  %mine = hostir.in_mesh #part\n  scf.if %mine {\n"
               "    %me = hostir.device_index #part, \"x\"\n    %c1 = arith.constant 1 : index\n"
               "    %other = arith.subi %c1, %me : index\n"
               "    %first = arith.cmpi eq, %me, %c1 : index\n"
               "    scf.if %first {\n      hostir.group via %ch on %main {\n        hostir.send "
               "%in to %other : memref<8xf32>\n      }\n"
               "    } else {\n      %b = hostir.alloc on %main {offset = 0 : i64} : memref<8xf32>\n"
               "      hostir.group via %ch on %main {\n        hostir.recv %b from %other : "
               "memref<8xf32>\n      }\n    }\n  }\n"
               "}\n",
               options);
  EXPECT_FALSE(t.ok) << "the arena has no bytes";
  EXPECT_NE(t.errors.find("does not fit in the 0 bytes of the arena"), std::string::npos)
      << t.errors;
}

TEST(Matching, PartOfTheWorld) {
  tandem::StreamProgramOptions options;
  options.numRanks = 6;
  Translated t(
      "#part = #tandem.mesh<\"part\", [\"x\" = 2], devices = [3, 1]>\n"
      "hostir.program @p(%in: memref<8xf32>, %out: memref<8xf32> {hostir.result}) {\n  %main = "
      "hostir.main_stream\n"
      "  %ch = hostir.channel \"c\" over #part [\"x\"] can [two_sided]\n"
      "  %mine = hostir.in_mesh #part\n  scf.if %mine {\n"
      "    %me = hostir.device_index #part, \"x\"\n    %c1 = arith.constant 1 : index\n"
      "    %other = arith.subi %c1, %me : index\n"
      "    hostir.group via %ch on %main {\n      hostir.send %in to %other : memref<8xf32>\n"
      "      hostir.recv %out from %other : memref<8xf32>\n    }\n  }\n}\n",
      options);
  ASSERT_TRUE(t.ok) << t.errors;
  EXPECT_EQ(t.file->numRanks(), 6u);
  EXPECT_EQ(t.commands(0), "");
  EXPECT_EQ(t.commands(1), "s0 group c0 of 2\ns0   send c0 arg0:f32[8] to 3 tag 0 bytes 32\n"
                           "s0   recv c0 arg1:f32[8] from 3 tag 0 bytes 32\n");
  EXPECT_NE(t.dump(0).find("group [] self 0"), std::string::npos) << t.dump(0);
}

TEST(Matching, SendWithoutReceive) {
  Translated t(ringProgram("  %first = arith.cmpi eq, %me, %c0 : index\n  scf.if %first {\n"
                           "    hostir.group via %ch on %main {\n      hostir.send %in to %right : "
                           "memref<8xf32>\n    }\n  }\n"));
  EXPECT_EQ(t.errors, "'hostir.send' op rank 0: sends message 0 from rank 0 to rank 1 over channel "
                      "\"ring\", which rank 1 never receives\n");
}

TEST(Matching, ReceiveWithoutSend) {
  Translated t(ringProgram(row("r", "%left") +
                           "  hostir.group via %ch on %main {\n      hostir.recv %r from %left : " +
                           kRow + "\n    }\n"));
  EXPECT_EQ(t.errors,
            "'hostir.recv' op rank 1: expects message 0 from rank 0 to rank 1 over channel "
            "\"ring\", which rank 0 never sends\n");
}

TEST(Matching, SizesMustBeEqual) {
  Translated t(ringProgram("  %r = memref.subview %out[0, 0] [1, 4] [1, 1] : memref<4x8xf32> to "
                           "memref<4xf32, strided<[1]>>\n"
                           "  hostir.group via %ch on %main {\n      hostir.recv %r from %left : "
                           "memref<4xf32, strided<[1]>>\n"
                           "      hostir.send %in to %right : memref<8xf32>\n    }\n"));
  EXPECT_EQ(t.errors,
            "'hostir.recv' op message 0 from rank 0 to rank 1 over channel \"ring\": 32 bytes "
            "of f32 are sent, 16 bytes of f32 are expected\nnote: see the send\n");
}

TEST(Matching, OneRankAloneIsNotMatched) {
  tandem::StreamProgramOptions options;
  options.rank = 0;
  Translated t(ringProgram("  hostir.group via %ch on %main {\n      hostir.send %in to %right : "
                           "memref<8xf32>\n    }\n"),
               options);
  ASSERT_TRUE(t.ok) << t.errors;
  EXPECT_TRUE(t.file->hasRank(0));
  EXPECT_FALSE(t.file->hasRank(1));
}

tandem::StreamProgramOptions local() {
  tandem::StreamProgramOptions options;
  options.target = "cpu-local";
  return options;
}
std::string gather(const std::string &indent = "  ") {
  return indent + "hostir.collective all_gather %in to %out via %ch on %main : memref<8xf32> to "
                  "memref<4x8xf32>\n";
}
std::string broadcast(const std::string &root) {
  return row("b" + root.substr(1), "%c0") + "  hostir.collective broadcast %in to %b" +
         root.substr(1) + " root " + root + " via %ch on %main : memref<8xf32> to " + kRow + "\n";
}

TEST(Matching, CollectivesAgree) {
  Translated t(ringProgram(gather() + broadcast("%c1")), local());
  ASSERT_TRUE(t.ok) << t.errors;
  // The input of a broadcast is read on the root alone.
  EXPECT_EQ(t.commands(0), "s0 collective c0 all_gather arg1:f32[4,8] <- arg0:f32[8]\n"
                           "s0 collective c0 broadcast arg1:f32[8] <- none root 1\n");
  EXPECT_EQ(t.commands(1), "s0 collective c0 all_gather arg1:f32[4,8] <- arg0:f32[8]\n"
                           "s0 collective c0 broadcast arg1:f32[8] <- arg0:f32[8] root 1\n");
}

TEST(Matching, RootsMustAgree) {
  Translated t(ringProgram(broadcast("%me")), local());
  EXPECT_EQ(t.errors, "'hostir.collective' op rank 1 calls broadcast of 32 bytes of f32 with root "
                      "1 as collective 0 "
                      "of channel \"ring\", rank 0 calls broadcast of 32 bytes of f32 with root 0\n"
                      "note: see the operation of rank 0\n");
}

TEST(Matching, ACollectiveTooFew) {
  Translated t(ringProgram(gather() +
                           "  %first = arith.cmpi eq, %me, %c0 : index\n  scf.if %first {\n" +
                           gather("    ") + "  }\n"),
               local());
  EXPECT_EQ(
      t.errors,
      "'hostir.collective' op rank 0 calls 2 collectives of channel \"ring\", rank 1 calls 1\n");
}

TEST(Matching, ACollectiveTooMany) {
  Translated t(ringProgram(gather() +
                           "  %first = arith.cmpi ne, %me, %c0 : index\n  scf.if %first {\n" +
                           gather("    ") + "  }\n"),
               local());
  EXPECT_EQ(t.errors, "'hostir.collective' op rank 1 calls collective 1 of channel \"ring\" "
                      "(all_gather of 32 bytes "
                      "of f32), rank 0 has only 1\n");
}

TEST(Matching, SignalsCountAlikeOnAllRanks) {
  // Rank r signals its neighbour with value r + 1: every rank's slot must count up to 4.
  Translated t(programText("%in: memref<8xf32>",
                           "  %c0 = arith.constant 0 : index\n  %c1 = arith.constant 1 : index\n"
                           "  %p = arith.constant 4 : index\n  %n = arith.addi %me, %c1 : index\n"
                           "  %right = arith.remui %n, %p : index\n"
                           "  %ch = hostir.channel \"c\" over #tp [\"x\"] can [one_sided]\n"
                           "  hostir.signal %c1 = %n at %right via %ch on %main\n"
                           "  hostir.wait_signal %c1 >= %c1 via %ch on %main\n"));
  ASSERT_TRUE(t.ok) << t.errors;
  for (uint32_t rank : {0, 3}) {
    EXPECT_NE(t.dump(rank).find("signals [0,4]"), std::string::npos) << t.dump(rank);
  }
  EXPECT_EQ(t.commands(2), "s0 signal c0 slot 1 value 3 to 3 exclusive\n"
                           "s0 wait_signal c0 slot 1 value 1\n");
}

/// What rank 2 of four does with `body`, where %right is the next rank.
static std::string signalsOfRank2(const std::string &body) {
  Translated t(programText("%in: memref<8xf32>",
                           "  %c0 = arith.constant 0 : index\n  %c1 = arith.constant 1 : index\n"
                           "  %c2 = arith.constant 2 : index\n"
                           "  %p = arith.constant 4 : index\n  %n = arith.addi %me, %c1 : index\n"
                           "  %right = arith.remui %n, %p : index\n"
                           "  %ch = hostir.channel \"c\" over #tp [\"x\"] can [one_sided]\n" +
                               body));
  EXPECT_TRUE(t.ok) << t.errors;
  return t.ok ? t.commands(2) : "";
}

TEST(Matching, SignalsOfOneRankAndStreamThatGrowAreExclusive) {
  const std::string first = "  hostir.signal %c0 = %c1 at %right via %ch on %main\n",
                    second = "  hostir.signal %c0 = %c2 at %right via %ch on %main\n";
  const std::string one = "s0 signal c0 slot 0 value 1 to 3",
                    two = "s0 signal c0 slot 0 value 2 to 3";
  EXPECT_EQ(signalsOfRank2(first + second), one + " exclusive\n" + two + " exclusive\n");
  EXPECT_EQ(signalsOfRank2(first + first), one + " exclusive\n" + one + " exclusive\n");
  EXPECT_EQ(signalsOfRank2(second + first), two + "\n" + one + "\n");
  // Another stream, and another rank, which comes later.
  EXPECT_EQ(signalsOfRank2("  %other = hostir.worker_stream %c1\n" + first +
                           "  hostir.signal %c0 = %c2 at %right via %ch on %other\n"),
            one + "\ns1 signal c0 slot 0 value 2 to 3\n");
  EXPECT_EQ(signalsOfRank2("  %c3 = arith.constant 3 : index\n"
                           "  hostir.signal %c0 = %c1 at %c3 via %ch on %main\n"),
            one + "\n");
}

} // namespace
