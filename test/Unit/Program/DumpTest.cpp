//===- DumpTest.cpp - the text of a stream program ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SampleProgram.h"

#include "tandem/Program/Program.h"

#include <gtest/gtest.h>

namespace tandem::test {

namespace {

/// Other tests, of the compiler too, match this text: it changes only on purpose.
constexpr const char *kSample = R"(program @sample rank 1 of 2
  streams 2, events 1, arena 704, symmetric 2x128, signals [2,1], commands 16
  argument arg0 input "x" f32[2,4,8] local [4,8] shard 32+[4,8]:[8,1]
  argument arg1 result "y" f32[2,4,8] local [4,8] shard 32+[4,8]:[8,1]
  buffer buf2 arena at 0 size 128 "test"
  buffer buf3 arena at 128 size 256 "test"
  buffer buf4 arena at 384 size 256 "test"
  buffer buf5 arena at 640 size 64 "test"
  buffer sym6 symmetric at 0 size 128 "test"
  channel c0 "ch" two_sided|one_sided|collectives link "" group [0,1] self 1
  kernel k0 "double" expression target "cpu" bytes 112, ptx target "sm_90" bytes 3
    0 s0 record e0 "record #0"
    1 s1 wait e0 "wait #1"
    2 s0 copy buf2:f32[4,8] <- arg0:f32[4,8] bytes 128 "copy #2"
    3 s0 matmul arg1:f32[4,8] = buf2:f32[4,8] * buf3:f32[8,8] + buf5:f32[8] "matmul #3"
    4 s0 accumulate sum arg1:f32[4,8] <- arg0:f32[4,8] "accumulate #4"
    5 s0 reduce sum buf5:f32[8] <- arg0:f32[4,8] dims 0x1 "reduce #5"
    6 s0 collective c0 all_gather buf3:f32[2,4,8] <- arg0:f32[4,8] "collective #6"
    7 s0 collective c0 reduce_scatter sum buf2:f32[4,8] <- buf3:f32[2,4,8] "collective #7"
    8 s0 collective c0 broadcast buf2:f32[4,8] <- arg0:f32[4,8] root 1 "collective #8"
    9 s1 group c0 of 2 "group #9"
   10 s1   send c0 arg0:f32[4,8] to 0 tag 0 bytes 128 "send #10"
   11 s1   recv c0 buf4:f32[4,8]{16,1} from 0 tag 0 bytes 128 "recv #11"
   12 s0 put c0 sym6:f32[4,8] <- arg0:f32[4,8] to 0 bytes 128 "put #12"
   13 s0 signal c0 slot 0 value 2 to 0 "signal #13"
   14 s0 wait_signal c0 slot 0 value 2 "wait_signal #14"
   15 s0 launch k0(arg1:f32[4,8], sym6:f32[4,8]) "launch #15"
)";

TEST(Dump, Sample) {
  auto file = ProgramFile::fromMemory(sampleProgram().encode());
  ASSERT_TRUE(file.ok());
  auto program = (*file)->rankProgram(1);
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(dumpProgram(**program), kSample);
}

TEST(Dump, FlagsAndOffsets) {
  ProgramSpec spec = sampleProgram();
  RankSpec &r = spec.ranks[0];
  r.commands[sample::matmul].flags = 6;
  r.commands[sample::matmul].operands[3] = sp::kNoView;
  r.commands[sample::copy].operands[1] = r.view(3, DType::F32, {4, 8}, 128);
  r.commands[sample::broadcast].peer = 0;
  r.commands[sample::broadcast].op = static_cast<uint8_t>(CollectiveKind::Gather);
  r.commands[sample::broadcast].operands[0] = sample::stack;
  r.commands[sample::broadcast].peer = 1;
  r.commands[sample::broadcast].operands[0] = sp::kNoView;
  auto file = ProgramFile::fromMemory(spec.encode());
  auto program = (*file)->rankProgram(0);
  ASSERT_TRUE(program.ok()) << program.status().message();
  std::string text = dumpProgram(**program);
  EXPECT_NE(text.find("matmul arg1:f32[4,8] += buf2:f32[4,8] * buf3:f32[8,8]^T \"matmul"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("copy buf2:f32[4,8] <- buf3+128:f32[4,8] bytes 128"), std::string::npos)
      << text;
  EXPECT_NE(text.find("collective c0 gather none <- arg0:f32[4,8] root 1"), std::string::npos)
      << text;
}

TEST(Dump, Index) {
  auto file = ProgramFile::fromMemory(sampleProgram().encode());
  EXPECT_EQ(dumpIndex(**file),
            "stream program @sample version 6 ranks 2 target \"cpu-local\" capabilities "
            "two_sided|one_sided|collectives\n"
            "  producer \"test\"\n"
            "  argument arg0 input \"x\" f32[2,4,8]\n"
            "  argument arg1 result \"y\" f32[2,4,8]\n");
}

} // namespace
} // namespace tandem::test
