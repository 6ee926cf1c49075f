//===- GatedTest.cpp - gated matmuls in stream programs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/GatedSpec.h"

#include "tandem/Program/Gated.h"
#include "tandem/Program/Program.h"

#include <algorithm>
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
  expectGatedError("is inside the gated_matmul of command 7, which has 1 more parts",
                   [](GatedSpec &s, RankSpec &r) { r.commands[s.head].aux = 6; });
  expectGatedError("(matmul \"matmul #8\"): is on stream 1, its gated_matmul (command 7) on 0",
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
      "(gated_matmul \"gated_matmul #7\"): part 4: out: expected row 6, as in a, found an "
      "offset of 6 elements",
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
  expectGatedError("part 4: a: expected the buffer, type and strides of part 2",
                   [](GatedSpec &s, RankSpec &r) {
                     s.part(0, 2).operands[1] = r.commands[2].operands[1]; // the argument
                   });
}

TEST(Gated, OwnRowsMayLieApart) {
  for (uint32_t rank : {0, 1, 2}) {
    GatedSpec spec(3, 2, 0, /*isInPlace=*/true);
    auto file = ProgramFile::fromMemory(spec.encode());
    ASSERT_TRUE(file.ok()) << file.status().message();
    auto loaded = (*file)->rankProgram(rank);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    auto product = describeGated(program::gatedParts(**loaded, spec.head));
    ASSERT_TRUE(product.ok()) << product.status().message();
    EXPECT_EQ(product->own.part, 0u);
    EXPECT_EQ(product->own.firstRow, 2 * rank);
    EXPECT_EQ(product->own.rows, 2);
    EXPECT_EQ(product->own.stride, 4);
    // The first of the others: rows 2 and 3 on rank 0, which come next, else rows 0 and 1.
    EXPECT_EQ(product->rowOfFirstA, rank == 0 ? 2 : 0);
    EXPECT_EQ(product->firstA, rank == 1 ? 4u : 2u);
    EXPECT_EQ(product->m(), 6);
    EXPECT_EQ(product->k(), 4);
    for (uint32_t i = 0; i < 3; ++i)
      EXPECT_EQ(product->blocks[i].firstRow, (rank + i) % 3 * 2);
  }
}

/// Rank 0's error, where A [6, 4] and the result [6, 3] are at these offsets of one memory; in two
/// buffers, or in one.
std::string errorOfPlaces(uint64_t a, uint64_t y, bool inOne, bool gated = true) {
  GatedSpec spec(3);
  constexpr uint64_t bytesOfA = 32, bytesOfY = 24, bytes = 512;
  RankSpec &rank = spec.ranks[0];
  uint32_t buffer = rank.arena(bytes), other = buffer;
  if (!inOne) {
    other = static_cast<uint32_t>(rank.buffers.size());
    rank.buffers.push_back(rank.buffers[buffer]);
  }
  for (uint32_t i = 0; i < 3; ++i) {
    CommandSpec &matmul = spec.part(0, 2 * i);
    matmul.operands[0] = rank.view(other, DType::F32, {2, 3}, y + bytesOfY * i);
    matmul.operands[1] = rank.view(buffer, DType::F32, {2, 4}, a + bytesOfA * i);
  }
  if (!gated)
    rank.commands.erase(rank.commands.begin() + spec.head);
  return errorOfRank(spec);
}

TEST(Gated, NothingIsWrittenThatAnyPartReads) {
  const std::string overlaps = "command 7 (gated_matmul \"gated_matmul #7\"): out: overlaps a";
  for (bool inOne : {true, false}) {
    EXPECT_EQ(errorOfPlaces(0, 96, inOne), "");
    EXPECT_EQ(errorOfPlaces(72, 0, inOne), "");
    // The first rows of the result, over the last ones of A.
    std::string error = errorOfPlaces(0, 88, inOne);
    EXPECT_NE(error.find(overlaps), std::string::npos) << error;
    // The last rows, over the first ones of A. One by one the parts would be right, as the first
    // one has read them by then; a kernel computes all at the same time.
    EXPECT_EQ(errorOfPlaces(64, 0, inOne, /*gated=*/false), "");
    error = errorOfPlaces(64, 0, inOne);
    EXPECT_NE(error.find(overlaps), std::string::npos) << error;
  }
}

