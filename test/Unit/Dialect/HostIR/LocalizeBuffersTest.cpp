//===- LocalizeBuffersTest.cpp - localized programs compute the same -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostMachine.h"
#include "PassTest.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace tandem::hostir;
using namespace tandem::hostir::test;

namespace {

constexpr const char *kHead = R"mlir(
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%x: memref<8x6xf32>, %w: memref<6x4xf32>, %y: memref<32x4xf32> {hostir.result}) {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %g = hostir.alloc on %main : memref<32x6xf32>
  scf.for %i = %c0 to %c4 step %c1 {
    %s = hostir.worker_stream %i
    hostir.sync %s after %main
  }
)mlir";

constexpr const char *kTail = R"mlir(
  scf.for %i = %c0 to %c4 step %c1 {
    %s = hostir.worker_stream %i
    hostir.sync %main after %s
  }
}
)mlir";

/// Own slice first, then those of the peers.
constexpr const char *kExchange = R"mlir(
  %ch = hostir.channel "g" over #tp ["x"] can [two_sided]
  %s0 = hostir.worker_stream %c0
  %mine = arith.muli %me, %c8 : index
  %own = memref.subview %g[%mine, 0] [8, 6] [1, 1] : memref<32x6xf32> to memref<8x6xf32, strided<[6, 1], offset: ?>>
  hostir.copy %x to %own on %s0 : memref<8x6xf32> to memref<8x6xf32, strided<[6, 1], offset: ?>>
  %z = memref.subview %y[%mine, 0] [8, 4] [1, 1] : memref<32x4xf32> to memref<8x4xf32, strided<[4, 1], offset: ?>>
  hostir.matmul %own, %w to %z on %s0
      : memref<8x6xf32, strided<[6, 1], offset: ?>>, memref<6x4xf32> to memref<8x4xf32, strided<[4, 1], offset: ?>>
  scf.for %d = %c1 to %c4 step %c1 {
    %s = hostir.worker_stream %d
    %a = arith.addi %me, %d : index
    %from = arith.remui %a, %c4 : index
    %b = arith.addi %me, %c4 : index
    %c = arith.subi %b, %d : index
    %to = arith.remui %c, %c4 : index
    %e = memref.expand_shape %g [[0, 1], [2]] output_shape [4, 8, 6] : memref<32x6xf32> into memref<4x8x6xf32>
    %slot = memref.subview %e[%from, 0, 0] [1, 8, 6] [1, 1, 1]
        : memref<4x8x6xf32> to memref<8x6xf32, strided<[6, 1], offset: ?>>
    hostir.group via %ch on %s {
      hostir.recv %slot from %from : memref<8x6xf32, strided<[6, 1], offset: ?>>
      hostir.send %x to %to : memref<8x6xf32>
    }
    %row = arith.muli %from, %c8 : index
    %again = memref.subview %g[%row, 0] [8, 6] [1, 1] : memref<32x6xf32> to memref<8x6xf32, strided<[6, 1], offset: ?>>
    %out = memref.subview %y[%row, 0] [8, 4] [1, 1] : memref<32x4xf32> to memref<8x4xf32, strided<[4, 1], offset: ?>>
    hostir.matmul %again, %w to %out on %s
        : memref<8x6xf32, strided<[6, 1], offset: ?>>, memref<6x4xf32> to memref<8x4xf32, strided<[4, 1], offset: ?>>
  }
)mlir";

