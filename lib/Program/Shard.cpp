//===- Shard.cpp - where a rank's piece of an argument lies -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Shard.h"

#include <algorithm>

using namespace tandem;

bool Shard::loops(std::vector<std::pair<size_t, size_t>> &dims) const {
  dims.assign(local.size(), {0, 0});
  size_t begin = shape.size();
  for (size_t d = local.size(); d-- > 0;) {
    size_t end = begin;
    int64_t product = 1;
    while (product < local[d] && begin > 0)
      product *= shape[--begin];
    if (product < local[d])
      return false;
    dims[d] = {begin, end};
  }
  return std::all_of(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(begin),
                     [](int64_t extent) { return extent == 1; });
}

int64_t Shard::logicalOf(int64_t element) const {
  int64_t logical = offset;
  auto walk = [&](int64_t index, size_t begin, size_t end) {
    for (size_t loop = end; loop-- > begin; index /= shape[loop])
      logical += index % shape[loop] * strides[loop];
  };
  if (local.empty()) {
    walk(element, 0, shape.size());
    return logical;
  }
  std::vector<std::pair<size_t, size_t>> dims;
  loops(dims);
  for (size_t d = local.size(); d-- > 0; element /= local[d])
    walk(element % local[d], dims[d].first, dims[d].second);
  return logical;
}

std::optional<int64_t> Shard::localOf(int64_t element) const {
  if (local.empty())
    return element;
  std::vector<std::pair<size_t, size_t>> dims;
  loops(dims);
  int64_t result = 0, count = 1;
  for (size_t d = local.size(); d-- > 0;) {
    int64_t index = 0, product = 1;
    for (size_t loop = dims[d].second; loop-- > dims[d].first; element /= shape[loop]) {
      index += element % shape[loop] * product;
      product *= shape[loop];
    }
    if (index >= local[d])
      return std::nullopt;
    result += index * count;
    count *= local[d];
  }
  return result;
}

/// The largest sum of index * stride of the first `count` indices of some loops.
static int64_t lastOf(const Shard &shard, size_t begin, size_t end, int64_t count) {
  // The last index, or an earlier one that has a smaller digit followed by the largest ones.
  int64_t index = count - 1, inner = 0, most = 0;
  for (size_t loop = end; loop-- > begin; index /= shard.shape[loop]) {
    int64_t digit = index % shard.shape[loop], stride = shard.strides[loop];
    int64_t here = digit * stride + most;
    if (digit > 0)
      here = std::max(here, (digit - 1) * stride + inner);
    most = here;
    inner += (shard.shape[loop] - 1) * stride;
  }
  return most;
}

int64_t Shard::last() const {
  if (local.empty())
    return lastOf(*this, 0, shape.size(), numElements());
  std::vector<std::pair<size_t, size_t>> dims;
  loops(dims);
  int64_t sum = 0;
  for (size_t d = 0; d < local.size(); ++d)
    sum += lastOf(*this, dims[d].first, dims[d].second, local[d]);
  return sum;
}

/// More than any tensor has, and far from an overflow.
static constexpr int64_t kMostElements = int64_t(1) << 47;

/// a * b, if both and the product are numbers of elements.
static std::optional<int64_t> times(std::optional<int64_t> a, int64_t b) {
  int64_t product = 0;
  if (!a || *a < 0 || b < 0 || __builtin_mul_overflow(*a, b, &product) || product > kMostElements)
    return std::nullopt;
  return product;
}

static std::optional<int64_t> elementsOf(const std::vector<int64_t> &shape) {
  std::optional<int64_t> count = 1;
  for (int64_t extent : shape)
    count = times(count, extent);
  return count;
}

bool Shard::liesIn(const std::vector<int64_t> &whole) const {
  std::optional<int64_t> all = elementsOf(whole), walked = elementsOf(shape);
  if (!all || !walked || !elementsOf(local) || strides.size() != shape.size())
    return false;
  if (!present || numElements() == 0)
    return true;
  int64_t reach = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    auto step = times(strides[d], shape[d] - 1);
    if (!step || __builtin_add_overflow(reach, *step, &reach))
      return false;
  }
  std::vector<std::pair<size_t, size_t>> dims;
  if (*walked == 0 || (!local.empty() && !loops(dims)))
    return false;
  return offset >= 0 && offset < *all && last() < *all - offset;
}

bool Shard::isWhole(const std::vector<int64_t> &whole) const {
  std::optional<int64_t> all = elementsOf(whole);
  int64_t inner = 1;
  for (size_t d = shape.size(); d-- > 0; inner *= shape[d])
    if (shape[d] != 1 && inner != 0 && strides[d] != inner)
      return false;
  return present && local.empty() && offset == 0 && inner == all;
}
