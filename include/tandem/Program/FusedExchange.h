//===- FusedExchange.h - the parts of a fused exchange ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The steps in which one kernel runs the parts of an exchange (docs/fused-exchange.md), and what
// the kernels cannot do.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_FUSEDEXCHANGE_H
#define TANDEM_PROGRAM_FUSEDEXCHANGE_H

#include "tandem/Program/Commands.h"
#include "tandem/Program/Types.h"

#include <optional>
#include <string>
#include <vector>

namespace tandem {
class Program;
}

namespace tandem::program {

/// An element-wise move: each target becomes the sum of `terms` sources, one every `termStride`
/// elements. All targets have one layout, and all (first) sources.
struct ExchangeMove {
  struct Store {
    uint32_t source = 0; ///< the part whose source is read
    uint32_t target = 0; ///< the part whose target is written
  };
  Layout out, in; ///< normalized
  int64_t terms = 1, termStride = 0;
  bool reduces = false;      ///< else it copies bits
  uint8_t reduceOp = 0;      ///< ReduceOp
  std::vector<Store> stores; ///< none: nothing is moved
};

/// First all waits, then the move, then all signals, by number of the part.
struct ExchangeStep {
  std::vector<uint32_t> waits;
  ExchangeMove move;
  std::vector<uint32_t> signals;
};

/// The steps of a kernel for the fused exchange that is command `head` of a loaded program. Thread
/// i may handle element i in all of them without waiting for other threads, but for waits and
/// signals.
std::vector<ExchangeStep> stepsOf(const Program &program, uint32_t head);

/// The limits of a kernel, of all its steps. `Shapes`: pairs of layouts, of targets and sources.
inline constexpr int kMostExchangeSteps = 28, kMostExchangeShapes = 2, kMostExchangeStores = 28,
                     kMostExchangeWaits = 16, kMostExchangeSignals = 28;
/// Thread blocks of a kernel, at most.
inline constexpr uint64_t kMostExchangeBlocks = 1024;
/// The type whose kernel handles elements of `type`; none if there is no kernel. Where nothing is
/// `added`, bits are copied, so that any type of as many bytes will do.
constexpr std::optional<DType> exchangeKernelType(DType type, bool added) {
  if (type == DType::F32 || type == DType::F16 || type == DType::BF16)
    return type;
  if (!added && sizeOf(type) == 1)
    return DType::I8;
  if (!added && sizeOf(type) == 4)
    return DType::F32;
  return std::nullopt;
}

/// Why there is no kernel for these steps; empty: there is one. The runtime and the simulator ask.
std::string whyNoKernel(const std::vector<ExchangeStep> &steps);

} // namespace tandem::program

#endif // TANDEM_PROGRAM_FUSEDEXCHANGE_H