/// Two rows of each device at a time: the collective sees [device, row, column] with a gap between
/// the devices.
constexpr const char *kPipeline = R"mlir(
  %ch = hostir.channel "g" over #tp ["x"] can [collectives]
  scf.for %i = %c0 to %c4 step %c1 {
    %s = hostir.worker_stream %i
    %first = arith.muli %i, %c2 : index
    %mine = memref.subview %x[%first, 0] [2, 6] [1, 1] : memref<8x6xf32> to memref<2x6xf32, strided<[6, 1], offset: ?>>
    %e = memref.expand_shape %g [[0, 1, 2], [3]] output_shape [4, 4, 2, 6] : memref<32x6xf32> into memref<4x4x2x6xf32>
    %all = memref.subview %e[0, %i, 0, 0] [4, 1, 2, 6] [1, 1, 1, 1]
        : memref<4x4x2x6xf32> to memref<4x2x6xf32, strided<[48, 6, 1], offset: ?>>
    hostir.collective all_gather %mine to %all via %ch on %s
        : memref<2x6xf32, strided<[6, 1], offset: ?>> to memref<4x2x6xf32, strided<[48, 6, 1], offset: ?>>
    scf.for %j = %c0 to %c4 step %c1 {
      %k = arith.muli %j, %c8 : index
      %row = arith.addi %k, %first : index
      %out = memref.subview %y[%row, 0] [2, 4] [1, 1] : memref<32x4xf32> to memref<2x4xf32, strided<[4, 1], offset: ?>>
      %two = memref.subview %all[%j, 0, 0] [1, 2, 6] [1, 1, 1]
          : memref<4x2x6xf32, strided<[48, 6, 1], offset: ?>> to memref<2x6xf32, strided<[6, 1], offset: ?>>
      hostir.matmul %two, %w to %out on %s
          : memref<2x6xf32, strided<[6, 1], offset: ?>>, memref<6x4xf32> to memref<2x4xf32, strided<[4, 1], offset: ?>>
    }
  }
)mlir";

struct Outcome {
  std::vector<RankMemory> memories;
  int64_t arenaBytes = 0;
};

Outcome run(const std::string &text, bool localize) {
  Outcome outcome;
  PassTest test;
  OwningOpRef<ModuleOp> module = test.parse(text);
  EXPECT_TRUE(module) << test.diagnostics;
  if (!module)
    return outcome;
  std::string passes = localize ? "hostir-localize-buffers," : "";
  passes += "hostir-expand-collectives{channels-without-collectives=*},hostir-insert-deallocs,"
            "hostir-plan-buffers,hostir-verify";
  EXPECT_TRUE(succeeded(test.run(*module, passes))) << test.diagnostics;
  ProgramOp program = PassTest::programOf(*module);
  outcome.arenaBytes = static_cast<int64_t>(program.getArenaBytes().value_or(0));
  std::vector<RankProgram> programs;
  for (int64_t rank = 0; rank < 4; ++rank) {
    programs.push_back(flatten(program, rank));
    EXPECT_EQ(findConflicts(programs.back(), outcome.arenaBytes), "");
    outcome.memories.push_back(makeMemory(program));
    for (int argument : {1, 2})
      for (size_t i = 0; i < outcome.memories.back()[argument].size(); ++i)
        outcome.memories.back()[argument][i] =
            float((static_cast<int64_t>(i) * 5 + (argument == 1 ? rank * 11 : 3)) % 13 - 6);
  }
  std::mt19937 random(1);
  EXPECT_TRUE(runAll(programs, outcome.memories, random));
  return outcome;
}

/// Compares all results of the program with and without the pass; gives both arenas' bytes.
std::pair<int64_t, int64_t> compare(const char *body) {
  std::string text = std::string(kHead) + body + kTail;
  Outcome whole = run(text, false), sliced = run(text, true);
  for (size_t rank = 0; rank < whole.memories.size(); ++rank)
    EXPECT_EQ(whole.memories[rank][3], sliced.memories[rank][3]) << "rank " << rank;
  // And with what it should be: element (0, 0) of every block of eight rows.
  for (int64_t rank = 0; rank < 4; ++rank)
    for (int64_t block = 0; block < 4; ++block) {
      float sum = 0;
      for (int64_t k = 0; k < 6; ++k)
        sum += whole.memories[block][1][k] * whole.memories[rank][2][k * 4];
      EXPECT_EQ(sliced.memories[rank][3][block * 32], sum);
    }
  return {whole.arenaBytes, sliced.arenaBytes};
}

} // namespace

TEST(LocalizeBuffers, ExchangeComputesTheSame) {
  auto [whole, sliced] = compare(kExchange);
  // 32 rows of 24 bytes; and three slices in flight, beside the peeled one.
  EXPECT_EQ(whole, 768);
  EXPECT_EQ(sliced, 4 * 192);
}

// The matmuls stand in a loop of their own and read pieces of the slice.
TEST(LocalizeBuffers, PiecesThatAnInnerLoopRunsThrough) {
  auto [whole, sliced] = compare(kPipeline);
  EXPECT_EQ(whole, 768);
  EXPECT_EQ(sliced, 4 * 192);
}
