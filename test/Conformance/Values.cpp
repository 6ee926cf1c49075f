//===- Values.cpp - numbers of all dtypes, by the book ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Scenario.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace tandem::test {

namespace {

/// Rounds to `mantissa` explicit bits, with exponents from `least` (below: subnormal) to `most`.
double roundTo(double value, int mantissa, int least, int most) {
  if (value == 0 || std::isnan(value) || std::isinf(value))
    return value;
  int exponent = 0;
  std::frexp(value, &exponent); // value = f * 2^exponent, 0.5 <= |f| < 1
  int lowest = std::max(exponent - 1, least) - mantissa;
  double result = std::ldexp(std::nearbyint(std::ldexp(value, -lowest)), lowest);
  return std::fabs(result) >= std::ldexp(1.0, most + 1) ? std::copysign(INFINITY, value) : result;
}

uint16_t bits16(double value, int mantissa, int exponentBits) {
  int bias = (1 << (exponentBits - 1)) - 1;
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  auto maximum = static_cast<uint16_t>(((1 << exponentBits) - 1) << mantissa);
  if (std::isnan(value))
    return static_cast<uint16_t>(sign | maximum | 1 << (mantissa - 1));
  value = std::fabs(roundTo(value, mantissa, 1 - bias, bias));
  if (std::isinf(value))
    return sign | maximum;
  if (value == 0)
    return sign;
  int exponent = 0;
  std::frexp(value, &exponent);
  int biased = std::max(exponent - 1 + bias, 0);
  int scale = std::max(exponent - 1, 1 - bias) - mantissa;
  auto digits = static_cast<uint32_t>(std::ldexp(value, -scale));
  return static_cast<uint16_t>(sign | (biased << mantissa) | (digits & ((1u << mantissa) - 1)));
}

double value16(uint16_t bits, int mantissa, int exponentBits) {
  int bias = (1 << (exponentBits - 1)) - 1, exponent = bits >> mantissa & ((1 << exponentBits) - 1);
  double digits = bits & ((1 << mantissa) - 1), sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponentBits) - 1)
    return digits != 0 ? NAN : sign * INFINITY;
  if (exponent == 0)
    return sign * std::ldexp(digits, 1 - bias - mantissa);
  return sign * std::ldexp(digits + (1 << mantissa), exponent - bias - mantissa);
}

} // namespace

double rounded(DType type, double value) {
  return decodeValues(type, encodeValues(type, {value}))[0];
}

Bytes encodeValues(DType type, const std::vector<double> &values) {
  Bytes bytes(values.size() * sizeOf(type), '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    char *at = bytes.data() + i * sizeOf(type);
    if (type == DType::F32) {
      auto x = static_cast<float>(values[i]);
      std::memcpy(at, &x, 4);
    } else if (type == DType::F64) {
      std::memcpy(at, &values[i], 8);
    } else if (type == DType::I1) {
      *at = values[i] != 0;
    } else if (!isFloat(type)) { // modulo 2^n
      auto x = values[i] >= 0x1p63 ? std::numeric_limits<int64_t>::max()
                                   : static_cast<int64_t>(values[i]);
      std::memcpy(at, &x, sizeOf(type));
    } else {
      uint16_t x = type == DType::F16 ? bits16(values[i], 10, 5) : bits16(values[i], 7, 8);
      std::memcpy(at, &x, 2);
    }
  }
  return bytes;
}

std::vector<double> decodeValues(DType type, const Bytes &bytes) {
  std::vector<double> values(bytes.size() / sizeOf(type));
  for (size_t i = 0; i < values.size(); ++i) {
    const char *at = bytes.data() + i * sizeOf(type);
    if (type == DType::F32) {
      float x;
      std::memcpy(&x, at, 4);
      values[i] = x;
    } else if (type == DType::I32) {
      int32_t x;
      std::memcpy(&x, at, 4);
      values[i] = x;
    } else if (type == DType::F64) {
      std::memcpy(&values[i], at, 8);
    } else if (type == DType::I64) {
      int64_t x;
      std::memcpy(&x, at, 8);
      values[i] = static_cast<double>(x);
    } else if (sizeOf(type) == 1) {
      values[i] = type == DType::I1 ? *at != 0 : static_cast<signed char>(*at);
    } else {
      uint16_t x;
      std::memcpy(&x, at, 2);
      values[i] = type == DType::F16 ? value16(x, 10, 5) : value16(x, 7, 8);
    }
  }
  return values;
}

std::vector<double> numbers(int64_t count, uint64_t seed) {
  std::vector<double> values(static_cast<size_t>(count));
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (double &value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<double>(state >> 33 & 0xf) - 7;
  }
  return values;
}

void Scenario::resize(size_t sets) {
  data.resize(sets);
  for (auto &set : data) {
    set.resize(spec.ranks.size());
    for (auto &rank : set)
      rank.resize(spec.arguments.size());
  }
}

} // namespace tandem::test
