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

} // namespace tandem::run

#endif // TANDEM_RUN_TENSOR_H
