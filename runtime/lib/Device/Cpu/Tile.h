//===- Tile.h - operations on tiles of elements ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One instruction of expression code on a tile, as a plain loop that the compiler vectorises. The
// loops (TileFunctions.inc) are compiled once per instruction set, each with that set's flags, and
// chosen when the program runs: no resolver runs before main, which sanitizers do not bear.
//
// Bounds of the error in f32, in units of the last place of the exact result (TileFunctionsTest
// measures them): exp, exp2, log 2; tanh, erf 3. Results do not depend on an element's place in the
// tile.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_CPU_TILE_H
#define TANDEM_LIB_DEVICE_CPU_TILE_H

#include <cstdint>
#include <vector>

namespace tandem::cpu {

/// result[i] = op(a[i], b[i], c[i]) for i < n. Elements have the instruction's type; a truth value
/// is an int32_t. Operands that the operation does not have may be null. `result` may be the same
/// array as an operand whose elements are as wide.
using TileFunction = void (*)(void *result, const void *a, const void *b, const void *c, int64_t n);

/// n adjacent elements of 16 bits as f32, and back (to nearest even).
using TileLoad = void (*)(float *to, const uint16_t *from, int64_t n);
using TileStore = void (*)(uint16_t *to, const float *from, int64_t n);

// The operations of sp::ExprOp that compute, by their names there and by the types that have them.
// clang-format off
#define TANDEM_TILE_ALL_TYPES(X) \
  X(add) X(sub) X(mul) X(div) X(rem) X(max) X(min) X(neg) X(abs) X(cmp_lt) X(cmp_le) X(cmp_eq) \
  X(select) X(bitcast)
#define TANDEM_TILE_FLOATS(X) \
  X(pow) X(exp) X(exp2) X(expm1) X(log) X(log1p) X(sqrt) X(rsqrt) X(tanh) X(erf) X(erfc) X(sin) \
  X(cos) X(floor) X(ceil) X(round) X(roundeven) X(trunc) X(fma)
#define TANDEM_TILE_F32(X) X(round_f16) X(round_bf16)
#define TANDEM_TILE_INTEGERS(X) X(bit_and) X(bit_or) X(bit_xor) X(shl) X(shr) X(wrap_i8)
#define TANDEM_TILE_FUNCTIONS(X) \
  TANDEM_TILE_ALL_TYPES(X) TANDEM_TILE_FLOATS(X) TANDEM_TILE_F32(X) TANDEM_TILE_INTEGERS(X)
// clang-format on

/// One operation, by the number of sp::RegisterType; null for a type that does not have it.
struct TileOperation {
  TileFunction of[4];
};

/// All operations for one instruction set.
struct TileFunctions {
  const char *isa; ///< "avx512", "avx2", "baseline"
#define TANDEM_MEMBER(name) TileOperation name;
  TANDEM_TILE_FUNCTIONS(TANDEM_MEMBER)
#undef TANDEM_MEMBER
  /// [type of the result][type of the operand]; null where both are the same, and of unsigned
  /// operands also where the operand is a float.
  TileOperation convert[4], convertUnsigned[4];
  TileLoad loadF16, loadBF16;
  TileStore storeF16, storeBF16;
};

/// Those that this machine can run, the fastest first. Never empty; the tables live forever.
const std::vector<const TileFunctions *> &tileFunctions();

} // namespace tandem::cpu

#endif // TANDEM_LIB_DEVICE_CPU_TILE_H
