//===- Gated.h - the parts of a gated matmul --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A gated matmul is a list of waits and matmuls, which are blocks of one product, and of puts of
// these blocks to peers, with signals (docs/gated.md). This is the one place that finds the product
// in the list.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_GATED_H
#define TANDEM_PROGRAM_GATED_H

#include "tandem/Program/Commands.h"
#include "tandem/Program/Status.h"
#include "tandem/Program/Types.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {
class Program;
}

namespace tandem::program {

/// A view by its place in memory.
struct PlacedView {
  uint64_t buffer = 0;  ///< views that may share bytes have one number
  uint64_t address = 0; ///< bytes, from any origin that is the same for all views of a buffer
  Layout layout;

  friend bool operator==(const PlacedView &a, const PlacedView &b) {
    return a.buffer == b.buffer && a.address == b.address && a.layout == b.layout;
  }
  friend bool operator!=(const PlacedView &a, const PlacedView &b) { return !(a == b); }
};

/// A command of a gated matmul. Waits and signals have no views.
struct GatedPart {
  using Kind = CommandKind; ///< one that may be a part: CommandInfo::partOf
  Kind kind = Kind::Matmul;
  bool transposeB = false, accumulate = false; ///< of a matmul
  bool toSelf = false;                         ///< a put or signal whose peer is this rank
  uint32_t channel = 0, peer = 0;              ///< of a put or signal
  PlacedView out, a,
      b; ///< of a put: out is this rank's name of the place at the peer, a the source
};

/// Rows, or a slice of K of rows, in the order of computation.
struct GatedBlock {
  int64_t firstRow = 0, rows = 0, firstK = 0, k = 0;
  uint32_t gates = 0; ///< so many of the waits precede it
};

/// Where the rows of a block go.
struct GatedTarget {
  static constexpr uint32_t kNone = ~uint32_t(0);
  uint32_t matmul = 0;     ///< by number of the part
  uint32_t put = kNone;    ///< kNone: to the output of the matmul, on this rank
  uint32_t signal = kNone; ///< raised once the rows of this and of all targets before it are there
};

/// The most targets of a kernel, and the most gates.
inline constexpr uint32_t kMostGatedTargets = 8;
inline constexpr int64_t kMostGates = 96;

/// Kernels load rows of `a` by tiles of 64, 128 or 256 rows. Local rows can be in another matrix
/// for most of them if they begin and end at a multiple of these rows.
inline constexpr int64_t kOwnRowsUnit = 128;

/// Rows of `a` that lie in another place than the others. Example: this rank's rows of a gathered
/// matrix, in the operand of the gather.
struct GatedOwnRows {
  uint32_t part = 0; ///< whose `a` begins where they do
  int64_t firstRow = 0, rows = 0;
  int64_t stride = 0; ///< elements from row to row

  explicit operator bool() const { return rows > 0; }
};

/// out [M, N] = a [M, K] * b, where b is [K, N], or [N, K] with transposeB.
struct GatedProduct {
  Layout out, a, b;
  /// The parts whose views begin where the whole operands do. With puts, firstOut has no meaning.
  uint32_t firstOut = 0, firstA = 0, firstB = 0;
  /// The row of `a` that is the first one of part firstA: not 0 if own rows come first.
  int64_t rowOfFirstA = 0;
  GatedOwnRows own;
  bool transposeB = false;
  std::vector<GatedBlock> blocks; ///< of parts with elements
  uint32_t numGates = 0;
  /// With puts: one target per block, in order. Then `out` has the strides of the first target, and
  /// the shape of all.
  std::vector<GatedTarget> targets;
  /// Why kernels cannot have these targets, so that the parts run one by one; empty: they can.
  std::string whyNoTargets;

  int64_t m() const { return out.shape[0]; }
  int64_t n() const { return out.shape[1]; }
  int64_t k() const { return a.shape[1]; }
};

/// A view of a loaded program, by its number. Buffers of one space may share bytes; arguments do
/// not.
PlacedView placedView(const Program &program, uint32_t view);

/// The product. An error says which part does not fit, as "part 3: ...".
Expected<GatedProduct> describeGated(const std::vector<GatedPart> &parts);

/// The parts of the gated matmul that is command `head` of a loaded program.
std::vector<GatedPart> gatedParts(const Program &program, uint32_t head);

/// Why no kernel runs all parts of the gated matmul or fused exchange that is command `head` of a
/// loaded program, as far as the program tells; empty: one does.
std::string whyNoKernel(const Program &program, uint32_t head);

} // namespace tandem::program

#endif // TANDEM_PROGRAM_GATED_H
