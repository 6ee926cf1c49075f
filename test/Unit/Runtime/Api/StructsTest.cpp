//===- StructsTest.cpp - structs of callers of other versions ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Runtime.h"

#include "Support/ProgramSpec.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

/// Rank r of three holds rows 2r and 2r + 1 of "x", 6x4.
std::string rows() {
  ProgramSpec spec(3);
  spec.name = "rows";
  uint32_t x = spec.stacked("x", false, DType::F32, {2, 4}),
           y = spec.stacked("y", true, DType::F32, {2, 4});
  for (RankSpec &rank : spec.ranks) {
    uint32_t from = rank.view(rank.argument(x, 32), DType::F32, {2, 4});
    rank.copy(0, rank.view(rank.argument(y, 32), DType::F32, {2, 4}), from);
  }
  return spec.encode();
}

class CStructs : public testing::Test {
public:
  void SetUp() override {
    tandem_context_options options{};
    options.struct_size = sizeof options;
    ASSERT_EQ(tandem_context_create(&options, &context), TANDEM_OK);
    std::string file = rows();
    ASSERT_EQ(tandem_program_load_memory(context, file.data(), file.size(), &program), TANDEM_OK)
        << tandem_last_error(context);
  }
  void TearDown() override {
    tandem_program_destroy(program);
    tandem_context_destroy(context);
  }
  void expectError(tandem_code code, const std::string &text) {
    EXPECT_EQ(code, TANDEM_INVALID_ARGUMENT);
    EXPECT_NE(std::string(tandem_last_error(context)).find(text), std::string::npos)
        << tandem_last_error(context);
  }
  tandem_context *context = nullptr;
  tandem_program *program = nullptr;
};

TEST_F(CStructs, AnOlderCallersOptions) {
  // Knows nothing behind `device`; what lies there is not looked at.
  tandem_context_options options;
  std::memset(&options, 0xff, sizeof options);
  options.struct_size = offsetof(tandem_context_options, channels);
  options.device = "cpu";
  tandem_context *made = nullptr;
  EXPECT_EQ(tandem_context_create(&options, &made), TANDEM_OK) << tandem_last_error(made);
  tandem_context_destroy(made);
}

TEST_F(CStructs, ANewerCallersOptions) {
  struct {
    tandem_context_options options;
    uint64_t newer;
  } given{};
  given.options.struct_size = sizeof given;
  tandem_context *made = nullptr;
  EXPECT_EQ(tandem_context_create(&given.options, &made), TANDEM_OK) << tandem_last_error(made);
  tandem_context_destroy(made);
  given.newer = 1;
  EXPECT_EQ(tandem_context_create(&given.options, &made), TANDEM_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tandem_last_error(made)).find("compiled for a newer version"),
            std::string::npos)
      << tandem_last_error(made);
  tandem_context_destroy(made);
}

TEST_F(CStructs, NoSize) {
  tandem_argument argument{};
  expectError(tandem_program_argument(program, 0, &argument), "tandem_argument: struct_size");
  tandem_shard shard{};
  expectError(tandem_program_shard(program, 0, 0, &shard), "tandem_shard: struct_size");
  expectError(tandem_program_argument(program, 0, nullptr), "tandem_argument: null pointer");
  tandem_launch launch{};
  tandem_context_options options{};
  options.struct_size = sizeof options;
  options.launch = &launch;
  tandem_context *made = nullptr;
  EXPECT_EQ(tandem_context_create(&options, &made), TANDEM_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tandem_last_error(made)).find("tandem_launch: struct_size"),
            std::string::npos);
  tandem_context_destroy(made);
}

TEST_F(CStructs, OnlyTheCallersSizeIsWritten) {
  tandem_argument argument;
  std::memset(&argument, 0x55, sizeof argument);
  argument.struct_size = offsetof(tandem_argument, rank);
  ASSERT_EQ(tandem_program_argument(program, 1, &argument), TANDEM_OK);
  EXPECT_STREQ(argument.name, "y");
  EXPECT_EQ(argument.is_result, 1);
  EXPECT_EQ(argument.struct_size, offsetof(tandem_argument, rank));
  EXPECT_EQ(argument.rank, 0x55555555u);
  EXPECT_EQ(argument.local_bytes, 0x5555555555555555u);
  // A newer caller's tail is left alone.
  struct {
    tandem_argument argument;
    uint64_t newer;
  } large;
  std::memset(&large, 0x55, sizeof large);
  large.argument.struct_size = sizeof large;
  ASSERT_EQ(tandem_program_argument(program, 1, &large.argument), TANDEM_OK);
  EXPECT_EQ(large.argument.local_bytes, 32u);
  EXPECT_EQ(large.newer, 0x5555555555555555u);
}

TEST_F(CStructs, ShardsOfAllRanks) {
  EXPECT_EQ(tandem_program_num_ranks(program), 3u);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    tandem_shard shard{};
    shard.struct_size = sizeof shard;
    ASSERT_EQ(tandem_program_shard(program, 0, rank, &shard), TANDEM_OK)
        << tandem_last_error(context);
    EXPECT_TRUE(shard.present);
    EXPECT_EQ(shard.offset, 8 * rank);
    ASSERT_EQ(shard.local_rank, 2u);
    EXPECT_EQ(shard.local_shape[0], 2);
    EXPECT_EQ(shard.local_shape[1], 4);
    // Its elements are 8 consecutive ones of the logical tensor.
    int64_t count = 1, last = shard.offset;
    for (uint32_t d = 0; d < shard.num_extents; ++d) {
      count *= shard.extents[d];
      last += (shard.extents[d] - 1) * shard.strides[d];
    }
    EXPECT_EQ(count, 8);
    EXPECT_EQ(last, 8 * rank + 7);
  }
  tandem_shard shard{};
  shard.struct_size = sizeof shard;
  expectError(tandem_program_shard(program, 0, 3, &shard), "no rank 3: the program is for 3");
  expectError(tandem_program_shard(program, 2, 0, &shard), "no argument 2: the program has 2");
}

TEST_F(CStructs, MemoryIsKnownBeforePrepare) {
  ProgramSpec spec(1);
  spec.name = "memory";
  RankSpec &rank = spec.ranks[0];
  uint32_t from = rank.view(rank.arena(100), DType::F32, {25}),
           to = rank.view(rank.symmetric(100), DType::F32, {25});
  rank.slots = {1};
  rank.copy(0, to, from);
  std::string file = spec.encode();
  tandem_program *other = nullptr;
  ASSERT_EQ(tandem_program_load_memory(context, file.data(), file.size(), &other), TANDEM_OK)
      << tandem_last_error(context);
  tandem_memory_needs needs{};
  expectError(tandem_program_memory(other, &needs), "tandem_memory_needs: struct_size");
  needs.struct_size = sizeof needs;
  ASSERT_EQ(tandem_program_memory(other, &needs), TANDEM_OK);
  EXPECT_EQ(needs.arena_bytes, spec.ranks[0].arenaBytes);
  EXPECT_EQ(needs.symmetric_bytes, 2 * 128u + 64); // two buffers and a signal, in units of 64
  EXPECT_EQ(needs.workspace_bytes, 0u);
  tandem_program_destroy(other);
}

} // namespace
