//===- GatedTest.cpp - gated matmuls in stream programs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/GatedSpec.h"

#include "tandem/Program/Gated.h"
#include "tandem/Program/Program.h"

#include <functional>
#include <gtest/gtest.h>

namespace tandem::test {
namespace {

using program::describeGated;
using program::GatedPart;

std::string errorOfRank(const ProgramSpec &spec, uint32_t rank = 0) {
  auto file = ProgramFile::fromMemory(spec.encode());
  if (!file)
    return file.status().message();
  auto program = (*file)->rankProgram(rank);
  return program ? "" : program.status().message();
}

/// Expects that rank 0's program is refused after a change, with this text in the message.
void expectGatedError(const std::string &text,
                      const std::function<void(GatedSpec &, RankSpec &)> &edit) {
  GatedSpec spec(3);
  edit(spec, spec.ranks[0]);
  std::string error = errorOfRank(spec);
  EXPECT_NE(error.find(text), std::string::npos) << "expected " << text << "\nfound " << error;
}

TEST(Gated, TheProductOfAProgram) {
  auto file = ProgramFile::fromMemory(GatedSpec(3).encode());
  ASSERT_TRUE(file.ok()) << file.status().message();
  auto loaded = (*file)->rankProgram(1);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  auto product = describeGated(program::gatedParts(**loaded, GatedSpec(3).head));
  ASSERT_TRUE(product.ok()) << product.status().message();
  EXPECT_EQ(product->m(), 6);
  EXPECT_EQ(product->n(), 3);
  EXPECT_EQ(product->k(), 4);
  EXPECT_EQ(product->numGates, 2u);
  EXPECT_EQ(product->firstA, 4u); // rows of rank 0, which come last
  ASSERT_EQ(product->blocks.size(), 3u);
  int64_t rows[] = {2, 4, 0}; // of ranks 1, 2, 0
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(product->blocks[i].firstRow, rows[i]);
    EXPECT_EQ(product->blocks[i].rows, 2);
    EXPECT_EQ(product->blocks[i].gates, i);
  }
}

TEST(Gated, Dump) {
  auto file = ProgramFile::fromMemory(GatedSpec(2).encode());
  ASSERT_TRUE(file.ok());
  auto loaded = (*file)->rankProgram(0);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  std::string text = dumpProgram(**loaded);
  EXPECT_NE(text.find("s0 gated_matmul 3 parts leaves 2 SMs \"gated_matmul #5\"\n"
                      "    6 s0   matmul "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("    7 s0   wait_signal c0 slot 1 value 1"), std::string::npos) << text;
}

TEST(Gated, PartsAreThoseThatFollow) {
  EXPECT_EQ(errorOfRank(GatedSpec(3)), "");
  expectGatedError(
      "command 7 (gated_matmul \"gated_matmul #7\"): field aux: 99 parts, only 7 commands",
      [](GatedSpec &s, RankSpec &r) { r.commands[s.head].aux = 99; });
  expectGatedError("is inside the gated matmul of command 7, which has 1 more parts",
                   [](GatedSpec &s, RankSpec &r) { r.commands[s.head].aux = 6; });
  expectGatedError("(matmul \"matmul #8\"): is on stream 1, its gated matmul (command 7) on 0",
                   [](GatedSpec &s, RankSpec &) { s.part(0, 0).stream = 1; });
  expectGatedError("field value: expected at most 1048576 SMs, found 1048577",
                   [](GatedSpec &s, RankSpec &r) { r.commands[s.head].value = (1 << 20) + 1; });
  expectGatedError("field flags: unexpected 0x1",
                   [](GatedSpec &s, RankSpec &r) { r.commands[s.head].flags = 1; });
  expectGatedError("expected a matmul with elements, found none",
                   [](GatedSpec &s, RankSpec &r) { r.commands[s.head].aux = 0; });
}

TEST(Gated, PartsAreBlocksOfOneProduct) {
  expectGatedError(
      "(gated_matmul \"gated_matmul #7\"): part 2: out: expected row 2, as in a, found an "
      "offset of 12 elements",
      [](GatedSpec &s, RankSpec &) {
        std::swap(s.part(0, 2).operands[0], s.part(0, 4).operands[0]);
      });
  expectGatedError("expected rows that are computed once, without gaps: 2 next, found 0",
                   [](GatedSpec &s, RankSpec &) {
                     for (int k = 0; k < 2; ++k)
                       s.part(0, 2).operands[k] = s.part(0, 0).operands[k];
                   });
  expectGatedError("expected rows that are computed once, without gaps: 2 next, found 4",
                   [](GatedSpec &s, RankSpec &r) {
                     r.commands.erase(r.commands.begin() + s.head + 3);
                     r.commands[s.head].aux = 4;
                   });
  expectGatedError("part 2: accumulates: expected a slice of the rows before it",
                   [](GatedSpec &s, RankSpec &) { s.part(0, 2).flags = 4; });
  expectGatedError("part 2: a: expected the buffer of the first matmul",
                   [](GatedSpec &s, RankSpec &r) {
                     s.part(0, 2).operands[1] = r.commands[2].operands[1]; // the argument
                   });
}

/// A slice of K of rows, of a product with M = 4, N = 2, K = 6.
GatedPart slice(int64_t row, int64_t k, int64_t count) {
  GatedPart part;
  auto view = [](int64_t rows, int64_t columns, int64_t stride, int64_t offset) {
    Layout layout = Layout::dense(DType::BF16, {rows, columns});
    layout.strides[0] = stride;
    return program::PlacedView{0, 1000 + static_cast<uint64_t>(offset) * 2, layout};
  };
  part.accumulate = k > 0;
  part.out = view(2, 2, 2, row * 2);
  part.a = view(2, count, 6, row * 6 + k);
  part.b = view(count, 2, 2, k * 2);
  return part;
}

GatedPart wait() {
  GatedPart part;
  part.isWait = true;
  return part;
}

TEST(Gated, SlicesOfK) {
  auto product = describeGated(
      {slice(2, 0, 4), wait(), slice(2, 4, 2), wait(), slice(0, 0, 1), wait(), slice(0, 1, 5)});
  ASSERT_TRUE(product.ok()) << product.status().message();
  EXPECT_EQ(product->m(), 4);
  EXPECT_EQ(product->k(), 6);
  EXPECT_EQ(product->b.shape[0], 6);
  ASSERT_EQ(product->blocks.size(), 4u);
  EXPECT_EQ(product->blocks[1].firstRow, 2);
  EXPECT_EQ(product->blocks[1].firstK, 4);
  EXPECT_EQ(product->blocks[1].gates, 1u);
  EXPECT_EQ(product->blocks[3].gates, 3u);
}

TEST(Gated, SlicesOfKFollowEachOther) {
  auto error = [](const std::vector<GatedPart> &parts) {
    return describeGated(parts).status().message();
  };
  EXPECT_EQ(error({slice(0, 0, 2), slice(0, 4, 2)}), "part 1: expected K from 2 on, found 4");
  EXPECT_EQ(error({slice(0, 0, 6), slice(2, 0, 4)}),
            "expected rows with all of K, 6: found 4 of row 2");
  EXPECT_EQ(error({slice(0, 0, 2), slice(2, 0, 6), slice(0, 2, 4)}),
            "part 2: accumulates: expected a slice of the rows before it");
  EXPECT_EQ(error({slice(0, 0, 2), slice(0, 2, 5)}),
            "part 1: a: expected a slice of rows of 6 elements, found 5 from 2 on");
  GatedPart other = slice(0, 2, 4);
  other.b.address += 4;
  EXPECT_EQ(error({slice(0, 0, 2), other}),
            "part 1: b: expected index 2 of K, as in a, found an offset of 6 elements");
  other = slice(2, 0, 6);
  other.transposeB = true;
  EXPECT_EQ(error({slice(0, 0, 6), other}),
            "part 1: expected the flag transpose_b of the first matmul");
  EXPECT_EQ(error({wait()}), "expected a matmul with elements, found none");
}

} // namespace
} // namespace tandem::test
