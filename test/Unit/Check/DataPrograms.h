//===- DataPrograms.h - small programs that have a reference ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_CHECK_DATAPROGRAMS_H
#define TANDEM_TEST_UNIT_CHECK_DATAPROGRAMS_H

#include "Programs.h"

namespace tandem::check {

using test::Shape;

/// A program and its reference, which is a rank of its own. All is f32 unless said otherwise,
/// dense, and runs on stream 0.
struct DataSpec : ProgramSpec {
  explicit DataSpec(uint32_t ranks);

  /// Arguments; they give the argument's number. Whole on every rank; split along a dimension; one
  /// term on each rank.
  uint32_t whole(const std::string &name, bool isResult, const Shape &shape,
                 DType dtype = DType::F32);
  uint32_t split(const std::string &name, bool isResult, const Shape &shape, unsigned dim,
                 DType dtype = DType::F32);
  uint32_t partial(const std::string &name, bool isResult, const Shape &shape,
                   sp::ReduceOp op = sp::ReduceOp::sum);

  /// The view of all that a rank has of an argument; of row `row` (of `rows`) of it.
  uint32_t view(RankSpec &rank, uint32_t argument);
  uint32_t view(RankSpec &rank, uint32_t argument, int64_t row, int64_t rows = 1);
  /// A new buffer of the arena, as a view.
  static uint32_t temporary(RankSpec &rank, const Shape &shape, DType dtype = DType::F32);
  /// A channel of all ranks.
  uint16_t everyone(RankSpec &rank) const;

private:
  uint32_t add(const std::string &name, bool isResult, const Shape &shape, DType dtype);
  uint32_t bufferOf(RankSpec &rank, uint32_t argument);
};

/// Commands on stream 0 of a rank.
CommandSpec &matmul(RankSpec &rank, uint32_t out, uint32_t a, uint32_t b, uint8_t flags = 0,
                    uint32_t bias = sp::kNoView);
CommandSpec &accumulate(RankSpec &rank, uint32_t dst, uint32_t src,
                        sp::ReduceOp op = sp::ReduceOp::sum);
CommandSpec &reduce(RankSpec &rank, uint32_t dst, uint32_t src, uint64_t dims,
                    sp::ReduceOp op = sp::ReduceOp::sum);
/// A group of one send and one receive.
void exchangeMessages(RankSpec &rank, uint16_t channel, uint32_t from, uint32_t source, uint32_t to,
                      uint32_t view, uint32_t tag = 0);
/// A kernel of a rank; gives its number.
uint32_t kernel(RankSpec &rank, uint32_t inputs, uint32_t outputs,
                const std::vector<test::Instr> &code);
test::Instr instr(sp::ExprOp op, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0, double imm = 0);
/// On i32.
test::Instr integers(sp::ExprOp op, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0, double imm = 0);

/// y = x w, where x is split by rows and gathered with a collective, then multiplied row by row.
/// x [ranks, 4], w [4, 4], y [ranks, 4] whole.
DataSpec gatherMatmul(uint32_t ranks);
/// y = x w over split K: x [4, 2 ranks], w [2 ranks, 4]; what each rank has goes around in a ring,
/// and is added in the order of the ranks.
DataSpec splitContraction(uint32_t ranks);
/// y[i] = max over j of (2 x[i, j] + b[j]): a kernel, and a reduction; x [2 ranks, 4] split by
/// rows. The reference has two kernels.
DataSpec kernels(uint32_t ranks);
/// y is partial: the terms are each rank's x, of which y is the sum. x [4] partial.
DataSpec partials(uint32_t ranks, sp::ReduceOp op = sp::ReduceOp::sum);
/// Four ranks, 2 x 2: x [4, 4] in quarters, gathered along rows and then along columns.
DataSpec gatherMesh();

} // namespace tandem::check

#endif // TANDEM_TEST_UNIT_CHECK_DATAPROGRAMS_H
