//===- DataCallTest.cpp - proofs of calls of the embedder's kernels -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DataPrograms.h"

#include <algorithm>

namespace tandem::check {

using test::KernelSpec;
using test::RankSpec;

namespace {

/// y[s, c] of a kernel of x[s, h], which is needed whole in h, and of w[h]. Rows and columns are
/// parallel: ranks have `rows` of them each, and compute columns 0 ... 1 and 2 ... 3 by two calls.
struct Calls : DataSpec {
  explicit Calls(uint32_t ranks = 2, int64_t rows = 3, int64_t whole = 4)
      : DataSpec(ranks), rows(rows), whole(whole) {
    int64_t all = rows * int64_t(ranks);
    x = split("x", false, {all, whole}, 0);
    w = DataSpec::whole("w", false, {whole});
    y = split("y", true, {all, 4}, 0);
    RankSpec &reference = *this->reference;
    reference.call(0, add(reference), {view(reference, y), view(reference, x), view(reference, w)},
                   {{0, all}, {0, 4}});
    for (RankSpec &rank : this->ranks)
      for (int64_t half : {0, 2})
        rank.call(0, half == 0 ? add(rank) : 0, operands(rank, half),
                  {{rank.rank * rows, all}, {half, 4}});
  }

  static uint32_t add(RankSpec &rank) {
    KernelSpec kernel;
    kernel.name = "f";
    kernel.format = sp::KernelFormat::external;
    kernel.operandTypes = {0, 0, 0};
    kernel.outputs = 1;
    kernel.dims = {{0, 1, 0, -1, -1}};
    kernel.strided = true;
    rank.kernels.push_back(kernel);
    return static_cast<uint32_t>(rank.kernels.size() - 1);
  }

  std::vector<uint32_t> operands(RankSpec &rank, int64_t half) {
    uint32_t buffer = rank.views[view(rank, y)].buffer();
    return {rank.view(buffer, DType::F32, {rows, 2}, test::Shape{4, 1},
                      static_cast<uint64_t>(half) * 4),
            view(rank, x), view(rank, w)};
  }

  int64_t rows, whole;
  uint32_t x, w, y;
};

TEST(DataCall, Slices) { expectClean(Calls()); }

TEST(DataCall, OtherFunction) {
  Calls spec;
  spec.ranks[1].kernels[0].name = "g";
  expectOnly(spec, kWrong);
}

TEST(DataCall, OtherConfig) {
  Calls spec;
  spec.ranks[0].kernels[0].config = "eps=1";
  expectOnly(spec, kWrong);
}

TEST(DataCall, OtherPlace) {
  Calls spec;
  spec.ranks[1].callPlaces[1] = {2, 4}; // columns 0 and 1 as 2 and 3
  expectOnly(spec, kWrong);
  Calls rows;
  rows.ranks[1].callPlaces[0] = {0, 6};
  expectOnly(rows, kWrong);
}

TEST(DataCall, OtherOperand) {
  Calls spec;
  RankSpec &rank = spec.ranks[0];
  // w is the first row of x.
  uint32_t buffer = rank.views[spec.view(rank, spec.x)].buffer();
  rank.launchOperands[2] = rank.view(buffer, DType::F32, {4});
  expectOnly(spec, kWrong);
}

TEST(DataCall, OrderOfWholeDimension) {
  Calls spec;
  RankSpec &rank = spec.ranks[0];
  // A copy with columns 1, 2, 3, 0 has the same elements in each row, in other places.
  uint32_t turned = DataSpec::temporary(rank, {3, 4});
  uint32_t xv = spec.view(rank, spec.x);
  uint32_t source = rank.views[xv].buffer(), target = rank.views[turned].buffer();
  for (int64_t c = 0; c < 4; ++c)
    rank.copy(
        0, rank.view(target, DType::F32, {3, 1}, test::Shape{4, 1}, static_cast<uint64_t>(c) * 4),
        rank.view(source, DType::F32, {3, 1}, test::Shape{4, 1},
                  static_cast<uint64_t>((c + 1) % 4) * 4));
  std::rotate(rank.commands.begin(), rank.commands.begin() + 2, rank.commands.end());
  rank.launchOperands[1] = rank.launchOperands[4] = turned;
  expectOnly(spec, kWrong);
}

/// y and z, two results of a kernel of x; each rank computes its rows. `swapped`: rank 1 stores
/// them the other way round.
struct TwoResults : DataSpec {
  explicit TwoResults(bool swapped) : DataSpec(2) {
    uint32_t x = split("x", false, {6, 4}, 0), y = split("y", true, {6, 4}, 0),
             z = split("z", true, {6, 4}, 0);
    auto call = [&](RankSpec &rank, bool isSwapped, int64_t offset) {
      KernelSpec kernel;
      kernel.name = "f";
      kernel.format = sp::KernelFormat::external;
      kernel.operandTypes = {0, 0, 0};
      kernel.outputs = 2;
      kernel.dims = {{0, -1, 0, -1, 0, -1}};
      rank.kernels.push_back(kernel);
      uint32_t first = view(rank, y), second = view(rank, z), from = view(rank, x);
      if (isSwapped)
        std::swap(first, second);
      rank.call(0, static_cast<uint32_t>(rank.kernels.size() - 1), {first, second, from},
                {{offset, 6}});
    };
    call(*reference, false, 0);
    for (RankSpec &rank : ranks)
      call(rank, swapped && rank.rank == 1, 3 * rank.rank);
  }
};

TEST(DataCall, SeveralResults) {
  expectClean(TwoResults(false));
  expectOnly(TwoResults(true), kWrong);
}

/// A grouped matmul, y[b, m, n] of x[b, m, k], w[g, k, n] and ends[b, g], with a batch index on
/// each rank, which adds up two slices of k.
struct Grouped : DataSpec {
  Grouped() : DataSpec(2) {
    x = split("x", false, {2, 6, 4}, 0);
    w = whole("w", false, {3, 4, 5});
    ends = split("ends", false, {2, 3}, 0, DType::I32);
    y = split("y", true, {2, 6, 5}, 0);
    RankSpec &reference = *this->reference;
    reference.call(
        0, add(reference),
        {view(reference, y), view(reference, x), view(reference, w), view(reference, ends)},
        {{0, 2}, {0, 5}});
    for (RankSpec &rank : ranks) {
      uint32_t kernel = add(rank), term = temporary(rank, {1, 6, 5});
      rank.call(0, kernel, slice(rank, view(rank, y), 0), {{0, 1}, {0, 5}});
      rank.call(0, kernel, slice(rank, term, 2), {{0, 1}, {0, 5}});
      accumulate(rank, view(rank, y), term);
    }
  }

