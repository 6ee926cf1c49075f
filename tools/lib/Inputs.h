//===- Inputs.h - seeded inputs and poisoned outputs ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Element i of argument a is a function of (seed, a, i) alone, so that every rank makes the same
// logical tensor and none has to send it:
//
//   mix(z):  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9; z = (z ^ z >> 27) * 0x94d049bb133111eb;
//            z ^ z >> 31                                                   (SplitMix64)
//   key    = mix(seed + 0x9e3779b97f4a7c15 * (a + 1))
//   u      = mix(key + 0x9e3779b97f4a7c15 * (i + 1))                       (modulo 2^64)
//   float  = (u >> 40) * 2^-23 - 1, uniform in [-1, 1), rounded to the dtype
//   i32    = u mod 17 - 8
//   float of a partial argument = (u mod 33 - 16) / 16
//
// A partial argument of T terms: term t is h(t + 1) - h(t), where h(0) = 0, h(T) is the logical
// value, and the others are made as above with the stream a + 65536 t. All are multiples of 1/16
// not above 2 (of 1 for i32): their sum is exact in every dtype. For max and min, term i mod T is
// the logical value and the others are 1 below or above it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_INPUTS_H
#define TANDEM_RUN_INPUTS_H

#include "Tensor.h"

namespace tandem::run {

/// u of the header's formula.
uint64_t randomBits(uint64_t seed, uint64_t stream, uint64_t element);

/// The logical value of argument number `argument`.
Tensor makeInput(uint64_t seed, uint32_t argument, const ArgumentInfo &info);

/// The elements of one rank, of the term that it holds if the argument is partial.
Tensor makeShard(uint64_t seed, uint32_t argument, const ArgumentInfo &info, const Shard &shard);

/// Fills with a NaN, for i32 with 0xa5a5a5a5: what is not written shows.
void poison(Tensor &tensor);

} // namespace tandem::run

#endif // TANDEM_RUN_INPUTS_H
