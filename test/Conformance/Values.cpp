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

/// The book of floats of 8 bits: with 4 bits of exponent all ones is a NaN and there are no
/// infinities; with 5 they are the upper half of an f16.
double value8(uint8_t bits, int exponentBits) {
  if (exponentBits == 5)
    return value16(static_cast<uint16_t>(bits << 8), 10, 5);
  if ((bits & 0x7f) == 0x7f)
    return NAN;
  int exponent = bits >> 3 & 15, digits = bits & 7;
  double size = exponent == 0 ? std::ldexp(digits, -9) : std::ldexp(digits + 8, exponent - 10);
  return bits & 0x80 ? -size : size;
}

/// The nearest of all numbers. What would be the next one stands for all that are larger.
uint8_t bits8(double value, int exponentBits) {
  uint8_t sign = std::signbit(value) ? 0x80 : 0, most = exponentBits == 4 ? 0x7f : 0x7c;
  if (std::isnan(value))
    return static_cast<uint8_t>(sign | (exponentBits == 4 ? 0x7f : 0x7e));
  auto sizeOf = [&](uint8_t bits) {
    return bits < most ? value8(bits, exponentBits) : exponentBits == 4 ? 480.0 : 65536.0;
  };
  uint8_t best = most;
  for (uint8_t bits = 0; bits < most; ++bits) {
    double off = std::fabs(std::fabs(value) - sizeOf(bits)),
           least = std::fabs(std::fabs(value) - sizeOf(best));
    if (off < least || (off == least && bits % 2 == 0))
      best = bits;
  }
  return sign | best;
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
    } else if (isFp8(type)) {
      *at = static_cast<char>(bits8(values[i], type == DType::F8E4M3FN ? 4 : 5));
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
    } else if (isFp8(type)) {
      values[i] = value8(static_cast<uint8_t>(*at), type == DType::F8E4M3FN ? 4 : 5);
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
