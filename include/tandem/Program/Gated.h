//===- Gated.h - the parts of a gated matmul --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A gated matmul is a list of waits and matmuls, which are blocks of one product (docs/gated.md).
// This is the one place that finds the product in the list.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_GATED_H
#define TANDEM_PROGRAM_GATED_H

#include "tandem/Program/Status.h"
#include "tandem/Program/Types.h"

#include <cstdint>
#include <vector>

namespace tandem {
class Program;
}

namespace tandem::program {

/// A view by its place in memory.
struct PlacedView {
  uint64_t buffer = 0;  ///< views of one buffer have one number
  uint64_t address = 0; ///< bytes, from any origin that is the same for all views of a buffer
  Layout layout;
};

/// A command of a gated matmul. A wait has no views.
struct GatedPart {
  bool isWait = false;
  bool transposeB = false, accumulate = false;
  PlacedView out, a, b;
};

/// Rows, or a slice of K of rows, in the order of computation.
struct GatedBlock {
  int64_t firstRow = 0, rows = 0, firstK = 0, k = 0;
  uint32_t gates = 0; ///< so many of the waits precede it
};

/// out [M, N] = a [M, K] * b, where b is [K, N], or [N, K] with transposeB.
struct GatedProduct {
  Layout out, a, b;
  /// The parts whose views begin where the whole operands do.
  uint32_t firstOut = 0, firstA = 0, firstB = 0;
  bool transposeB = false;
  std::vector<GatedBlock> blocks; ///< of parts with elements
  uint32_t numGates = 0;

  int64_t m() const { return out.shape[0]; }
  int64_t n() const { return out.shape[1]; }
  int64_t k() const { return a.shape[1]; }
};

/// The product. An error says which part does not fit, as "part 3: ...".
Expected<GatedProduct> describeGated(const std::vector<GatedPart> &parts);

/// The parts of the gated matmul that is command `head` of a loaded program.
std::vector<GatedPart> gatedParts(const Program &program, uint32_t head);

} // namespace tandem::program

#endif // TANDEM_PROGRAM_GATED_H
