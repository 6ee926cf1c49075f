//===- KernelLibrary.h - what libtandem_gated.so exports ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matmul kernels for NVIDIA Hopper whose tiles wait for signals, made of CUTLASS templates
// (docs/gated.md). They take minutes to compile, so they are a library of their own, which the GPU
// device opens at run time (GatedKernels.cpp). Any thread may call its functions.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GATED_KERNELLIBRARY_H
#define TANDEM_LIB_DEVICE_GPU_GATED_KERNELLIBRARY_H

#include <cstdint>

namespace tandem::gpu::gated {

/// Of what this header says.
inline constexpr uint32_t kVersion = 6;

/// Of one matmul. They are arguments of the kernel.
inline constexpr uint32_t kMostGates = 96;
inline constexpr uint32_t kMostTargets = 8;

enum class Element : uint32_t { F16, BF16 };

/// What a kernel computes, and with which tiles.
struct KernelInfo {
  const char *name; ///< "bf16 nk 128x256 cooperative, cluster 2x1"
  Element element;  ///< of A, W and D
  bool transposeW;  ///< W is stored [N, K], else [K, N]
  int32_t tileM, tileN, tileK;
  int32_t clusterM, clusterN; ///< tiles of a cluster of blocks
};

/// Open when *signal >= (epoch ? *epoch : 0) * perRun + value.
struct Gate {
  const uint64_t *signal; ///< device memory
  uint64_t perRun, value;
};

/// Rows of D that go to the memory of this or another GPU, in place of Matmul::d.
struct Target {
  void *d;       ///< of its first row; Matmul::strideD counts here, too
  int32_t block; ///< rows [block * m / numTargets, (block + 1) * m / numTargets)
  /// Raised once its rows and those of the targets before it are stored, visible to the system;
  /// null: no signal.
  uint64_t *signal;
  uint64_t perRun, value; ///< to (epoch ? *epoch : 0) * perRun + value
};

/// What is computed from sums before they are stored: y = alpha * sum + bias + beta * residual,
/// then max(y, 0), or y / (1 + 2^(y (c0 + c1 y^2))): the silu with c0 = -log2(e), c1 = 0; the gelu
/// of tanh with c0 = -2 sqrt(2 / pi) log2(e), c1 = 0.044715 c0.
struct Function {
  enum Activation : uint32_t { None, Relu, Sigmoid };
  const void *bias;     ///< N elements of D's type; null: none
  const void *residual; ///< as D; null: none
  int64_t strideResidual;
  float alpha, beta, c0, c1;
  uint32_t activation;
  uint32_t present; ///< 0: the sums are stored, and nothing else here counts
};

/// D[M, N] = A[M, K] * W. Sums in f32 in the order of K, rounded once. Addresses are in device
/// memory, and multiples of 16 bytes where they are matrices.
struct Matmul {
  const void *a, *w;
  void *d;
  int64_t m, n, k;
  int64_t strideA, strideW, strideD; ///< elements between stored rows
  int32_t sms;                       ///< most blocks of the grid
  /// Rows of tiles of a row group (TileRaster.h). firstGroupRows: of the first row group; 0: as the
  /// others. Rounded up to whole clusters.
  int32_t groupRows, firstGroupRows;
  /// The order in which clusters take their rows: a permutation of 0 ... ceil(M / (tileM *
  /// clusterM)) - 1. Null: ascending.
  const uint16_t *order;
  int32_t slices, sliceTiles; ///< of K; the tiles of a slice, of which the last may have fewer
  /// needs[row of tiles * slices + slice]: the first so many gates must be open. For all rows of
  /// tiles that clusters have, so up to a multiple of clusterM. Null: no gates.
  const uint16_t *needs;
  uint32_t numGates;
  Gate gates[kMostGates];
  const uint64_t *epoch;
  /// In host memory: waits end when it is not 0; D is garbage then, and no signal is raised. Null:
  /// never. `stopped`: see KernelArguments.h; not null if this is not.
  const uint64_t *abortFlag;
  uint64_t *stopped;
  uint64_t *progress; ///< host memory: `marker` while the first block waits; null: none
  uint64_t marker;
  /// 0: D is one matrix. Else its rows are computed and stored in the order of the targets, each
  /// `block` once. M is a multiple of numTargets; `order` and `needs` are null, slices is 1.
  uint32_t numTargets;
  Target targets[kMostTargets];
  /// Device memory, numTargets words: 0 before and after each run. Null without targets.
  uint32_t *arrivals;
  Function function; ///< not present with targets
  /// Rows [firstOwn, firstOwn + ownRows) of A are here, and are not read at `a`. They begin and end
  /// at multiples of tileM, or end at M. Not with targets. ownRows 0: there are none.
  const void *own;
  int64_t firstOwn, ownRows, strideOwn;
};

/// The library's one function, kEntryName: its table, or null if `version` is not the library's.
struct Table {
  uint32_t count;
  const KernelInfo *(*info)(uint32_t kernel);
  /// Why the kernel cannot run the matmul, whatever its addresses; null: it can.
  const char *(*whyNot)(uint32_t kernel, const Matmul *matmul);
  /// Enqueues it on a stream (cudaStream_t) of the current GPU. Null, or the error.
  const char *(*run)(uint32_t kernel, const Matmul *matmul, void *stream);
};
using GetTable = const Table *(*)(uint32_t version);
inline constexpr char kEntryName[] = "tandem_gated_kernels";

} // namespace tandem::gpu::gated

#endif // TANDEM_LIB_DEVICE_GPU_GATED_KERNELLIBRARY_H
