//===- ExchangeSpec.h - reshards by fused exchanges -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_SUPPORT_EXCHANGESPEC_H
#define TANDEM_TEST_SUPPORT_EXCHANGESPEC_H

#include "Support/ProgramSpec.h"

namespace tandem::test {

/// The sum of all ranks' "x" [columns] in everybody's "y", by one fused exchange on stream 0:
/// command `head` of each rank. One shot: copy, puts, signals, waits, reduction. Two shots: of
/// slices, so `columns` is a multiple of the ranks; then puts, signals and waits, and a copy behind
/// the exchange. `signals`: program::ExchangeSignals; if it is not 0, the exchange is typed.
struct ExchangeSpec : ProgramSpec {
  explicit ExchangeSpec(uint32_t ranks, bool twoShots = false, int64_t columns = 16,
                        uint64_t blocks = 2, uint8_t signals = 0);
  uint32_t head = 0;
  uint32_t numParts = 0;
  CommandSpec &part(uint32_t rank, uint32_t number) {
    return ranks[rank].commands[head + 1 + number];
  }
  /// The n-th part of a kind.
  CommandSpec &part(uint32_t rank, sp::CommandKind kind, uint32_t n = 0);
  /// Removes that one.
  void drop(uint32_t rank, sp::CommandKind kind, uint32_t n = 0);
  /// Of two shots the first one: a reduce-scatter. "y" keeps its value.
  void dropSecondShot();
  /// Replaces the parts by a typed exchange, which means the same.
  void makeTyped();
};

/// Values "x0" [count], "x1", ... of `types` of each rank in everybody's "y0", ..., by one fused
/// exchange, command 0 of each rank. Each value is received in symmetric memory and copied.
ProgramSpec gatherSpec(uint32_t ranks, const std::vector<DType> &types, int64_t count,
                       uint64_t blocks = 1, uint8_t signals = 0);

} // namespace tandem::test

#endif // TANDEM_TEST_SUPPORT_EXCHANGESPEC_H
