//===- ExchangeMatmul.h - a program of two ranks ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_RUNTIME_CORE_EXCHANGEMATMUL_H
#define TANDEM_TEST_UNIT_RUNTIME_CORE_EXCHANGEMATMUL_H

#include "Support/ProgramSpec.h"

#include "tandem/Runtime/Channel.h"

namespace tandem::test {

/// Two ranks exchange their slices and multiply: out = [x0; x1] * w.
inline ProgramSpec exchangeMatmul() {
  constexpr int64_t m = 3, k = 5, n = 4;
  ProgramSpec spec(2);
  spec.name = "exchange";
  spec.stacked("x", false, DType::F32, {m, k});
  spec.stacked("w", false, DType::F32, {k, n});
  spec.stacked("out", true, DType::F32, {2, m, n});
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t x = rank.argument(0, m * k * 4), w = rank.argument(1, k * n * 4);
    uint32_t out = rank.argument(2, 2 * m * n * 4), slots = rank.arena(m * k * 4);
    uint16_t ch = rank.channel({0, 1}, TwoSided);
    uint32_t xv = rank.view(x, DType::F32, {m, k}), wv = rank.view(w, DType::F32, {k, n});
    uint32_t other = rank.view(slots, DType::F32, {m, k});
    auto slice = [&](uint32_t i) { return rank.view(out, DType::F32, {m, n}, i * m * n * 4); };
    rank.sync(1, 0);
    rank.group(1, ch, 2);
    rank.recv(1, ch, other, 1 - r, 0);
    rank.send(1, ch, xv, 1 - r, 0);
    rank.add(sp::CommandKind::matmul, 0, {slice(r), xv, wv});
    rank.add(sp::CommandKind::matmul, 1, {slice(1 - r), other, wv});
    rank.sync(0, 1);
  }
  return spec;
}

} // namespace tandem::test

#endif // TANDEM_TEST_UNIT_RUNTIME_CORE_EXCHANGEMATMUL_H