  static uint32_t add(RankSpec &rank) {
    KernelSpec kernel;
    kernel.name = "tandem.grouped_matmul";
    kernel.format = sp::KernelFormat::external;
    kernel.operandTypes = {0, 0, 0, static_cast<uint8_t>(DType::I32)};
    kernel.outputs = 1;
    kernel.dims = {{0, -1, 1, 0, -1, -1, -1, -1, 1, 0, -1}};
    kernel.strided = true;
    rank.kernels.push_back(kernel);
    return static_cast<uint32_t>(rank.kernels.size() - 1);
  }

  std::vector<uint32_t> slice(RankSpec &rank, uint32_t out, int64_t k) {
    auto at = static_cast<uint64_t>(k);
    return {out,
            rank.view(rank.views[view(rank, x)].buffer(), DType::F32, {1, 6, 2},
                      test::Shape{24, 4, 1}, at * 4),
            rank.view(rank.views[view(rank, w)].buffer(), DType::F32, {3, 2, 5},
                      test::Shape{20, 5, 1}, at * 20),
            view(rank, ends)};
  }

  uint32_t x, w, ends, y;
};

TEST(DataCall, GroupedMatmulInSlices) { expectClean(Grouped()); }

TEST(DataCall, GroupedMatmulWithoutASlice) {
  Grouped spec;
  RankSpec &rank = spec.ranks[1];
  rank.launchOperands[5] = rank.launchOperands[1]; // the first slice of k twice
  rank.launchOperands[6] = rank.launchOperands[2];
  expectOnly(spec, kWrong);
}

TEST(DataCall, GroupedMatmulWithOtherGroups) {
  Grouped spec;
  RankSpec &rank = spec.ranks[0];
  // The matrix of the first group for all groups.
  rank.launchOperands[2] = rank.view(rank.views[spec.view(rank, spec.w)].buffer(), DType::F32,
                                     {3, 2, 5}, test::Shape{0, 5, 1}, 0);
  expectOnly(spec, kWrong);
  Grouped ends;
  RankSpec &other = ends.ranks[1];
  // The first end for all groups.
  other.launchOperands[3] = other.launchOperands[7] = other.view(
      other.views[ends.view(other, ends.ends)].buffer(), DType::I32, {1, 3}, test::Shape{3, 0}, 0);
  expectOnly(ends, kWrong);
}

// Too large for all indices.
TEST(DataCall, Sampled) {
  expectClean(Calls(2, 32768, 8192));
  Calls spec(2, 32768, 8192);
  spec.ranks[1].kernels[0].name = "g";
  expectOnly(spec, kWrong);
}

} // namespace

} // namespace tandem::check