program::PlacedView placed(uint64_t buffer, int64_t rows, int64_t columns, int64_t stride,
                           int64_t offset) {
  Layout layout = Layout::dense(DType::BF16, {rows, columns});
  layout.strides[0] = stride;
  return program::PlacedView{buffer, 1000 + static_cast<uint64_t>(offset) * 2, layout};
}

TEST(Gated, NothingIsWrittenOverTheWeights) {
  auto errorAt = [](int64_t k) {
    // Columns 0 and 1 of rows of 6: the result has the columns from `k` on.
    std::vector<GatedPart> parts(2);
    for (int64_t i = 0; i < 2; ++i) {
      parts[i].out = placed(0, 2, 2, 6, 12 * i + k);
      parts[i].a = placed(1, 2, 4, 4, 8 * i);
      parts[i].b = placed(0, 4, 2, 6, 0);
    }
    return describeGated(parts).status().message();
  };
  EXPECT_EQ(errorAt(2), "");
  EXPECT_EQ(errorAt(1), "out: overlaps b");
}

/// A slice of K of rows, of a product with M = 4, N = 2, K = 6.
GatedPart slice(int64_t row, int64_t k, int64_t count) {
  GatedPart part;
  part.accumulate = k > 0;
  part.out = placed(0, 2, 2, 2, row * 2);
  part.a = placed(1, 2, count, 6, row * 6 + k);
  part.b = placed(2, count, 2, 2, k * 2);
  return part;
}

