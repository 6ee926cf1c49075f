//===- MatmulCases.cpp - matmul ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OneRank.h"

namespace tandem::test {

namespace {

struct Matmul {
  Tensor a, b, out;
  bool transposeA = false, transposeB = false, accumulate = false, bias = false;
  /// The bias has the type of `out`, not that of the factors.
  bool wideBias = false;
  /// A bias of the shape of `out`; empty: none.
  Tensor term = {};
  bool ordered = false;
};

/// m.a * m.b, without batch dimensions, and once more in pieces of `rows` rows and `columns`
/// columns, which must give the same bits.
Scenario pieces(Matmul m, int64_t rows, int64_t columns) {
  OneRank one;
  one.scenario.spec.deterministic = sp::Determinism::batch;
  fillWithNoise(m.a, 1);
  fillWithNoise(m.b, 2);
  uint32_t a = one.input(m.a, 1), b = one.input(m.b, 2), out = one.output(m.out, false);
  auto multiply = [&](std::vector<uint32_t> operands) {
    one.rank().add(sp::CommandKind::matmul, 0, std::move(operands)).flags =
        static_cast<uint8_t>(m.transposeA * 1 | m.transposeB * 2);
  };
  multiply({out, a, b, sp::kNoView});
  uint32_t twin = one.twin(m.out);
  auto part = [](Tensor t, size_t dim, int64_t begin, int64_t end) {
    t.offset += begin * t.strides[dim];
    t.shape[dim] = end - begin;
    return t;
  };
  auto bufferOf = [&](uint32_t view) { return one.rank().views[view].buffer(); };
  int64_t height = m.out.shape[0], width = m.out.shape[1];
  for (int64_t i = 0; i < height; i += rows)
    for (int64_t j = 0; j < width; j += columns) {
      int64_t iEnd = std::min(height, i + rows), jEnd = std::min(width, j + columns);
      multiply({one.view(twin, part(part(m.out, 0, i, iEnd), 1, j, jEnd)),
                one.view(bufferOf(a), part(m.a, m.transposeA ? 1 : 0, i, iEnd)),
                one.view(bufferOf(b), part(m.b, m.transposeB ? 0 : 1, j, jEnd)), sp::kNoView});
    }
  // Not by at(): a sanitizer would take longer for this than for all else.
  size_t ka = m.transposeA ? 0 : 1, kb = m.transposeB ? 1 : 0;
  int64_t k = m.a.shape[ka], stepA = m.a.strides[ka], stepB = m.b.strides[kb];
  forEachIndex(m.out.shape, [&](const Shape &i) {
    const double *row = &m.a.values[static_cast<size_t>(m.a.offset + i[0] * m.a.strides[1 - ka])];
    const double *column =
        &m.b.values[static_cast<size_t>(m.b.offset + i[1] * m.b.strides[1 - kb])];
    double sum = 0;
    for (int64_t j = 0; j < k; ++j)
      sum += row[j * stepA] * column[j * stepB];
    m.out.at(i) = sum;
  });
  return one.finish(m.out, 10 * toleranceOf(m.out.dtype));
}

Scenario matmul(Matmul m) {
  OneRank one;
  if (m.ordered)
    one.scenario.spec.deterministic = sp::Determinism::batch;
  uint32_t a = one.input(m.a, 1), b = one.input(m.b, 2), bias = sp::kNoView;
  int64_t n = m.out.shape.back();
  Tensor row = dense(m.wideBias ? m.out.dtype : m.a.dtype, {n});
  if (m.bias)
    bias = one.input(row, 3);
  const bool hasTerm = !m.term.shape.empty();
  if (hasTerm)
    bias = one.input(m.term, 3);
  uint32_t out = one.output(m.out, m.accumulate);
  CommandSpec &command = one.rank().add(sp::CommandKind::matmul, 0, {out, a, b, bias});
  command.flags = static_cast<uint8_t>(m.transposeA * 1 | m.transposeB * 2 | m.accumulate * 4);
  size_t rank = m.out.shape.size();
  size_t ra = m.a.shape.size();
  int64_t k = m.a.shape[ra - (m.transposeA ? 2 : 1)];
  forEachIndex(m.out.shape, [&](const Shape &i) {
    // NumPy's rules: trailing dimensions face each other, extents of 1 repeat.
    auto operand = [&](const Tensor &t, bool transpose, int64_t row, int64_t column) {
      size_t r = t.shape.size();
      Shape index(r);
      for (size_t d = 0; d + 2 < r; ++d)
        index[d] = t.shape[d] == 1 ? 0 : i[d + rank - r];
      index[r - 2] = transpose ? column : row;
      index[r - 1] = transpose ? row : column;
      return index;
    };
    double sum = m.accumulate ? m.out.at(i) : 0;
    for (int64_t j = 0; j < k; ++j)
      sum += m.a.at(operand(m.a, m.transposeA, i[rank - 2], j)) *
             m.b.at(operand(m.b, m.transposeB, j, i[rank - 1]));
    m.out.at(i) = sum + (m.bias ? row.at({i[rank - 1]}) : hasTerm ? m.term.at(i) : 0);
  });
  return one.finish(m.out, toleranceOf(m.out.dtype));
}

} // namespace

/// Factors of 8 bits, which the result never has.
static void addFp8Cases(Cases &cases) {
  struct Types {
    DType a, b, out;
  };
  constexpr DType e4m3 = DType::F8E4M3FN, e5m2 = DType::F8E5M2;
  for (auto [a, b, out] : {Types{e4m3, e4m3, DType::BF16}, Types{e4m3, e5m2, DType::F32},
                           Types{e5m2, e4m3, DType::F16}, Types{e5m2, e5m2, DType::BF16},
                           Types{e4m3, e4m3, DType::F32}}) {
    auto add = [&, a = a, b = b, out = out](const std::string &name, const Matmul &m) {
      cases.push_back({"Matmul.fp8-" + name + "." + nameOf(a) + "." + nameOf(b) + "." + nameOf(out),
                       {1},
                       0,
                       [=](uint32_t) { return matmul(m); }});
    };
    auto with = [&, a = a, b = b, out = out](int64_t m, int64_t k, int64_t n, int flags) {
      Matmul made{dense(a, flags & 1 ? Shape{k, m} : Shape{m, k}),
                  dense(b, flags & 2 ? Shape{n, k} : Shape{k, n}), dense(out, {m, n})};
      made.transposeA = flags & 1;
      made.transposeB = flags & 2;
      made.accumulate = flags & 4;
      made.bias = made.wideBias = flags & 8;
      return made;
    };
    // The first are those that a GPU's library multiplies as they are.
    add("nt", with(24, 32, 16, 2));
    add("nn", with(16, 32, 48, 0));
    add("tn", with(16, 32, 48, 1));
    add("tt", with(32, 48, 16, 3));
    add("accumulate-bias", with(24, 32, 16, 2 | 4 | 8));
    add("odd", with(5, 7, 3, 0));
    add("odd-nt-accumulate-bias", with(5, 7, 3, 2 | 4 | 8));
    for (auto [name, n] : {std::pair("term", 16), {"term-odd", 3}}) {
      Matmul summed = with(24, 32, n, 2);
      summed.term = dense(out, {24, n});
      add(name, summed);
    }
    add("row", with(1, 64, 16, 2));
    add("column", with(16, 64, 1, 0));
    add("no-k", with(3, 0, 7, 0));
    add("no-k-accumulate-bias", with(3, 0, 7, 4 | 8));
    Matmul batch{dense(a, {3, 4, 16}), dense(b, {3, 16, 16}), dense(out, {3, 4, 16})};
    add("batch", batch);
    batch.b = dense(b, {16, 16});
    batch.transposeB = true;
    add("batch-shared-b", batch);
    Matmul views{strided(a, {6, 16}, {48, 2}, 1, 300), strided(b, {16, 32}, {40, 1}, 3, 700),
                 strided(out, {6, 32}, {70, 2}, 0, 420)};
    add("strided", views);
    views.accumulate = true;
    add("strided-accumulate", views);
  }
}

void addMatmulCases(Cases &cases) {
  addFp8Cases(cases);
  for (DType t : {DType::F32, DType::F16, DType::BF16, DType::F64}) {
    auto add = [&](const std::string &name, const Matmul &m) {
      cases.push_back(
          {"Matmul." + name + "." + nameOf(t), {1}, 0, [=](uint32_t) { return matmul(m); }});
      if (t == DType::F64)
        cases.back().needs = kF64Matmul;
    };
    auto plain = [&](int64_t m, int64_t k, int64_t n) {
      return Matmul{dense(t, {m, k}), dense(t, {k, n}), dense(t, {m, n})};
    };
    add("square", plain(16, 16, 16));
    add("odd", plain(3, 5, 7));
    add("one", plain(1, 1, 1));
    add("row", plain(1, 33, 9));
    add("column", plain(17, 33, 1));
    add("outer", plain(9, 1, 13));
    add("large", plain(129, 257, 65));
    add("no-rows", plain(0, 5, 7));
    add("no-columns", plain(3, 5, 0));
    add("no-k", plain(3, 0, 7));
    for (int flags = 1; flags < 4; ++flags) {
      Matmul m = plain(6, 11, 9);
      m.transposeA = flags & 1;
      m.transposeB = flags & 2;
      if (m.transposeA)
        m.a = dense(t, {11, 6});
      if (m.transposeB)
        m.b = dense(t, {9, 11});
      add(flags == 1 ? "tn" : flags == 2 ? "nt" : "tt", m);
    }
    for (int flags = 1; flags < 4; ++flags) {
      Matmul m = plain(5, 8, 7);
      m.accumulate = flags & 1;
      m.bias = flags & 2;
      add(flags == 1 ? "accumulate" : flags == 2 ? "bias" : "accumulate-bias", m);
      Matmul empty = plain(5, 0, 7);
      empty.accumulate = m.accumulate;
      empty.bias = m.bias;
      add(flags == 1   ? "no-k-accumulate"
          : flags == 2 ? "no-k-bias"
                       : "no-k-accumulate-bias",
          empty);
    }
    // Of the output's shape: contiguous, with rows further apart, by columns, one for all rows.
    auto addTerm = [&](const std::string &name, Matmul m, const Tensor &term) {
      m.term = term;
      add("term" + name, m);
    };
    addTerm("", plain(8, 16, 24), dense(t, {8, 24}));
    addTerm("-odd", plain(5, 7, 3), dense(t, {5, 3}));
    addTerm("-no-k", plain(5, 0, 7), dense(t, {5, 7}));
    addTerm("-rows", plain(6, 8, 7), strided(t, {6, 7}, {11, 1}, 2, 70));
    addTerm("-column-major", plain(6, 8, 7), strided(t, {6, 7}, {1, 6}, 0, 42));
    addTerm("-repeated-row", plain(6, 8, 7), strided(t, {6, 7}, {0, 1}, 0, 7));
    Matmul ofViews = plain(6, 8, 7);
    ofViews.out = strided(t, {6, 7}, {30, 2}, 0, 200);
    addTerm("-strided", ofViews, strided(t, {6, 7}, {14, 2}, 1, 90));
    addTerm("-batch", {dense(t, {3, 4, 5}), dense(t, {3, 5, 6}), dense(t, {3, 4, 6})},
            strided(t, {3, 4, 6}, {30, 6, 1}, 0, 90));
    if (t != DType::F64)
      addTerm("-wide", {dense(t, {5, 8}), dense(t, {8, 7}), dense(DType::F32, {5, 7})},
              dense(DType::F32, {5, 7}));
    Matmul inOrder = plain(8, 96, 24);
    inOrder.ordered = true;
    addTerm("-ordered", inOrder, dense(t, {8, 24}));
    cases.back().needs |= kOrderedMatmul;
    // A sum of many products is kept in f32.
    for (int64_t k : {8, 0}) {
      if (t == DType::F64)
        break; // f64 is as wide as it gets
      Matmul wide{dense(t, {5, k}), dense(t, {k, 7}), dense(DType::F32, {5, 7})};
      std::string name = k ? "wide" : "no-k-wide";
      add(name, wide);
      Matmul biased = wide;
      biased.bias = biased.wideBias = true;
      add(name + "-wide-bias", biased);
      wide.accumulate = true;
      add(name + "-accumulate", wide);
      wide.bias = true;
      add(name + "-accumulate-bias", wide);
    }
    Matmul wideView{strided(t, {6, 5}, {20, 2}, 1, 130), dense(t, {5, 7}),
                    strided(DType::F32, {6, 7}, {30, 2}, 0, 200)};
    wideView.accumulate = true;
    if (t != DType::F64)
      add("strided-wide-accumulate", wideView);
    add("batch", {dense(t, {3, 4, 5}), dense(t, {3, 5, 6}), dense(t, {3, 4, 6})});
    add("batch-shared-b", {dense(t, {3, 4, 5}), dense(t, {5, 6}), dense(t, {3, 4, 6})});
    add("batch-shared-a", {dense(t, {4, 5}), dense(t, {3, 5, 6}), dense(t, {3, 4, 6})});
    add("batch-broadcast", {dense(t, {2, 1, 4, 5}), dense(t, {3, 5, 6}), dense(t, {2, 3, 4, 6})});
    add("batch-ones", {dense(t, {1, 4, 5}), dense(t, {2, 1, 5, 6}), dense(t, {2, 1, 4, 6})});
    add("slice-of-columns", {strided(t, {6, 5}, {13, 1}, 3, 78), strided(t, {5, 7}, {9, 1}, 1, 50),
                             strided(t, {6, 7}, {11, 1}, 2, 70)});
    add("column-major", {strided(t, {6, 5}, {1, 6}, 0, 30), strided(t, {5, 7}, {1, 8}, 0, 64),
                         strided(t, {6, 7}, {1, 6}, 0, 42)});
    add("every-second", {strided(t, {6, 5}, {20, 2}, 1, 130), strided(t, {5, 7}, {28, 3}, 0, 150),
                         strided(t, {6, 7}, {30, 2}, 0, 200)});
    add("repeated-row", {strided(t, {6, 5}, {0, 1}, 0, 5), dense(t, {5, 7}), dense(t, {6, 7})});
    add("strided-batch",
        {strided(t, {3, 4, 5}, {5, 15, 1}, 0, 60), strided(t, {3, 5, 6}, {6, 18, 1}, 0, 90),
         strided(t, {3, 4, 6}, {6, 18, 1}, 0, 72)});
    Matmul view = {strided(t, {6, 5}, {20, 2}, 1, 130), dense(t, {5, 7}),
                   strided(t, {6, 7}, {30, 2}, 0, 200)};
    view.accumulate = view.bias = true;
    add("strided-accumulate-bias", view);

    auto addPieces = [&](const std::string &name, const Matmul &m, int64_t rows, int64_t columns) {
      cases.push_back({"Matmul.ordered-" + name + "." + nameOf(t), {1}, 0, [=](uint32_t) {
                         return pieces(m, rows, columns);
                       }});
      cases.back().needs = kOrderedMatmul;
      if (t == DType::F64)
        cases.back().needs |= kF64Matmul;
    };
    addPieces("row", plain(8, 96, 24), 1, 24);
    addPieces("rows", plain(300, 96, 64), 7, 64);
    addPieces("every-second",
              {strided(t, {8, 96}, {200, 2}, 0, 1600), dense(t, {96, 24}), dense(t, {8, 24})}, 1,
              24);
    addPieces("tiles", plain(200, 640, 136), 64, 40);
    addPieces("long", plain(33, 2048, 32), 16, 32);
    addPieces("odd", plain(35, 77, 19), 8, 7);
    addPieces("odd-row", plain(5, 77, 19), 1, 19);
    addPieces("odd-column", plain(16, 77, 19), 16, 1);
    addPieces("column", plain(40, 96, 24), 40, 1);
    addPieces("narrow", plain(16, 64, 24), 16, 6);
    Matmul transposed = plain(64, 512, 64);
    transposed.transposeB = true;
    transposed.b = dense(t, {64, 512});
    addPieces("nt", transposed, 16, 48);
    transposed = plain(16, 77, 19);
    transposed.transposeB = true;
    transposed.b = dense(t, {19, 77});
    addPieces("nt-column", transposed, 16, 1);
    transposed = plain(64, 512, 64);
    transposed.transposeA = true;
    transposed.a = dense(t, {512, 64});
    addPieces("tn", transposed, 16, 48);
    transposed = plain(40, 96, 24);
    transposed.transposeA = true;
    transposed.a = dense(t, {96, 40});
    addPieces("tn-narrow", transposed, 5, 24);
    addPieces("tn-columns", transposed, 40, 6);
    if (t == DType::F64)
      continue;
    Matmul wide{dense(t, {100, 256}), dense(t, {256, 64}), dense(DType::F32, {100, 64})};
    addPieces("wide", wide, 24, 64);
    addPieces("wide-narrow", wide, 100, 4);
  }
}

} // namespace tandem::test
