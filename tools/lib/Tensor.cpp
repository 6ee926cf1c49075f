//===- Tensor.cpp - tensors of the host and their shards --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tensor.h"

#include "tandem/Runtime/HostOps.h"

#include <fmt/format.h>

using namespace tandem;
using namespace tandem::run;

static int64_t product(const std::vector<int64_t> &shape) {
  int64_t result = 1;
  for (int64_t extent : shape)
    result *= extent;
  return result;
}

Tensor::Tensor(DType dtype, std::vector<int64_t> shape)
    : dtype(dtype), shape(std::move(shape)),
      data(static_cast<size_t>(product(this->shape)) * sizeOf(dtype)) {}

int64_t Tensor::numElements() const { return product(shape); }

Layout Tensor::layout() const {
  return Layout::dense(dtype, shape.data(), static_cast<unsigned>(shape.size()));
}

uint64_t Tensor::bits(int64_t i) const {
  uint64_t result = 0;
  std::memcpy(&result, data.data() + i * sizeOf(dtype), sizeOf(dtype));
  return result;
}

void Tensor::setBits(int64_t i, uint64_t bits) {
  std::memcpy(data.data() + i * sizeOf(dtype), &bits, sizeOf(dtype));
}

double Tensor::get(int64_t i) const {
  uint64_t wide = bits(i);
  auto raw = static_cast<uint32_t>(wide);
  switch (dtype) {
  case DType::F32:
    return __builtin_bit_cast(float, raw);
  case DType::F16:
    return __builtin_bit_cast(_Float16, static_cast<uint16_t>(raw));
  case DType::BF16:
    return __builtin_bit_cast(float, raw << 16);
  case DType::F8E4M3FN:
  case DType::F8E5M2: {
    float value = 0;
    loadAsF32(dtype, data.data() + i, 1, 1, &value);
    return value;
  }
  case DType::F64:
    return __builtin_bit_cast(double, wide);
  case DType::I32:
    return static_cast<int32_t>(raw);
  case DType::I64:
    return static_cast<double>(static_cast<int64_t>(wide));
  case DType::I8:
    return static_cast<int8_t>(raw);
  case DType::I16:
    return static_cast<int16_t>(raw);
  case DType::I1:
    return raw;
  }
  return 0;
}

void Tensor::set(int64_t i, double value) {
  switch (dtype) {
  case DType::F32:
    return setBits(i, __builtin_bit_cast(uint32_t, static_cast<float>(value)));
  case DType::F16:
  case DType::BF16:
  case DType::F8E4M3FN:
  case DType::F8E5M2: {
    float narrow = roundedToOdd(value);
    return storeFromF32(dtype, &narrow, data.data() + i * sizeOf(dtype), 1, 1);
  }
  case DType::F64:
    return setBits(i, __builtin_bit_cast(uint64_t, value));
  case DType::I1:
    return setBits(i, value != 0);
  case DType::I32:
  case DType::I64:
  case DType::I8:
  case DType::I16:
    return setBits(i, static_cast<uint64_t>(static_cast<int64_t>(value)));
  }
}

std::string run::indexText(const std::vector<int64_t> &shape, int64_t i) {
  std::string text;
  for (size_t d = shape.size(); d-- > 0;) {
    text = fmt::format("{}{}{}", i % shape[d], text.empty() ? "" : ",", text);
    i /= shape[d];
  }
  return "[" + text + "]";
}
