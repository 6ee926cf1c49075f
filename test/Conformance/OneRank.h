//===- OneRank.h - scenarios of one command on one rank ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_CONFORMANCE_ONERANK_H
#define TANDEM_TEST_CONFORMANCE_ONERANK_H

#include "Scenario.h"

namespace tandem::test {

/// A tensor somewhere in a flat array of `storage` elements.
struct Tensor {
  DType dtype = DType::F32;
  Shape shape, strides;
  int64_t offset = 0; ///< elements
  int64_t storage = 0;
  std::vector<double> values; ///< of the whole storage

  double &at(const Shape &index) {
    int64_t i = offset;
    for (size_t d = 0; d < index.size(); ++d)
      i += index[d] * strides[d];
    return values[static_cast<size_t>(i)];
  }
};

/// Row-major, filling its storage.
inline Tensor dense(DType dtype, const Shape &shape) {
  return {dtype, shape, denseStrides(shape), 0, product(shape), {}};
}
/// In a larger array: `strides` and `offset` in elements.
inline Tensor strided(DType dtype, const Shape &shape, const Shape &strides, int64_t offset,
                      int64_t storage) {
  return {dtype, shape, strides, offset, storage, {}};
}

/// Numbers from -1 to 1 with as many digits as the dtype has, whose sums round. Sums of `numbers`
/// are exact.
inline void fillWithNoise(Tensor &t, uint64_t seed) {
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (int64_t i = 0; i < t.storage; ++i) {
    // Marsaglia, Xorshift RNGs, 2003.
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    double unit = static_cast<double>(state >> 11) / 9007199254740992.0;
    t.values.push_back(isFloat(t.dtype) ? rounded(t.dtype, 2 * unit - 1) : unit > 0.5);
  }
}

/// Builds a scenario of one rank: inputs are filled, the output starts as its own input (`initial`)
/// or poisoned, one command is emitted, and a reference computes what the output must hold.
class OneRank {
public:
  OneRank() : scenario(1) { scenario.resize(1); }

  /// Returns the view; fills t.values, unless they are given.
  uint32_t input(Tensor &t, uint64_t seed) {
    if (t.values.empty()) {
      t.values = numbers(t.storage, seed);
      for (double &value : t.values)
        value = rounded(t.dtype, value);
    }
    uint32_t i = scenario.spec.stacked("in" + std::to_string(seed), false, t.dtype, {t.storage});
    scenario.resize(1);
    scenario.at(0, 0, i) = encodeValues(t.dtype, t.values);
    uint32_t buffer = rank().argument(i, static_cast<uint64_t>(t.storage) * sizeOf(t.dtype));
    return view(buffer, t);
  }

  /// Call after the inputs. With `initial`, a copy of known values into the output goes before the
  /// command.
  uint32_t output(Tensor &t, bool initial) {
    uint32_t from = 0;
    uint64_t bytes = static_cast<uint64_t>(t.storage) * sizeOf(t.dtype);
    if (initial) {
      Tensor start = dense(t.dtype, {t.storage});
      from = input(start, 99);
      t.values = start.values;
    } else {
      t.values = decodeValues(t.dtype, Bytes(bytes, kPoison));
    }
    result = scenario.spec.stacked("out", true, t.dtype, {t.storage});
    scenario.resize(1);
    uint32_t buffer = rank().argument(result, bytes);
    if (initial)
      rank().copy(0, rank().view(buffer, t.dtype, {t.storage}), from);
    return view(buffer, t);
  }

  /// One more output, poisoned, which must have the bits of `output`'s. Call after that; returns
  /// its buffer.
  uint32_t twin(const Tensor &t) {
    uint32_t i = scenario.spec.stacked("twin", true, t.dtype, {t.storage});
    scenario.resize(1);
    scenario.equal.emplace_back(result, i);
    return rank().argument(i, static_cast<uint64_t>(t.storage) * sizeOf(t.dtype));
  }

  /// `t` as the output must be.
  Scenario finish(const Tensor &t, double tolerance = 0) {
    scenario.at(0, 0, result) = encodeValues(t.dtype, t.values);
    for (auto [own, other] : scenario.equal)
      scenario.at(0, 0, other) = scenario.at(0, 0, own);
    scenario.tolerance = tolerance;
    return scenario;
  }

  RankSpec &rank() { return scenario.spec.ranks[0]; }

  uint32_t view(uint32_t buffer, const Tensor &t) {
    return rank().view(buffer, t.dtype, t.shape, t.strides,
                       static_cast<uint64_t>(t.offset) * sizeOf(t.dtype));
  }

  Scenario scenario;

private:
  uint32_t result = 0;
};

inline std::string nameOf(DType dtype) { return std::string(toString(dtype)); }

/// What sums of rounded products may differ by from exact arithmetic.
inline double toleranceOf(DType dtype) {
  return dtype == DType::F32    ? 1e-5
         : dtype == DType::F64  ? 1e-12
         : dtype == DType::F16  ? 2e-3
         : dtype == DType::BF16 ? 1.6e-2
                                : 0;
}

} // namespace tandem::test

#endif // TANDEM_TEST_CONFORMANCE_ONERANK_H
