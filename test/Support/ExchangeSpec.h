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
/// command `head` of each rank. Two shots: of slices, so `columns` is a multiple of the ranks; then
/// a copy behind the exchange. `signals`: program::ExchangeProtocol.
struct ExchangeSpec : ProgramSpec {
  explicit ExchangeSpec(uint32_t ranks, bool twoShots = false, int64_t columns = 16,
                        uint64_t blocks = 2, uint8_t signals = 0);
  uint32_t head = 0;
  /// Copy, puts, signals, waits and reduction in place of the exchange, from `head` on.
  void makePlain();
  /// Of a plain one: the n-th command of a kind.
  CommandSpec &part(uint32_t rank, sp::CommandKind kind, uint32_t n = 0);
  /// Removes that one.
  void drop(uint32_t rank, sp::CommandKind kind, uint32_t n = 0);

private:
  std::vector<std::vector<CommandSpec>> parts; ///< by rank
};

/// Values "x0" [count], "x1", ... of `types` of each rank in everybody's "y0", ..., by one fused
/// exchange, command 0 of each rank. Each value is received in symmetric memory and copied.
/// `isPlain`: by plain commands.
ProgramSpec gatherSpec(uint32_t ranks, const std::vector<DType> &types, int64_t count,
                       uint64_t blocks = 1, uint8_t signals = 0, bool isPlain = false);

} // namespace tandem::test

#endif // TANDEM_TEST_SUPPORT_EXCHANGESPEC_H
