//===- Probes.h - what a calibration measures -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BENCH_PROBES_H
#define TANDEM_BENCH_PROBES_H

#include "Shapes.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tandem::bench {

/// A command that a probe repeats, one after the other on the main stream. Hop: a tiny accumulation
/// there, then one on a worker stream that waits for it, and the main stream waits for that.
/// Messages and puts go round in a ring; puts end in one signal. Signal: to the right-hand rank,
/// after which the left-hand one's is awaited. Beside: a matmul, and a put on a worker stream at
/// the same time, each waiting for both before. Behind: a matmul, then a longer put on a worker
/// stream that waits for it, and beside that the matmul again. Gated: a matmul as a gated matmul
/// that waits for nothing, on all SMs. Exchange: a fused exchange of one thread block that puts to
/// the right-hand rank, signals, and awaits the left-hand one; ExchangeTwice: twice in one kernel;
/// ExchangeBlocks: by kExchangeBlocks; ExchangeReduce: a tiny one, and a reduction of two operands.
/// Rows: a put of kRowsBytes in rows of so many bytes, between which as many are left out at the
/// target.
enum class Work : uint8_t {
  Matmul,
  Copy,
  Reduce,
  Accumulate,
  Hop,
  Message,
  Put,
  Rows,
  Signal,
  AllGather,
  ReduceScatter,
  AllReduce,
  Beside,
  Behind,
  Gated,
  Exchange,
  ExchangeTwice,
  ExchangeBlocks,
  ExchangeReduce
};
inline constexpr uint32_t kExchangeBlocks = 8;
inline constexpr uint64_t kRowsBytes = 16 << 20;
/// Whether it is a probe of fused exchanges.
bool isExchange(Work work);
std::string toString(Work work);

/// A program that is timed with one and with several repeats: the difference is what one of them
/// takes, without what a run costs.
struct Probe {
  Work work = Work::Copy;
  DType dtype = DType::F32;
  int64_t m = 0, n = 0, k = 0; ///< of a matmul, also beside or before a put
  uint64_t bytes = 0;          ///< of an operand, a message, a rank's slice, a row
  uint32_t repeats = 1;
  bool alone = false; ///< only rank 0 works

  std::string name() const;
  Probe once() const;
  /// Only launching counts.
  bool isTiny() const;
};

/// The probe of that name; none if there is no such one.
std::optional<Probe> parseProbe(const std::string &name);

/// The probes for a machine, with more than one repeat each, what matters most first; large ones
/// for GPUs. `cases`: their matmuls on one of so many ranks are probed, whole, and of the rows that
/// schedules compute at a time: one owner's, a half and a quarter of those. Empty: a few sizes, on
/// GPUs the known layers.
std::vector<Probe> probesFor(uint32_t ranks, bool gpu, const std::vector<Case> &cases = {});
/// The host program.
std::string probeText(const Probe &probe, uint32_t ranks);

} // namespace tandem::bench

#endif // TANDEM_BENCH_PROBES_H
