//===- LinearityTest.cpp - time grows with commands -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Translated.h"

#include <ctime>
#include <gtest/gtest.h>

using namespace tandem::test;

namespace {

/// All ranks exchange with all others: ranks * (ranks - 1) messages.
std::string exchange(int ranks) {
  std::string p = std::to_string(ranks), row = "memref<8xf32, strided<[1], offset: ?>>";
  return programText(
      "%in: memref<8xf32>, %out: memref<" + p + "x8xf32> {hostir.result}",
      "  %c1 = arith.constant 1 : index\n  %p = arith.constant " + p +
          " : index\n"
          "  %ch = hostir.channel \"x\" over #tp [\"x\"] can [two_sided]\n"
          "  scf.for %i = %c1 to %p step %c1 {\n    %s = hostir.worker_stream %i\n    hostir.sync "
          "%s after %main\n"
          "    %a = arith.addi %me, %i : index\n    %from = arith.remui %a, %p : index\n"
          "    %b = arith.addi %me, %p : index\n    %c = arith.subi %b, %i : index\n    %to = "
          "arith.remui %c, %p : index\n"
          "    %r = memref.subview %out[%from, 0] [1, 8] [1, 1] : memref<" +
          p + "x8xf32> to " + row +
          "\n"
          "    hostir.group via %ch on %s {\n      hostir.recv %r from %from : " +
          row +
          "\n"
          "      hostir.send %in to %to : memref<8xf32>\n    }\n    hostir.sync %main after %s\n  "
          "}\n",
      "{workers = 4 : i64}", ranks);
}

/// The least of three processor times, in nanoseconds per command: other processes do not count.
double perCommand(int ranks) {
  double best = 1e30;
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::clock_t start = std::clock();
    Translated t(exchange(ranks));
    double time = 1e9 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_TRUE(t.ok) << t.errors;
    EXPECT_EQ(t.stats.messages, 2ull * ranks * (ranks - 1));
    best = std::min(best, time / static_cast<double>(t.stats.commands));
  }
  return best;
}

TEST(Linearity, TimePerCommandDoesNotGrowWithRanks) {
  // 32 times the commands. Generous, since caches are shared with other processes; something
  // quadratic in ranks would be 5.7 times as slow per command.
  double small = perCommand(48), large = perCommand(272);
  EXPECT_LT(large, 3 * small) << small << " ns a command for 48 ranks, " << large << " for 272";
}

} // namespace
