//===- ExchangeProtocol.h - protocols of exchanges ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_EXCHANGEPROTOCOL_H
#define TANDEM_PROGRAM_EXCHANGEPROTOCOL_H

#include <cstdint>

namespace tandem::program {

/// How the kernel of a fused exchange tells peers that data have arrived. Numbers as in the stream
/// program and as hostir::ExchangeProtocol.
enum class ExchangeProtocol : uint8_t {
  Simple, ///< a signal per peer, when all thread blocks have stored
  Block,  ///< a flag per thread block, as torch's symmetric memory has
  LL,     ///< NCCL's LL protocol: each word of data carries a flag
};
inline constexpr unsigned kNumExchangeProtocols = 3;

} // namespace tandem::program

#endif // TANDEM_PROGRAM_EXCHANGEPROTOCOL_H
