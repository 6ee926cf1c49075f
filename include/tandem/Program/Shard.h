//===- Shard.h - where a rank's piece of an argument lies -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_SHARD_H
#define TANDEM_PROGRAM_SHARD_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tandem {

/// Where a rank's piece of an argument lies in the logical tensor; see `Shard` of the schema. Local
/// element i, row-major in `shape`, is the logical element offset + the sum of index * stride.
///
/// With `local` set, the local buffer has only the first local[d] indices of each dimension d,
/// which the loops of dimension d make. These are the innermost loops that no later dimension has
/// and whose product is at least local[d]. Example: rows 0, 1, 2, 6 and 7 of 8x4 are shape {2, 3,
/// 4}, strides {24, 4, 1}, local {5, 4}.
struct Shard {
  bool present = true;                 ///< false: the rank holds nothing
  int64_t offset = 0;                  ///< elements
  std::vector<int64_t> shape, strides; ///< elements; equal lengths
  std::vector<int64_t> local;          ///< empty: `shape` has the elements of the local buffer
  uint32_t term = 0;                   ///< of a partial argument

  /// Held by the rank.
  int64_t numElements() const {
    int64_t count = present ? 1 : 0;
    for (int64_t extent : local.empty() ? shape : local)
      count *= extent;
    return count;
  }

  /// The loops [begin, end) of each dimension of `local`. False if some loops belong to none, or a
  /// dimension has too few.
  bool loops(std::vector<std::pair<size_t, size_t>> &dims) const;
  /// The logical element of local element `element`.
  int64_t logicalOf(int64_t element) const;
  /// The local element of an element that is row-major in `shape`; none if it is not held.
  std::optional<int64_t> localOf(int64_t element) const;
  /// The largest logical element, less the offset. For strides of at least 0 and one element or
  /// more.
  int64_t last() const;
  /// Does it lie in a logical tensor of this shape? False too if numbers do not fit or overflow.
  /// Holds before any other function may be called for a shard of another process or of a file.
  bool liesIn(const std::vector<int64_t> &whole) const;
  /// Is it all of a tensor of this shape, in order?
  bool isWhole(const std::vector<int64_t> &whole) const;

  /// Calls f(local element, logical element), in the order of the local ones.
  template <typename F> void forEach(F &&f) const {
    int64_t count = numElements(), logical = offset;
    if (!local.empty()) {
      for (int64_t element = 0; element < count; ++element)
        f(element, logicalOf(element));
      return;
    }
    std::vector<int64_t> index(shape.size(), 0);
    for (int64_t element = 0; element < count; ++element) {
      f(element, logical);
      for (size_t d = shape.size(); d-- > 0;) {
        logical += strides[d];
        if (++index[d] < shape[d])
          break;
        logical -= shape[d] * strides[d];
        index[d] = 0;
      }
    }
  }
};

} // namespace tandem

#endif // TANDEM_PROGRAM_SHARD_H
