//===- Tensor.cpp - tensors of the host and their shards --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tensor.h"

#include "tandem/Program/stream_program_generated.h"

#include <cmath>
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

static float floatOf(uint32_t bits) {
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

static uint32_t bitsOf(float value) {
  uint32_t result;
  std::memcpy(&result, &value, sizeof(result));
  return result;
}

static double fromHalf(uint32_t bits) {
  uint32_t exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double value = exponent == 0    ? std::ldexp(mantissa, -24)
                 : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                  : std::ldexp(1024 + mantissa, static_cast<int>(exponent) - 25);
  return bits & 0x8000 ? -value : value;
}

static uint32_t toHalf(double value) {
  uint32_t sign = std::signbit(value) ? 0x8000 : 0;
  double magnitude = std::fabs(value);
  if (std::isnan(value))
    return sign | 0x7e00;
  if (magnitude >= 65520)
    return sign | 0x7c00;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // The unit in the last place: 2^-24 for subnormal numbers.
  int unit = std::max(exponent - 11, -24);
  auto mantissa = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
  // A mantissa of 2048 carries into the exponent by itself.
  if (mantissa < 1024)
    return sign | mantissa;
  return sign | ((static_cast<uint32_t>(unit + 24) << 10) + mantissa);
}

double Tensor::get(int64_t i) const {
  uint64_t wide = bits(i);
  auto raw = static_cast<uint32_t>(wide);
  double value = 0;
  switch (dtype) {
  case DType::F32:
    return floatOf(raw);
  case DType::F16:
    return fromHalf(raw);
  case DType::BF16:
    return floatOf(raw << 16);
  case DType::F64:
    std::memcpy(&value, &wide, sizeof value);
    return value;
  case DType::I32:
    return static_cast<int32_t>(raw);
  case DType::I64:
    return static_cast<double>(static_cast<int64_t>(wide));
  case DType::I8:
    return static_cast<int8_t>(raw);
  case DType::I1:
    return raw;
  }
  return 0;
}

void Tensor::set(int64_t i, double value) {
  switch (dtype) {
  case DType::F32:
    return setBits(i, bitsOf(static_cast<float>(value)));
  case DType::F16:
    return setBits(i, toHalf(value));
  case DType::BF16: {
    uint32_t raw = bitsOf(static_cast<float>(value));
    if (!std::isnan(value))
      raw += 0x7fff + ((raw >> 16) & 1);
    return setBits(i, raw >> 16);
  }
  case DType::F64: {
    uint64_t raw = 0;
    std::memcpy(&raw, &value, sizeof raw);
    return setBits(i, raw);
  }
  case DType::I1:
    return setBits(i, value != 0);
  case DType::I32:
  case DType::I64:
  case DType::I8:
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

int64_t Shard::numElements() const { return present ? product(shape) : 0; }

bool Shard::inside(int64_t elements) const {
  if (numElements() == 0)
    return true;
  int64_t low = offset, high = offset;
  for (size_t d = 0; d < shape.size(); ++d)
    (strides[d] < 0 ? low : high) += (shape[d] - 1) * strides[d];
  return low >= 0 && high < elements;
}

Expected<std::vector<Shard>> run::shardsOf(const Program &program) {
  std::vector<Shard> result;
  const auto &arguments = program.arguments();
  const auto *shards = program.data().shards();
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    Shard shard;
    const sp::Shard *stored = shards && i < shards->size() ? shards->Get(i) : nullptr;
    if (!stored)
      return Status(Code::InvalidProgram, fmt::format("rank {}, argument \"{}\": no shard",
                                                      program.rank(), arguments[i].name));
    shard.present = stored->present();
    shard.offset = stored->offset();
    shard.term = stored->term();
    if (stored->shape())
      shard.shape.assign(stored->shape()->begin(), stored->shape()->end());
    if (stored->strides())
      shard.strides.assign(stored->strides()->begin(), stored->strides()->end());
    int64_t local = arguments[i].present ? product(arguments[i].localShape) : 0;
    if (shard.strides.size() != shard.shape.size() || shard.numElements() != local ||
        !shard.inside(product(arguments[i].shape)))
      return Status(Code::InvalidProgram,
                    fmt::format("rank {}, argument \"{}\": shard does not lie in the argument",
                                program.rank(), arguments[i].name));
    result.push_back(std::move(shard));
  }
  return result;
}