GatedPart wait() {
  GatedPart part;
  part.kind = GatedPart::Kind::WaitSignal;
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

/// The slice from another matrix, whose rows have 8 elements and which begins at `offset`.
GatedPart apart(int64_t row, int64_t k, int64_t count, int64_t offset = 0) {
  GatedPart part = slice(row, k, count);
  part.a = placed(3, 2, count, 8, offset + k);
  return part;
}

TEST(Gated, RowsThatLieApart) {
  auto of = [](const std::vector<GatedPart> &parts) { return describeGated(parts); };
  auto error = [&](const std::vector<GatedPart> &parts) { return of(parts).status().message(); };
  // Slices of K, and several blocks that follow each other.
  auto product = of({apart(4, 0, 4), apart(4, 4, 2), apart(2, 0, 6, -16), wait(), slice(0, 0, 6)});
  ASSERT_TRUE(product.ok()) << product.status().message();
  EXPECT_EQ(product->own.part, 2u);
  EXPECT_EQ(product->own.firstRow, 2);
  EXPECT_EQ(product->own.rows, 4);
  EXPECT_EQ(product->own.stride, 8);
  EXPECT_EQ(product->firstA, 4u);
  EXPECT_EQ(product->rowOfFirstA, 0);
  EXPECT_EQ(product->a.strides[0], 6);
  EXPECT_EQ(product->blocks[1].firstK, 4);
  EXPECT_EQ(product->blocks[2].firstRow, 2);
  // All in one matrix: none lie apart.
  EXPECT_FALSE(of({apart(2, 0, 6), apart(0, 0, 6, -16)})->own);
  // A matrix in the same memory, as buffers of the arena are.
  GatedPart near = slice(0, 0, 6);
  near.a.address += 1024;
  product = of({near, slice(2, 0, 6)});
  ASSERT_TRUE(product.ok()) << product.status().message();
  EXPECT_EQ(product->own.rows, 2);
  EXPECT_EQ(product->rowOfFirstA, 2);

  EXPECT_EQ(error({apart(0, 0, 6), apart(4, 0, 6, 32), slice(2, 0, 6)}),
            "a: expected local rows to follow each other, found 4 of 6");
  EXPECT_EQ(error({apart(2, 0, 4), slice(2, 4, 2), slice(0, 0, 6)}),
            "part 1: a: expected all of K of rows in one place");
  EXPECT_EQ(error({apart(0, 0, 6), slice(2, 0, 6), apart(4, 0, 6, 32)}),
            "part 2: a: expected the buffer, type and strides of part 1");
  EXPECT_EQ(error({apart(0, 0, 6), slice(2, 0, 6), slice(2, 0, 6)}),
            "expected rows that are computed once, without gaps: 4 next, found 2");
  GatedPart columns = slice(2, 0, 6);
  columns.a.layout.strides = {1, 2};
  EXPECT_EQ(error({apart(0, 0, 6), columns}).rfind("part 1: a: expected contiguous rows", 0), 0u);
  GatedPart over = apart(0, 0, 6);
  over.a.buffer = over.out.buffer;
  over.a.address = over.out.address;
  EXPECT_EQ(error({over, slice(2, 0, 6)}), "out: overlaps own rows of a");
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

//===----------------------------------------------------------------------===//
// Rows that go to peers
//===----------------------------------------------------------------------===//

TEST(Gated, TargetsOfAProgram) {
  auto file = ProgramFile::fromMemory(EpilogueSpec(3).encode());
  ASSERT_TRUE(file.ok()) << file.status().message();
  auto loaded = (*file)->rankProgram(1);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  auto product = describeGated(program::gatedParts(**loaded, 0));
  ASSERT_TRUE(product.ok()) << product.status().message();
  EXPECT_EQ(product->whyNoTargets, "");
  EXPECT_EQ(product->m(), 6);
  ASSERT_EQ(product->blocks.size(), 3u);
  ASSERT_EQ(product->targets.size(), 3u);
  int64_t rows[] = {4, 0, 2}; // of ranks 2, 0, 1
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(product->blocks[i].firstRow, rows[i]);
    EXPECT_EQ(product->targets[i].matmul, 3 * i);
    EXPECT_EQ(product->targets[i].put, i < 2 ? 3 * i + 1 : program::GatedTarget::kNone);
    EXPECT_EQ(product->targets[i].signal, i < 2 ? 3 * i + 2 : program::GatedTarget::kNone);
  }
  EXPECT_NE(dumpProgram(**loaded).find("s0   put c0 "), std::string::npos);
}

/// The slice with a put to a peer, in rows of 5 elements there, and a signal.
std::vector<GatedPart> push(int64_t row, uint32_t peer, int64_t stride = 5) {
  GatedPart put, signal;
  put.kind = GatedPart::Kind::Put;
  signal.kind = GatedPart::Kind::Signal;
  put.peer = signal.peer = peer;
  put.a = slice(row, 0, 6).out;
  put.out = put.a;
  put.out.buffer = 7;
  put.out.layout.strides[0] = stride;
  return {slice(row, 0, 6), put, signal};
}

/// The slice to this rank.
std::vector<GatedPart> keep(int64_t row, int64_t stride = 5) {
  GatedPart own = slice(row, 0, 6);
  own.out.buffer = 7;
  own.out.layout.strides[0] = stride;
  return {own};
}

program::GatedProduct productOf(const std::vector<std::vector<GatedPart>> &blocks) {
  std::vector<GatedPart> parts;
  for (const std::vector<GatedPart> &block : blocks)
    parts.insert(parts.end(), block.begin(), block.end());
  auto product = describeGated(parts);
  EXPECT_TRUE(product.ok()) << product.status().message();
  return product.ok() ? *product : program::GatedProduct();
}

TEST(Gated, TargetsThatAKernelCanHave) {
  program::GatedProduct product = productOf({push(2, 1), push(0, 2), keep(4)});
  EXPECT_EQ(product.whyNoTargets, "");
  EXPECT_EQ(product.out.strides[0], 5);
  EXPECT_EQ(product.out.shape[0], 6);
  // A signal may be missing, and there need not be rows of this rank.
  std::vector<GatedPart> quiet = push(0, 2);
  quiet.pop_back();
  EXPECT_EQ(productOf({push(2, 1), quiet}).whyNoTargets, "");
  EXPECT_EQ(productOf({keep(0)}).targets.size(), 0u);
}

TEST(Gated, TargetsThatNoKernelHas) {
  auto why = [](const std::vector<std::vector<GatedPart>> &blocks) {
    return productOf(blocks).whyNoTargets;
  };
  EXPECT_EQ(why({push(2, 1), push(0, 1)}), "two puts are to one peer");
  EXPECT_EQ(why({push(2, 1), keep(0), keep(4)}), "two blocks stay on this rank");
  EXPECT_EQ(why({push(2, 1), {wait()}, keep(0)}), "it waits for signals, and stores to peers");
  EXPECT_EQ(why({push(2, 1), keep(0, 6)}).rfind("expected targets of one layout", 0), 0u);
  EXPECT_EQ(why({{slice(2, 0, 2)}, {slice(2, 2, 4)}, push(0, 1)}), "it has slices of K");
  std::vector<std::vector<GatedPart>> many;
  for (uint32_t i = 0; i < 9; ++i)
    many.push_back(push(2 * i, i + 1));
  EXPECT_EQ(why(many), "it has 9 targets, of at most 8");
  many.pop_back();
  EXPECT_EQ(why(many), "");
  std::vector<GatedPart> changed = push(2, 1);
  changed[1].toSelf = true;
  EXPECT_EQ(why({changed, keep(0)}), "a put is to this rank");
  changed = push(2, 1);
  changed[2].peer = 3;
  EXPECT_EQ(why({changed, keep(0)}), "a signal is not to the peer of the put before it");
  changed = push(2, 1);
  changed[1].channel = changed[2].channel = 4;
  EXPECT_EQ(why({push(0, 2), changed}), "its puts use several channels");
  changed = push(2, 1); // one row
  changed[0].out.layout.shape[0] = changed[0].a.layout.shape[0] = 1;
  changed[1].out.layout.shape[0] = changed[1].a.layout.shape[0] = 1;
  EXPECT_NE(why({push(0, 2), changed}), "");
  changed = push(2, 1); // none
  changed[0].out.layout.shape[0] = changed[0].a.layout.shape[0] = 0;
  changed[1].out.layout.shape[0] = changed[1].a.layout.shape[0] = 0;
  EXPECT_EQ(why({push(0, 2), changed}), "a matmul has no elements");
  EXPECT_EQ(why({changed}), "expected a matmul with elements, found none");
  changed = push(2, 1); // stored the other way round
  changed[0].a.layout.strides = {1, 6};
  std::vector<GatedPart> like = push(0, 2);
  like[0].a.layout.strides = changed[0].a.layout.strides;
  EXPECT_EQ(why({changed, like}).rfind("expected out and a with contiguous rows", 0), 0u);
}

TEST(Gated, PutsAndSignalsFollowWhatTheySend) {
  auto error = [](std::vector<GatedPart> parts, uint32_t number) {
    parts.erase(parts.begin() + number);
    return describeGated(parts).status().message();
  };
  std::vector<GatedPart> parts = push(0, 1);
  EXPECT_EQ(error(parts, 0), "part 0: expected to send the output of a matmul right before it");
  EXPECT_EQ(error(parts, 1), "part 1: expected a put right before it");
  std::swap(parts[1], parts[2]);
  EXPECT_EQ(describeGated(parts).status().message(), "part 1: expected a put right before it");
  parts = push(0, 1);
  parts[1].a.address += 8;
  EXPECT_EQ(describeGated(parts).status().message(),
            "part 1: expected to send the output of a matmul right before it");
}

TEST(Gated, NothingElseUsesWhatIsStaged) {
  auto error = [](const std::function<void(EpilogueSpec &, RankSpec &)> &edit) {
    EpilogueSpec spec(3);
    edit(spec, spec.ranks[0]);
    return errorOfRank(spec);
  };
  EXPECT_EQ(error([](EpilogueSpec &, RankSpec &) {}), "");
  const std::string why = "is in memory whose contents a gated matmul does not keep";
  // A copy from it, before or after, and a reduction into it.
  auto copies = [](EpilogueSpec &s, RankSpec &r, bool first) {
    uint32_t from = r.view(s.staged, DType::F32, {2, 4}, 32), to = r.arena(32);
    r.copy(0, r.view(to, DType::F32, {2, 4}), from);
    if (first)
      std::rotate(r.commands.begin(), r.commands.end() - 1, r.commands.end());
  };
  std::string after = error([&](EpilogueSpec &s, RankSpec &r) { copies(s, r, false); });
  EXPECT_NE(after.find("operand 1: " + why), std::string::npos) << after;
  EXPECT_NE(after.find("(copy "), std::string::npos) << after;
  EXPECT_NE(error([&](EpilogueSpec &s, RankSpec &r) { copies(s, r, true); }).find(why),
            std::string::npos);
  EXPECT_NE(error([&](EpilogueSpec &s, RankSpec &r) {
              r.commands.back().operands[0] = r.view(s.staged, DType::F32, {2, 4});
            }).find("operand 0: " + why),
            std::string::npos);
  // The same region without its head has no such rule.
  EXPECT_EQ(error([&](EpilogueSpec &s, RankSpec &r) {
              copies(s, r, false);
              r.commands.erase(r.commands.begin());
            }),
            "");
  // An argument, whose contents its owner may read.
  EXPECT_NE(error([](EpilogueSpec &s, RankSpec &r) {
              s.part(0, 1).operands[1] = s.part(0, 0).operands[0] = r.commands.back().operands[0];
            }).find("expected a put of a gated matmul to read no argument"),
            std::string::npos);
}

} // namespace
} // namespace tandem::test
