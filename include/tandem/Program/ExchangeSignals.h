//===- ExchangeSignals.h - how a fused exchange signals ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_EXCHANGESIGNALS_H
#define TANDEM_PROGRAM_EXCHANGESIGNALS_H

#include <cstdint>

namespace tandem::program {

/// How the kernel of a fused exchange tells peers of arrivals. Numbers as in the stream program and
/// as hostir::ExchangeSignals.
enum class ExchangeSignals : uint8_t {
  Step,  ///< when all blocks have ended a step
  Block, ///< each block tells the blocks of its number
  LL,    ///< NCCL's LL protocol: each word of data carries a flag
};
inline constexpr unsigned kNumExchangeSignals = 3;

} // namespace tandem::program

#endif // TANDEM_PROGRAM_EXCHANGESIGNALS_H
