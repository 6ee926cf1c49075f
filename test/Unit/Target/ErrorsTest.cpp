//===- ErrorsTest.cpp - what cannot be translated ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Translated.h"

#include <gtest/gtest.h>

using namespace tandem::test;
using tandem::StreamProgramOptions;

namespace {

std::string
program(const std::string &body,
        const std::string &attributes = "{workers = 2 : i64, arena_bytes = 256 : i64}") {
  return programText("%in: memref<8xf32>, %out: memref<8xf32> {hostir.result}",
                     "  %c0 = arith.constant 0 : index\n  %c1 = arith.constant 1 : index\n"
                     "  %c9 = arith.constant 9 : index\n"
                     "  %ch = hostir.channel \"c\" over #tp [\"x\"] can [two_sided]\n" +
                         body,
                     attributes);
}

std::string errorsOf(const std::string &text, StreamProgramOptions options = {}) {
  Translated t(text, options);
  EXPECT_FALSE(t.ok) << t.dump(0);
  return t.errors;
}

TEST(Errors, NoSuchEntry) {
  EXPECT_EQ(errorsOf("hostir.program @q(%a: memref<4xf32>) {\n}\n"),
            "no hostir.program @p\nnote: found @q\n");
}

TEST(Errors, LoopWithoutEnd) {
  StreamProgramOptions options;
  options.maxCommands = 1000;
  std::string big =
      "  %big = arith.constant 1000000000000 : index\n  scf.for %i = %c0 to %big step %c1 {\n";
  EXPECT_EQ(
      errorsOf(
          program(big +
                  "    hostir.copy %in to %out on %main : memref<8xf32> to memref<8xf32>\n  }\n"),
          options),
      "'scf.for' op rank 0: the program has more than 1000 commands\n");
  options.maxSteps = 5000;
  EXPECT_EQ(
      errorsOf(program(big + "  }\n"), options),
      "'scf.for' op rank 0: the loop has not ended after 5000 iterations of all loops together\n");
}

TEST(Errors, TooManyBytes) {
  StreamProgramOptions options;
  options.maxBytes = 4000;
  std::string text = errorsOf(
      program("  scf.for %i = %c0 to %c9 step %c1 {\n    hostir.copy %in to %out on %main : "
              "memref<8xf32> to memref<8xf32>\n  }\n"),
      options);
  EXPECT_EQ(
      text.rfind("'hostir.program' op needs more than 4000 bytes for the commands of 4 ranks, "
                 "which is the limit of a file: about ",
                 0),
      0u)
      << text;
}

TEST(Errors, StepOfALoop) {
  EXPECT_EQ(errorsOf(program("  scf.for %i = %c0 to %c9 step %c0 {\n  }\n")),
            "'scf.for' op rank 0: expected a positive step, found 0\n");
}

TEST(Errors, ControlFlowThatDependsOnData) {
  EXPECT_EQ(errorsOf(program("  %x = memref.load %in[%c0] : memref<8xf32>\n")),
            "'memref.load' op cannot be evaluated at compile time\n");
  EXPECT_EQ(errorsOf(program(
                "  %x = scf.while (%a = %c0) : (index) -> index {\n    %t = arith.constant false\n"
                "    scf.condition(%t) %a : index\n  } do {\n  ^bb0(%a: index):\n    scf.yield %a "
                ": index\n  }\n")),
            "'scf.while' op cannot be evaluated at compile time\n");
  EXPECT_EQ(errorsOf(program("  %f = arith.constant 1.0 : f32\n")),
            "'arith.constant' op cannot be evaluated at compile time\n");
}

TEST(Errors, Division) {
  EXPECT_EQ(errorsOf(program("  %x = arith.divui %c9, %me : index\n")),
            "'arith.divui' op rank 0: division by zero\n");
  EXPECT_EQ(
      errorsOf(program("  %s = arith.subi %me, %c1 : index\n  %x = arith.remsi %c9, %s : index\n")),
      "'arith.remsi' op rank 1: division by zero\n");
  EXPECT_EQ(errorsOf(program(
                "  %m = arith.constant -9223372036854775808 : i64\n  %n = arith.constant -1 : i64\n"
                "  %x = arith.divsi %m, %n : i64\n")),
            "'arith.divsi' op rank 0: the quotient overflows\n");
  EXPECT_EQ(
      errorsOf(program("  %w = arith.constant 64 : index\n  %x = arith.shli %c9, %w : index\n")),
      "'arith.shli' op rank 0: shift by 64 of 64 bits\n");
}

TEST(Errors, PeersAndWorkers) {
  EXPECT_EQ(errorsOf(program("  %far = arith.addi %me, %c9 : index\n  hostir.group via %ch on "
                             "%main {\n    hostir.send %in to %far : memref<8xf32>\n  }\n")),
            "'hostir.send' op rank 0: peer 9 is outside the group of 4 of channel \"c\"\n");
  EXPECT_EQ(
      errorsOf(program("  %m = arith.subi %c0, %c1 : index\n  %s = hostir.worker_stream %m\n")),
      "'hostir.worker_stream' op rank 0: expected a worker number that is not negative, found "
      "-1\n");
}

TEST(Errors, RankOutsideTheMesh) {
  StreamProgramOptions options;
  options.numRanks = 5;
  EXPECT_EQ(errorsOf(program("  hostir.group via %ch on %main {\n  }\n"), options),
            "'hostir.group' op rank 4: takes no part in channel \"c\": it is outside "
            "#tandem.mesh<\"tp\", [\"x\" = 4]>\n");
}

TEST(Errors, ViewsOutOfBounds) {
  std::string type = "memref<4xf32, strided<[1], offset: ?>>";
  EXPECT_EQ(
      errorsOf(program("  %v = memref.subview %in[%c9] [4] [1] : memref<8xf32> to " + type + "\n")),
      "'memref.subview' op rank 0: view out of bounds: offset 9 in dimension 0, expected 0 to 4\n");
  EXPECT_EQ(errorsOf(program("  %v = memref.subview %in[%c0] [%c9] [1] : memref<8xf32> to "
                             "memref<?xf32, strided<[1], offset: ?>>\n")),
            "'memref.subview' op rank 0: view out of bounds: 9 indices with stride 1 in dimension "
            "0 of extent 8\n");
  EXPECT_EQ(
      errorsOf(program("  %v = memref.reinterpret_cast %out to offset: [5], sizes: [4], strides: "
                       "[1] : memref<8xf32> to memref<4xf32, strided<[1], offset: 5>>\n"
                       "  %w = memref.subview %in[%c0] [4] [1] : memref<8xf32> to " +
                       type +
                       "\n"
                       "  hostir.copy %w to %v on %main : " +
                       type + " to memref<4xf32, strided<[1], offset: 5>>\n")),
      "'hostir.copy' op rank 0: view out of bounds: f32[4] at byte 20 of a buffer of 32 bytes\n");
  EXPECT_EQ(
      errorsOf(program(
          "  %v = memref.subview %in[0] [%c1] [1] : memref<8xf32> to memref<?xf32, strided<[1]>>\n"
          "  %w = memref.cast %v : memref<?xf32, strided<[1]>> to memref<2xf32, strided<[1]>>\n")),
      "'memref.cast' op rank 0: the cast does not hold: found f32[1], expected 'memref<2xf32, "
      "strided<[1]>>'\n");
}

TEST(Errors, BuffersWithoutAPlace) {
  std::string pitch = "  %s = hostir.worker_stream %c1\n";
  EXPECT_EQ(errorsOf(program("  %b = hostir.alloc on %main : memref<8xf32>\n")),
            "'hostir.alloc' op has no offset in the arena (run hostir-plan-buffers first)\n");
  EXPECT_EQ(
      errorsOf(program("  %b = hostir.alloc on %main {offset = 256 : i64} : memref<8xf32>\n")),
      "'hostir.alloc' op a buffer of 32 bytes at offset 256 does not fit in the 256 bytes of the "
      "arena\n");
  EXPECT_EQ(
      errorsOf(program(
          pitch +
          "  %b = hostir.alloc on %s {offset = 128 : i64, pitch = 128 : i64} : memref<8xf32>\n")),
      "'hostir.alloc' op rank 0: a buffer of worker 1, the arena has slots for 1 from "
      "worker 0 on\n");
}

TEST(Errors, ChannelsOfOneName) {
  EXPECT_EQ(errorsOf("#tp = #tandem.mesh<\"tp\", [\"x\" = 2, \"y\" = 2]>\nhostir.program @p(%in: "
                     "memref<8xf32>) {\n"
                     "  %a = hostir.channel \"c\" over #tp [\"x\"] can [two_sided]\n"
                     "  %b = hostir.channel \"c\" over #tp [\"y\"] can [two_sided]\n}\n"),
            "'hostir.channel' op channel \"c\" has another mesh, axes or link class "
            "elsewhere\nnote: see the other channel\n");
}

TEST(Errors, CollectivesOfAnotherSize) {
  StreamProgramOptions options;
  options.target = "cpu-local";
  EXPECT_EQ(errorsOf("#tp = #tandem.mesh<\"tp\", [\"x\" = 2]>\nhostir.program @p(%in: "
                     "memref<8xf32>, %out: memref<3x8xf32> {hostir.result}) {\n"
                     "  %main = hostir.main_stream\n  %c5 = arith.constant 5 : index\n"
                     "  %a = hostir.channel \"c\" over #tp [\"x\"] can [collectives]\n"
                     "  %row = memref.subview %out[0, 0] [1, 8] [1, 1] : memref<3x8xf32> to "
                     "memref<8xf32, strided<[1]>>\n"
                     "  %r = arith.addi %c5, %c5 : index\n"
                     "  hostir.collective broadcast %in to %row root %r via %a on %main : "
                     "memref<8xf32> to memref<8xf32, strided<[1]>>\n}\n",
                     options),
            "'hostir.collective' op rank 0: root 10 is outside the group of 2 of channel \"c\"\n");
}

TEST(Errors, Signals) {
  std::string head = "  %one = hostir.channel \"o\" over #tp [\"x\"] can [one_sided]\n  %z = "
                     "arith.subi %me, %me : index\n";
  EXPECT_EQ(
      errorsOf(program(head + "  hostir.wait_signal %c0 >= %z via %one on %main\n")),
      "'hostir.wait_signal' op rank 0: expected a signal value from 1 to 4294967296, found 0\n");
  EXPECT_EQ(errorsOf(program(head + "  %m = arith.subi %z, %c1 : index\n  hostir.signal %m = %c1 "
                                    "at %c0 via %one on %main\n")),
            "'hostir.signal' op rank 0: expected a signal slot from 0 to 1048575, found -1\n");
}

TEST(Errors, WorldAndRank) {
  StreamProgramOptions options;
  options.numRanks = 3;
  EXPECT_EQ(errorsOf(program(""), options),
            "expected at least 4 ranks, for the devices of its meshes, found 3\n");
  options.numRanks = 0;
  options.rank = 4;
  EXPECT_EQ(errorsOf(program(""), options),
            "'hostir.program' op has no rank 4: the program is for 4 ranks\n");
}

TEST(Errors, Arguments) {
  EXPECT_EQ(
      errorsOf("hostir.program @p(%a: memref<4xf32, #hostir.symmetric>) {\n}\n"),
      "'hostir.program' op argument 0: arguments in symmetric memory are not supported yet\n");
}

TEST(Errors, Reference) {
  EXPECT_EQ(errorsOf(program("") +
                     "hostir.program @o(%in: memref<8xf32>) attributes {reference_of = @p} {\n}\n"),
            "'hostir.program' op expected the logical arguments of @p, whose unsharded reference "
            "it is\nnote: "
            "see @p\n");
}

} // namespace
