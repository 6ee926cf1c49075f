//===- Tensor.h - tensors of the host and their shards ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_TENSOR_H
#define TANDEM_RUN_TENSOR_H

#include "tandem/Program/Program.h"

#include <cstring>
#include <string>
#include <vector>

namespace tandem::run {

/// A dense row-major tensor.
struct Tensor {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;

  Tensor() = default;
  Tensor(DType dtype, std::vector<int64_t> shape);
  int64_t numElements() const;
  /// Element i as a number; an i64 beyond 2^53 is rounded.
  double get(int64_t i) const;
  /// Rounds to nearest even.
  void set(int64_t i, double value);
  /// The bits of element i, in the low bytes.
  uint64_t bits(int64_t i) const;
  void setBits(int64_t i, uint64_t bits);
  Layout layout() const;
};

/// Row-major index of element i, for people: "[2,0,17]".
std::string indexText(const std::vector<int64_t> &shape, int64_t i);

/// Where a rank's piece of an argument lies in the logical tensor; see `Shard` of the schema.
struct Shard {
  bool present = true;
  int64_t offset = 0;
  std::vector<int64_t> shape, strides;
  uint32_t term = 0; ///< of a partial argument

  int64_t numElements() const;
  /// Every element lies in a tensor of `elements` elements.
  bool inside(int64_t elements) const;

  /// Calls f(local element, logical element), in the order of the local ones.
  template <typename F> void forEach(F &&f) const {
    int64_t count = numElements(), logical = offset;
    std::vector<int64_t> index(shape.size(), 0);
    for (int64_t local = 0; local < count; ++local) {
      f(local, logical);
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

/// The shards of a program's arguments; an error if one does not lie in its argument.
Expected<std::vector<Shard>> shardsOf(const Program &program);

} // namespace tandem::run

#endif // TANDEM_RUN_TENSOR_H
