//===- FusedExchange.h - the parts of a fused exchange ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A fused exchange is a list of copies, puts, signals, waits and reductions that one kernel can run
// (docs/fused-exchange.md). This is the one place that finds the kernel's steps in the list.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_FUSEDEXCHANGE_H
#define TANDEM_PROGRAM_FUSEDEXCHANGE_H

#include "tandem/Program/Commands.h"
#include "tandem/Program/ExchangeSignals.h"
#include "tandem/Program/Gated.h"
#include "tandem/Program/Types.h"

namespace tandem::program {

/// A command of a fused exchange. Signals and waits have no views.
struct ExchangePart {
  using Kind = CommandKind; ///< one that may be a part: CommandInfo::partOf
  Kind kind = Kind::Copy;
  uint32_t channel = 0; ///< of a put, signal or wait
  uint32_t peer = 0;    ///< of a put
  bool toSelf = false;  ///< a put whose peer is this rank
  uint8_t reduceOp = 0; ///< of a reduction: ReduceOp
  uint64_t dims = 0;    ///< of a reduction: bit i for dimension i of `in`
  PlacedView out, in;   ///< out of a put: as this rank names the place in the peer's memory
  bool moves() const { return kind != Kind::Signal && kind != Kind::WaitSignal; }
};

/// An element-wise move: each target becomes the sum of `terms` sources, which are `termStride`
/// elements apart. All targets have one layout, and all (first) sources.
struct ExchangeMove {
  struct Store {
    uint32_t source = 0; ///< the part whose `in` is read
    uint32_t target = 0; ///< the part whose `out` is written
  };
  Layout out, in;
  int64_t terms = 1, termStride = 0;
  bool reduces = false; ///< else it copies bits
  uint8_t reduceOp = 0;
  std::vector<Store> stores; ///< none: nothing is moved
};

/// First all waits, then the move, then all signals, by number of the part.
struct ExchangeStep {
  std::vector<uint32_t> waits;
  ExchangeMove move;
  std::vector<uint32_t> signals;
};

/// The steps. Thread i of a kernel may handle element i in all of them without waiting for other
/// threads, but for waits and signals. An error says which part does not fit, as "part 3: ...".
Expected<std::vector<ExchangeStep>> describeExchange(const std::vector<ExchangePart> &parts);

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

/// The parts of the fused exchange that is command `head` of a loaded program.
std::vector<ExchangePart> exchangeParts(const Program &program, uint32_t head);

} // namespace tandem::program

#endif // TANDEM_PROGRAM_FUSEDEXCHANGE_H
