//===- Field.cpp - the numbers among field elements -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Field.h"

#include <bitset>
#include <cmath>
#include <limits>

namespace tandem::check::field {

namespace {

constexpr unsigned kBits = 61, kMantissa = 24;

Value rotateLeft(Value a, unsigned by) { return ((a << by) | (a >> (kBits - by))) & kPrime; }

/// In this field 2^61 = 1, so mantissa * 2^-s is the mantissa rotated by s bits, and the exponent
/// is known modulo 61: take the one nearest to 0.
std::optional<double> positiveNumberOf(Value a) {
  if (a <= uint64_t(1) << 31)
    return static_cast<double>(a);
  if (a == kInfinity)
    return std::numeric_limits<double>::infinity();
  if (std::bitset<64>(a).count() > kMantissa)
    return std::nullopt;
  for (unsigned s = 0; s < kBits; ++s) {
    Value mantissa = rotateLeft(a, s);
    if (mantissa % 2 == 0 || mantissa >> kMantissa)
      continue;
    double number = std::ldexp(static_cast<double>(mantissa), -static_cast<int>(s));
    return number <= std::ldexp(1.0, -30) ? std::ldexp(number, kBits) : number;
  }
  return std::nullopt;
}

} // namespace

std::optional<double> numberOf(Value a) {
  if (a == kNaN)
    return std::numeric_limits<double>::quiet_NaN();
  if (std::optional<double> number = positiveNumberOf(a))
    return number;
  if (std::optional<double> number = positiveNumberOf(neg(a)))
    return -*number;
  return std::nullopt;
}

uint64_t order(uint64_t way, Value a) {
  if (a == kInfinity)
    return ~uint64_t(0);
  if (a == neg(kInfinity))
    return 0;
  std::optional<double> number = numberOf(a);
  if (!number)
    return mix(a ^ way);
  // The bits of positive floats order like their values.
  uint64_t bits = 0;
  std::memcpy(&bits, &*number, sizeof bits);
  constexpr uint64_t kSign = uint64_t(1) << 63;
  return bits & kSign ? ~bits : bits | kSign;
}

} // namespace tandem::check::field
