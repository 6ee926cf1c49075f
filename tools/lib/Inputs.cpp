//===- Inputs.cpp - seeded inputs and poisoned outputs ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Inputs.h"

#include <cmath>

using namespace tandem;
using namespace tandem::run;

static constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ull;

static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

uint64_t run::randomBits(uint64_t seed, uint64_t stream, uint64_t element) {
  return mix(mix(seed + kGolden * (stream + 1)) + kGolden * (element + 1));
}

static double valueOf(uint64_t u, DType dtype, bool partial) {
  if (dtype == DType::I1)
    return static_cast<double>(u % 2);
  if (!isFloat(dtype))
    return static_cast<double>(u % 17) - 8;
  if (partial)
    return (static_cast<double>(u % 33) - 16) / 16;
  return std::ldexp(static_cast<double>(u >> 40), -23) - 1;
}

Tensor run::makeInput(uint64_t seed, uint32_t argument, const ArgumentInfo &info) {
  Tensor result(info.dtype, info.shape);
  for (int64_t i = 0, count = result.numElements(); i < count; ++i)
    result.set(
        i, valueOf(randomBits(seed, argument, static_cast<uint64_t>(i)), info.dtype, info.partial));
  return result;
}

/// Term `term` of the element whose logical value is `value`.
static double termOf(uint64_t seed, uint32_t argument, const ArgumentInfo &info, uint64_t element,
                     double value, uint32_t term, uint32_t terms) {
  if (info.partialOp != ReduceOp::Sum) {
    bool holder = element % terms == term;
    return holder ? value : value + (info.partialOp == ReduceOp::Max ? -1 : 1);
  }
  auto h = [&](uint32_t t) {
    if (t == 0)
      return 0.0;
    if (t == terms)
      return value;
    return valueOf(randomBits(seed, argument + 65536ull * t, element), info.dtype, true);
  };
  return h(term + 1) - h(term);
}

Tensor run::makeShard(uint64_t seed, uint32_t argument, const ArgumentInfo &info,
                      const Shard &shard) {
  Tensor result(info.dtype, shard.present ? info.localShape : std::vector<int64_t>{0});
  shard.forEach([&](int64_t local, int64_t logical) {
    auto element = static_cast<uint64_t>(logical);
    double value = valueOf(randomBits(seed, argument, element), info.dtype, info.partial);
    if (info.partial)
      value = termOf(seed, argument, info, element, value, shard.term, info.terms);
    result.set(local, value);
  });
  return result;
}

void run::poison(Tensor &tensor) {
  uint64_t pattern = 0xa5a5a5a5a5a5a5a5u;
  if (tensor.dtype == DType::F32)
    pattern = 0x7fe5a5a5u;
  else if (tensor.dtype == DType::F16)
    pattern = 0x7ea5u;
  else if (tensor.dtype == DType::BF16)
    pattern = 0x7fe5u;
  else if (isFp8(tensor.dtype)) // NaN of both types
    pattern = 0x7fu;
  else if (tensor.dtype == DType::F64)
    pattern = 0x7ffca5a5a5a5a5a5u;
  for (int64_t i = 0, count = tensor.numElements(); i < count; ++i)
    tensor.setBits(i, pattern);
}
