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
// Bounds of the error, in units of the last place of the exact result (TileFunctionsTest measures
// them): exp, exp2, log 2; tanh, erf 3. Results do not depend on an element's place in the tile.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_CPU_TILE_H
#define TANDEM_LIB_DEVICE_CPU_TILE_H

#include <cstdint>
#include <vector>

namespace tandem::cpu {

/// result[i] = op(a[i], b[i], c[i]) for i < n. Elements are float or int32_t, as the operation
/// says; operands that it does not have may be null. `result` may be the same array as an operand.
using TileFunction = void (*)(void *result, const void *a, const void *b, const void *c, int64_t n);

/// n adjacent elements of 16 bits as f32, and back (to nearest even).
using TileLoad = void (*)(float *to, const uint16_t *from, int64_t n);
using TileStore = void (*)(uint16_t *to, const float *from, int64_t n);

// The operations of sp::ExprOp that compute, by their names there.
// clang-format off
#define TANDEM_TILE_FUNCTIONS(X) \
  X(add) X(sub) X(mul) X(div) X(max) X(min) X(pow) X(neg) X(abs) X(exp) X(exp2) X(log) X(sqrt) \
  X(rsqrt) X(tanh) X(erf) X(sin) X(cos) X(floor) X(ceil) X(cmp_lt) X(cmp_le) X(cmp_eq) \
  X(select) X(fma) X(round_f16) X(round_bf16) X(add_i32) X(sub_i32) X(mul_i32) X(max_i32) \
  X(min_i32) X(and_i32) X(or_i32) X(xor_i32) X(shl_i32) X(shr_i32) X(cmp_lt_i32) X(cmp_le_i32) \
  X(cmp_eq_i32) X(select_i32) X(from_i32) X(to_i32)
// clang-format on

/// All operations for one instruction set.
struct TileFunctions {
  const char *isa; ///< "avx512", "avx2", "baseline"
#define TANDEM_MEMBER(name) TileFunction name;
  TANDEM_TILE_FUNCTIONS(TANDEM_MEMBER)
#undef TANDEM_MEMBER
  TileLoad loadF16, loadBF16;
  TileStore storeF16, storeBF16;
};

/// Those that this machine can run, the fastest first. Never empty; the tables live forever.
const std::vector<const TileFunctions *> &tileFunctions();

} // namespace tandem::cpu

#endif // TANDEM_LIB_DEVICE_CPU_TILE_H
