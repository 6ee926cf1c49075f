//===- GroupedLibrary.h - grouped matmuls of libtandem_gated.so ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The second function of libtandem_gated.so: matmuls of groups of rows with a matrix each, whose
// bounds are in device memory (docs/operators.md). Any thread may call the functions of the table.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GATED_GROUPEDLIBRARY_H
#define TANDEM_LIB_DEVICE_GPU_GATED_GROUPEDLIBRARY_H

#include <cstdint>

namespace tandem::gpu::gated {

/// Of what this header says.
inline constexpr uint32_t kGroupedVersion = 2;

/// Of elements.
enum class GroupedType : uint32_t { F16, BF16, F32, F8E4M3FN, F8E5M2 };

/// What a kernel computes, and with which tiles. Results are f32 or, of factors of 16 bits, of
/// their type; of factors of 8 bits, f16 or bf16.
struct GroupedInfo {
  const char *name; ///< "bf16 nk 128x256 cooperative, cluster 2x1"
  GroupedType x, w;
  bool transposeW; ///< W is stored [G, N, K], else [G, K, N]
  int32_t tileM, tileN, tileK;
  int32_t clusterM, clusterN; ///< tiles of a cluster of blocks
};

/// `batches` problems: Y[m, :] = X[m, :] * W[g], where g is the first group with m < ends[g], and 0
/// where there is none. X [M, K], Y [M, N], W [G, N, K] or [G, K, N]; W is the same in all. A value
/// of `ends` counts as the largest one up to it, clamped to [0, M]. Sums in f32 in the order of K,
/// rounded once; within 128 products of 8 bits with fewer digits (docs/operators.md). Addresses are
/// in device memory, and multiples of 16 bytes where they are matrices.
struct GroupedMatmul {
  const void *x, *w;
  void *y;
  const int32_t *ends; ///< read when the kernel runs, and not written by others meanwhile
  int64_t batches, groups, m, n, k;
  int64_t strideX, strideW, strideY; ///< elements between stored rows
  int64_t batchX, batchY, batchEnds; ///< elements between problems; of no account if there is one
  int64_t groupW;                    ///< elements between groups; likewise
  uint32_t sms;                      ///< most blocks of the grid; 0: as many as the GPU has SMs
  GroupedType typeX, typeW, typeY;
  bool transposeW; ///< W is [G, N, K]
};

/// Of kGroupedEntryName: the table, or null if `version` is not the library's.
struct GroupedTable {
  uint32_t count;
  const GroupedInfo *(*info)(uint32_t kernel);
  /// A kernel for the shape, guessed from M / G and N; kernels of the same types and layout differ
  /// in tiles. `count` if there is none.
  uint32_t (*choose)(const GroupedMatmul *matmul);
  /// Why the kernel cannot run the matmul, whatever its addresses; null: it can.
  const char *(*whyNot)(uint32_t kernel, const GroupedMatmul *matmul);
  /// Loads the kernel to the current GPU, which may wait for work that runs there; else its first
  /// run() does. Null, or the error.
  const char *(*load)(uint32_t kernel);
  /// Enqueues it on a stream (cudaStream_t) of the current GPU, also inside a capture. Null, or the
  /// error.
  const char *(*run)(uint32_t kernel, const GroupedMatmul *matmul, void *stream);
};
using GetGroupedTable = const GroupedTable *(*)(uint32_t version);
inline constexpr char kGroupedEntryName[] = "tandem_grouped_kernels";

} // namespace tandem::gpu::gated

#endif // TANDEM_LIB_DEVICE_GPU_GATED_GROUPEDLIBRARY_H
