//===- GatedSpec.h - a gather and one gated matmul ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_SUPPORT_GATEDSPEC_H
#define TANDEM_TEST_SUPPORT_GATEDSPEC_H

#include "Support/ProgramSpec.h"

namespace tandem::test {

/// Each rank puts its rows of "a" [2, 4] to all others, on stream 1, and multiplies the rows of all
/// by its "w" [4, 3] into "y" [2 * ranks, 3]: its own first, then those of the next rank, and so
/// on. The gated matmul is on stream 0, command `head` of each rank; its parts are a matmul, then
/// for each other rank a wait and a matmul.
struct GatedSpec : ProgramSpec {
  /// `blocks`: the puts are a fused exchange of so many thread blocks; 0: commands of their own.
  /// `isInPlace`: own rows are multiplied where they lie; else they are copied to the others first.
  explicit GatedSpec(uint32_t ranks, uint64_t leaves = 2, uint64_t blocks = 0,
                     bool isInPlace = false);
  uint32_t head = 0;
  CommandSpec &part(uint32_t rank, uint32_t number) {
    return ranks[rank].commands[head + 1 + number];
  }
};

/// Each rank multiplies all rows of its "a" [2 * ranks, 4] by its "w" [4, 3], by one gated matmul
/// that stores the rows of each other rank in that rank's memory and its own ones last. Then it
/// adds what has arrived into "y" [2, 3]. The gated matmul is command `head` of each rank; its
/// parts are a matmul, a put and a signal for each other rank, and a matmul.
struct EpilogueSpec : ProgramSpec {
  explicit EpilogueSpec(uint32_t ranks);
  uint32_t head = 0;
  uint32_t staged = 0; ///< the buffer that the puts read, on all ranks
  CommandSpec &part(uint32_t rank, uint32_t number) {
    return ranks[rank].commands[head + 1 + number];
  }
};

} // namespace tandem::test

#endif // TANDEM_TEST_SUPPORT_GATEDSPEC_H
