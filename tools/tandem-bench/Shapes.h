//===- Shapes.h - what is measured ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BENCH_SHAPES_H
#define TANDEM_BENCH_SHAPES_H

#include "tandem/Program/Status.h"
#include "tandem/Program/Types.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::bench {

/// Which reshard stands beside the matmul [M, K] x [K, N] of P ranks, and what they hold:
/// AllGather: rows of x, columns of w and of the result; ReduceScatter: columns of x, rows of w,
/// and of the result; AllReduce: the same, and all of the result.
enum class Op : uint8_t { AllGather, ReduceScatter, AllReduce };
/// "ag", "rs", "ar".
std::string toString(Op op);
Expected<Op> parseOp(const std::string &text);
/// "all-gather, matmul", ...
std::string describe(Op op);

/// Of M, N and K.
inline constexpr int64_t kMaxExtent = int64_t(1) << 24;

struct Case {
  Op op = Op::AllGather;
  int64_t m = 0, n = 0, k = 0; ///< of all ranks together
  DType dtype = DType::F32;    ///< of the factors
  bool rowScales = false; ///< of 8-bit factors: a scale per row of x and of w, else one of each

  /// 8-bit factors are scaled to a bf16 result.
  DType resultType() const { return isFp8(dtype) ? DType::BF16 : dtype; }
  /// "bf16"; "f8E4M3FN", with rowScales "f8E4M3FN-rows".
  std::string types() const;
  double flops() const { return 2.0 * double(m) * double(n) * double(k); }
  /// What a rank has to receive: of the gathered x, or of the reduced result (twice for AllReduce:
  /// terms, then sums), without its own part.
  double bytesReceived(uint32_t ranks) const;
  /// "ag 8192x11008x4096 bf16"; "ag-8192x11008x4096-bf16" for file names.
  std::string text(char separator = ' ') const;
};

/// The shapes times dtypes. `shapes`: "ag:1024x11008x4096,rs:4096x11008" (M, N, K; N and K alone
/// take M from `tokens`); empty: those of tensor-parallel layers, seven all-gathers and six
/// reductions. `tokens`: "1024,8192". `dtypes`: "f16,bf16", as Case::types.
Expected<std::vector<Case>> parseCases(const std::string &shapes, const std::string &tokens,
                                       const std::string &dtypes);

/// Of "bf16", "f8E4M3FN-rows", ...; `option` begins the error.
Status parseTypes(const std::string &text, const std::string &option, Case &entry);

/// How the fusion is asked to run: "auto", "sequence", "pipeline:slices=4", "exchange",
/// "push:streams=2:merge=1-1-2-4".
struct Schedule {
  std::string text; ///< as it was given
  /// auto: what the compiler chooses; sequence: no slices; else a schedule of the dialect.
  std::string name;
  int64_t slices = 1;         ///< of each owner's part
  int64_t streams = 0;        ///< 0: the schedule's own
  std::string order;          ///< "": the schedule's own
  std::vector<int64_t> merge; ///< empty: none
  bool doubling = false;      ///< merge 1, 1, 2, 4, ... as the ranks ask for
  std::string shots;          ///< of direct: "one" or "two"; "": as it chooses
  std::string signals;        ///< of direct: "step", "block" or "word"; "": as it chooses
  std::string by;             ///< of push and gated: "sms" (gathers), "epilogue" (push, reductions)
  int64_t blocks = 0;         ///< of direct, and by SMs; 0: as the schedule chooses
  int64_t copies = 0;         ///< of push; 0: one
  std::string sum;            ///< of push; empty: its default
  std::string deterministic;  ///< "bitwise" or "batch"; "": sums in any order
};
Expected<Schedule> parseSchedule(const std::string &text);
Expected<std::vector<Schedule>> parseSchedules(const std::string &list);

} // namespace tandem::bench

#endif // TANDEM_BENCH_SHAPES_H
