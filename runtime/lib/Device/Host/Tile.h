//===- Tile.h - operations on tiles of elements ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One instruction of expression code on a tile, as a plain loop that the compiler vectorises. The
// loops (TileFunctions.inc) are compiled once per instruction set with its flags and selected at
// run time, without ifunc resolvers (sanitizers do not support them).
//
// Error bounds in f32, in units of the last place (TileFunctionsTest measures them): exp, exp2, log
// 2; tanh, erf 3. Results do not depend on an element's position in the tile.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_HOST_TILE_H
#define TANDEM_LIB_DEVICE_HOST_TILE_H

#include <cstdint>
#include <vector>

namespace tandem::cpu {

/// result[i] = op(a[i], b[i], c[i]) for i < n. Elements have the instruction's type; a boolean is
/// an int32_t. Unused operands may be null. `result` may alias an operand of the same element
/// width.
using TileFunction = void (*)(void *result, const void *a, const void *b, const void *c, int64_t n);

/// n contiguous 16-bit elements as f32, and back (to nearest even).
using TileLoad = void (*)(float *to, const uint16_t *from, int64_t n);
using TileStore = void (*)(uint16_t *to, const float *from, int64_t n);
/// The same of 8-bit floats.
using TileLoad8 = void (*)(float *to, const uint8_t *from, int64_t n);
using TileStore8 = void (*)(uint8_t *to, const float *from, int64_t n);

// The operations of sp::ExprOp that compute, by their names there and by the types that have them.
// clang-format off
#define TANDEM_TILE_ALL_TYPES(X) \
  X(add) X(sub) X(mul) X(div) X(rem) X(max) X(min) X(neg) X(abs) X(cmp_lt) X(cmp_le) X(cmp_eq) \
  X(select) X(bitcast)
#define TANDEM_TILE_FLOATS(X) \
  X(pow) X(exp) X(exp2) X(expm1) X(log) X(log1p) X(sqrt) X(rsqrt) X(tanh) X(erf) X(erfc) X(sin) \
  X(cos) X(floor) X(ceil) X(round) X(roundeven) X(trunc) X(fma) X(exp_difference)
#define TANDEM_TILE_F32(X) X(round_f16) X(round_bf16) X(round_f8E4M3FN) X(round_f8E5M2)
#define TANDEM_TILE_INTEGERS(X) X(bit_and) X(bit_or) X(bit_xor) X(shl) X(shr) X(wrap_i8)
#define TANDEM_TILE_FUNCTIONS(X) \
  TANDEM_TILE_ALL_TYPES(X) TANDEM_TILE_FLOATS(X) TANDEM_TILE_F32(X) TANDEM_TILE_INTEGERS(X)
// clang-format on

/// One operation, by sp::RegisterType; null for unsupported types.
struct TileOperation {
  TileFunction of[4];
};

/// All operations for one instruction set.
struct TileFunctions {
  const char *isa; ///< "avx512", "avx2", "baseline"
#define TANDEM_MEMBER(name) TileOperation name;
  TANDEM_TILE_FUNCTIONS(TANDEM_MEMBER)
#undef TANDEM_MEMBER
  /// [result type][operand type]; null for equal types, and for unsigned conversions from floats.
  TileOperation convert[4], convertUnsigned[4];
  TileOperation convertOdd; ///< by operand type
  TileLoad loadF16, loadBF16;
  TileStore storeF16, storeBF16;
  TileLoad8 loadF8E4M3FN, loadF8E5M2;
  TileStore8 storeF8E4M3FN, storeF8E5M2;
};

/// The instruction sets of this machine, fastest first. Never empty; static lifetime.
const std::vector<const TileFunctions *> &tileFunctions();

} // namespace tandem::cpu

#endif // TANDEM_LIB_DEVICE_HOST_TILE_H
