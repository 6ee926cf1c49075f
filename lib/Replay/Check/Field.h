//===- Field.h - the numbers that data is proven with ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Integers modulo the prime 2^61 - 1 (docs/semantics.md, section 5).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHECK_FIELD_H
#define TANDEM_CHECK_FIELD_H

#include <cstdint>
#include <cstring>
#include <optional>

namespace tandem::check::field {

/// 0 to kPrime - 1.
using Value = uint64_t;
__extension__ using Wide = unsigned __int128;
inline constexpr Value kPrime = (uint64_t(1) << 61) - 1;
/// Number of products that fit in a Wide together with a result of foldWide.
inline constexpr unsigned kMaxProducts = 32;

inline Value fold(uint64_t x) {
  x = (x & kPrime) + (x >> 61);
  return x >= kPrime ? x - kPrime : x;
}
/// A congruent number below 2^68.
inline Wide foldWide(Wide x) { return (x & kPrime) + (x >> 61); }
inline Value reduce(Wide x) { return fold(static_cast<uint64_t>(foldWide(foldWide(x)))); }

inline Value add(Value a, Value b) { return fold(a + b); }
inline Value neg(Value a) { return a == 0 ? 0 : kPrime - a; }
inline Value sub(Value a, Value b) { return fold(a + kPrime - b); }
inline Value mul(Value a, Value b) { return reduce(Wide(a) * b); }

inline Value power(Value a, uint64_t exponent) {
  Value result = 1;
  for (; exponent; exponent >>= 1, a = mul(a, a))
    if (exponent & 1)
      result = mul(result, a);
  return result;
}
/// inverse(0) = 0.
inline Value inverse(Value a) { return power(a, kPrime - 2); }

/// SplitMix64: a bijection.
inline uint64_t mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
/// The value of an unknown function `which` at (a, b, c).
inline Value hash(uint64_t which, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0) {
  return fold(mix(mix(mix(mix(which) ^ a) ^ b) ^ c));
}

/// A sum of floats: commutative with neutral 0, but its rounding depends on the operands.
inline Value addRounded(Value a, Value b) {
  if (a == 0 || b == 0)
    return a + b;
  return a < b ? hash(0x73756d, a, b) : hash(0x73756d, b, a);
}

/// `a` rounded to a narrower type: an unknown function for each `type`, which a second rounding and
/// a change of sign leave alone. Results are marked in their low bits, so one value in 2^20 is
/// taken for rounded. Small integers are numbers of every type.
inline Value roundTo(uint64_t type, Value a) {
  constexpr Value kMark = (uint64_t(1) << 20) - 1, kSmall = 257;
  Value mark = mix(type + 0x726f756e64) & kMark;
  if (a < kSmall || neg(a) < kSmall || (a & kMark) == mark || (neg(a) & kMark) == mark)
    return a;
  return fold((hash(0x726f756e64, type, a) & ~kMark) | mark);
}

inline Value fromInteger(int64_t i) {
  return i < 0 ? neg(fold(static_cast<uint64_t>(-i))) : fold(static_cast<uint64_t>(i));
}

/// +infinity; -infinity is its negation.
inline constexpr Value kInfinity = 0x0123456789abcdefull;
inline constexpr Value kNaN = 0x0fedcba987654321ull;

/// Finite floats are binary fractions, so this is exact.
inline Value fromDouble(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  uint64_t exponent = bits >> 52 & 0x7ff, mantissa = bits & ((uint64_t(1) << 52) - 1);
  Value result = 0;
  if (exponent == 0x7ff) {
    if (mantissa)
      return kNaN;
    result = kInfinity;
  } else {
    // mantissa * 2^(exponent - 1075); 2^61 = 1.
    uint64_t shift = exponent == 0 ? 1 : exponent;
    Value scale = uint64_t(1) << (shift + 61 * 18 - 1075) % 61;
    result = mul(exponent == 0 ? mantissa : mantissa | uint64_t(1) << 52, scale);
  }
  return bits >> 63 ? neg(result) : result;
}
inline Value fromFloat(float value) { return fromDouble(value); }

/// The number that a value stands for: a 32-bit integer, or a float from 2^-29 to 2^31. A random
/// value gives none, with probability 1 - 2^-29.
std::optional<double> numberOf(Value a);

/// Sort keys for values: numbers by size, infinities at the ends, other values anywhere between,
/// depending on `way`.
uint64_t order(uint64_t way, Value a);
inline Value max(uint64_t way, Value a, Value b) { return order(way, a) < order(way, b) ? b : a; }
inline Value min(uint64_t way, Value a, Value b) { return order(way, b) < order(way, a) ? b : a; }

} // namespace tandem::check::field

#endif // TANDEM_CHECK_FIELD_H
