//===- DataMatmul.cpp - products over a field ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Data.h"

#include "tandem/Program/BuiltinKernels.h"
#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <map>

namespace tandem::check {

using namespace replay;

namespace {

using KeptSets = std::map<std::vector<uint64_t>, uint32_t>;

/// The rows of a factor: contiguous vectors along K.
class Factor {
public:
  struct Row {
    uint64_t matrix, number; ///< matrix in the batch; row in the matrix
    size_t begin;            ///< into `value`
    uint32_t kept;           ///< equal for rows that keep the same indices of K
  };
  std::vector<Row> rows; ///< by matrix and number; with an end marker
  Values value;

  /// `alongRows`: K is the last dimension, else the second to last. `sets` numbers the index sets.
  Factor(Elements from, const Layout &factor, bool alongRows, KeptSets &sets) {
    auto size = static_cast<uint64_t>(factor.shape[factor.rank - 2]);
    auto inner = static_cast<uint64_t>(factor.shape[factor.rank - 1]);
    if (!alongRows) {
      transpose(from, size, inner);
      std::swap(size, inner);
    }
    value = std::move(from.value);
    std::vector<uint64_t> k, last;
    uint32_t lastSet = 0;
    for (size_t i = 0; i < from.index.size(); k.clear()) {
      uint64_t row = from.index[i] / inner;
      rows.push_back({row / size, row % size, i, 0});
      for (; i < from.index.size() && from.index[i] < (row + 1) * inner; ++i)
        k.push_back(from.index[i] - row * inner);
      if (k != last) {
        lastSet = sets.try_emplace(k, static_cast<uint32_t>(sets.size())).first->second;
        last = k;
      }
      rows.back().kept = lastSet;
    }
    rows.push_back({~uint64_t(0), 0, value.size(), ~uint32_t(0)});
  }
  bool empty() const { return value.empty(); }
  const Row *begin(uint64_t matrix) const {
    return &*std::lower_bound(rows.begin(), rows.end() - 1, matrix,
                              [](const Row &row, uint64_t m) { return row.matrix < m; });
  }

private:
  /// Transposes each rows x columns matrix.
  static void transpose(Elements &matrices, uint64_t rows, uint64_t columns) {
    uint64_t size = rows * columns;
    bool isDense = size != 0 && matrices.size() % size == 0 && !matrices.index.empty() &&
                   matrices.index.back() + 1 == matrices.size();
    Values from = matrices.value;
    for (size_t i = 0; i < matrices.size(); ++i) {
      uint64_t at = matrices.index[i], base = at - at % size;
      uint64_t to = base + at % columns * rows + (at - base) / columns;
      if (isDense)
        matrices.value[to] = from[i];
      else
        matrices.index[i] = to;
    }
    matrices.sort();
  }
};

/// Per batch dimension of the result: the stride of the factor's matrices; 0 if it has no such
/// dimension.
std::vector<uint64_t> batchStrides(const Layout &factor, const Layout &out) {
  std::vector<uint64_t> strides(out.rank - 2u, 0);
  uint64_t stride = 1;
  for (int d = factor.rank - 3, o = out.rank - 3; d >= 0 && o >= 0; --d, --o) {
    strides[static_cast<size_t>(o)] = factor.shape[d] == 1 ? 0 : stride;
    stride *= static_cast<uint64_t>(factor.shape[d]);
  }
  return strides;
}

uint64_t matrixOf(const std::vector<uint64_t> &strides, const Layout &out, uint64_t batch) {
  uint64_t matrix = 0;
  for (size_t d = strides.size(); d-- > 0; batch /= static_cast<uint64_t>(out.shape[d]))
    matrix += batch % static_cast<uint64_t>(out.shape[d]) * strides[d];
  return matrix;
}

/// The properties that a library's choice of algorithm, hence its order of addition, depends on:
/// shapes, types, strides and batch size. `isOrdered`: K, types and transpositions only.
uint64_t algorithmOf(const Layout &out, const Layout &a, const Layout &b, uint8_t flags,
                     bool isOrdered) {
  if (isOrdered) {
    constexpr auto kTransposed = static_cast<uint8_t>(sp::CommandFlags::transpose_a) |
                                 static_cast<uint8_t>(sp::CommandFlags::transpose_b);
    bool transposed = flags & static_cast<uint8_t>(sp::CommandFlags::transpose_a);
    return field::hash(flags & kTransposed,
                       static_cast<uint64_t>(a.shape[a.rank - (transposed ? 2u : 1u)]),
                       static_cast<uint64_t>(out.dtype), static_cast<uint64_t>(a.dtype));
  }
  uint64_t key = flags;
  for (const Layout *layout : {&out, &a, &b}) {
    uint64_t batch = 1;
    for (unsigned d = 0; d < layout->rank; ++d) {
      auto extent = static_cast<uint64_t>(layout->shape[d]);
      if (d + 2 < layout->rank)
        batch *= extent;
      else
        key = field::hash(key, extent, extent == 1 ? 0 : static_cast<uint64_t>(layout->strides[d]));
    }
    key = field::hash(key, batch, static_cast<uint64_t>(layout->dtype));
  }
  return key;
}

/// What a matmul adds to a product: its bias, or the old value. Devices do it before the product is
/// rounded (GPUs), or before they add the first product of two numbers (CPUs). So it has not the
/// bits of an addition by a command of its own.
Value addInMatmul(DataMode mode, DType dtype, Value product, Value term) {
  if (!mode.rounded || !isFloat(dtype) || product == 0 || term == 0)
    return combine(mode, dtype, ReduceOp::Sum, product, term);
  return field::hash(static_cast<uint64_t>(sp::CommandKind::matmul), product, term);
}

} // namespace

void DataRun::matmul(uint32_t rank, const Command &command) {
  auto has = [&](sp::CommandFlags flag) { return (command.flags & static_cast<int>(flag)) != 0; };
  const Layout &out = layout(rank, command, 0);
  const Layout &a = layout(rank, command, 1), &b = layout(rank, command, 2);
  bool transposeA = has(sp::CommandFlags::transpose_a);
  KeptSets sets;
  Factor left(readAll(rank, command, 1), a, !transposeA, sets);
  Factor right(readAll(rank, command, 2), b, has(sp::CommandFlags::transpose_b), sets);
  const bool anyRepeats = repeats(a) || repeats(b);
  const int64_t k = a.shape[a.rank - (transposeA ? 2u : 1u)];
  // A single product has no order of addition. With an epilogue it may not be rounded.
  const bool depends =
      mode.rounded && (k > 1 || command.flags & replay::kHasEpilogue) && isFloat(out.dtype);
  const uint64_t algorithm =
      depends ? algorithmOf(out, a, b, command.flags, world.isDeterministic) : 0;
  auto m = static_cast<uint64_t>(out.shape[out.rank - 2]);
  auto n = static_cast<uint64_t>(out.shape[out.rank - 1]);
  std::vector<uint64_t> stridesA = batchStrides(a, out), stridesB = batchStrides(b, out);
  uint64_t batches = m * n == 0 ? 0 : static_cast<uint64_t>(out.numElements()) / (m * n);
  Elements result;
  Values dots(n);
  for (uint64_t batch = 0; batch < batches && !failed(); ++batch) {
    uint64_t matrixA = matrixOf(stridesA, out, batch), matrixB = matrixOf(stridesB, out, batch);
    const Factor::Row *columns = right.begin(matrixB);
    for (const Factor::Row *row = left.begin(matrixA); row->matrix == matrixA; ++row) {
      size_t length = row[1].begin - row->begin;
      for (const Factor::Row *column = columns, *end = column; column->matrix == matrixB;
           column = end) {
        // Columns with the same kept indices are contiguous.
        while (end->matrix == matrixB && end->kept == column->kept)
          ++end;
        auto count = static_cast<size_t>(end - column);
        done += static_cast<double>(count * length) / kElementSteps;
        isFailed |= anyRepeats && row->kept != column->kept;
        if (row->kept == column->kept)
          multiply(mode, &left.value[row->begin], &right.value[column->begin], dots.data(),
                   static_cast<int64_t>(count), static_cast<int64_t>(length));
        for (size_t i = 0; i < count; ++i) {
          Value dot = row->kept == column->kept
                          ? dots[i]
                          : unknown(left.value[row->begin], right.value[column[i].begin]);
          if (depends && dot != 0)
            dot = field::hash(algorithm, dot);
          result.add((batch * m + row->number) * n + column[i].number, dot);
        }
      }
    }
  }
  // Nothing is multiplied.
  if (isComplete && k == 0)
    for (uint64_t i = 0; i < batches * m * n; ++i)
      result.add(i, 0);
  result.sort();
  addBias(rank, command, left.empty() && right.empty(), result);
  if (has(sp::CommandFlags::accumulate)) {
    Elements old = read(rank, command, 0);
    for (size_t i = 0; mode.rounded && i < result.size(); ++i)
      if (const Value *term = old.find(result.index[i])) {
        result.value[i] = addInMatmul(mode, out.dtype, result.value[i], *term);
        old.value[static_cast<size_t>(term - old.value.data())] = 0;
      }
    accumulate(old, result, out.dtype, ReduceOp::Sum);
    result = std::move(old);
  }
  write(rank, command, 0, result);
}

// Which group a row has is an unknown function of the ends and the row. The result is then a sum
// over all groups: y[m, n] = sum over g of s(ends, m, g) * (sum over k of x[m, k] * w[g, k, n]).
void DataRun::groupedMatmul(uint32_t rank, const Command &command) {
  const Kernel &kernel = world.kernels[world.ranks[rank].kernels[command.aux]];
  const Layout &out = layout(rank, command, 0), &x = layout(rank, command, 1),
               &w = layout(rank, command, 2), &ends = layout(rank, command, 3);
  const bool transposeB = kernel.config == program::kTransposeB;
  const int64_t k = x.shape[x.rank - 1u];
  const auto m = static_cast<uint64_t>(out.shape[out.rank - 2u]),
             n = static_cast<uint64_t>(out.shape[out.rank - 1u]),
             groups = static_cast<uint64_t>(w.shape[0]);
  KeptSets sets;
  Factor left(readAll(rank, command, 1), x, /*alongRows=*/true, sets);
  Factor right(readAll(rank, command, 2), w, /*alongRows=*/transposeB, sets);
  std::map<uint64_t, uint64_t> digests; // of the ends, by batch index
  const Elements given = readAll(rank, command, 3);
  for (size_t i = 0; i < given.size(); ++i) {
    uint64_t &hash = digests[given.index[i] / groups];
    hash = field::hash(hash, given.index[i] % groups, given.value[i]);
  }
  const bool anyRepeats = repeats(x) || repeats(w) || repeats(ends),
             depends = mode.rounded && k > 1;
  const uint64_t flags = transposeB ? static_cast<uint64_t>(sp::CommandFlags::transpose_b) : 0;
  const uint64_t algorithm =
      depends ? algorithmOf(out, x, w, static_cast<uint8_t>(flags), world.isDeterministic) : 0;
  Elements result;
  Values dots(n);
  for (const Factor::Row *row = left.rows.data(); row + 1 < left.rows.data() + left.rows.size();
       ++row) {
    auto digest = digests.find(row->matrix);
    if (digest == digests.end() || failed())
      continue;
    std::map<uint64_t, Value> sums; // by column
    size_t length = row[1].begin - row->begin;
    for (const Factor::Row *column = right.rows.data(), *end = column;
         column + 1 < right.rows.data() + right.rows.size(); column = end) {
      while (end->matrix == column->matrix && end->kept == column->kept)
        ++end;
      auto count = static_cast<size_t>(end - column);
      done += static_cast<double>(count * length) / kElementSteps;
      const bool isKnown = row->kept == column->kept;
      isFailed |= anyRepeats && !isKnown;
      if (isKnown)
        multiply(mode, &left.value[row->begin], &right.value[column->begin], dots.data(),
                 static_cast<int64_t>(count), static_cast<int64_t>(length));
      const Value select = field::hash(0x67726f7570, digest->second, row->number, column->matrix);
      for (size_t i = 0; i < count; ++i) {
        Value dot =
            isKnown ? dots[i] : unknown(left.value[row->begin], right.value[column[i].begin]);
        Value &sum = sums.try_emplace(column[i].number, 0).first->second;
        sum = field::add(sum, field::mul(select, dot));
      }
    }
    for (auto [column, sum] : sums)
      result.add((row->matrix * m + row->number) * n + column,
                 depends && sum != 0 ? field::hash(algorithm, sum) : sum);
  }
  // Nothing is multiplied.
  if (isComplete && (k == 0 || groups == 0))
    for (uint64_t i = 0; i < static_cast<uint64_t>(out.numElements()); ++i)
      result.add(i, 0);
  write(rank, command, 0, result);
}

void DataRun::addBias(uint32_t rank, const Command &command, bool noFactors, Elements &result) {
  if (!world.operand(world.ranks[rank], command, 3))
    return;
  const Layout &out = layout(rank, command, 0);
  Elements bias = readAll(rank, command, 3);
  const bool isRow = layout(rank, command, 3).rank == 1;
  // Without kept indices of K the bias would be lost.
  isFailed |= !isComplete && noFactors && bias.size() > 0;
  size_t found = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    Value &value = result.value[i];
    uint64_t at =
        isRow ? result.index[i] % static_cast<uint64_t>(out.shape[out.rank - 1]) : result.index[i];
    const Value *term = bias.find(at);
    found += term != nullptr;
    value = term ? addInMatmul(mode, out.dtype, value, *term) : unknown(value, 0);
  }
  isFailed |= !isRow && found < bias.size(); // a term of an element that is not computed
}

} // namespace tandem::check
