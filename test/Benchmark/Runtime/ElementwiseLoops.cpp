//===- ElementwiseLoops.cpp - what a compiler makes of elementwise expressions ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loops to compare the CPU's interpreter with: the expressions in one plain loop. Compiled twice:
// with the C library's functions and the runtime's flags (`plain`), and with the runtime's own
// vectorisable functions and AVX-512 (`vectorised`), the best that a compiler could do.
//
//===----------------------------------------------------------------------===//

#if defined(TANDEM_VECTORISED_LOOPS)
#include "../../../runtime/lib/Device/Host/TileFunctions.inc"
#define TANDEM_LOOPS vectorised
#define TANDEM_ERF erfOf
#define TANDEM_EXP expOf
#else
#include <cstdint>
#include <math.h>
#define TANDEM_LOOPS plain
#define TANDEM_VECTORISE
#define TANDEM_ERF erff
#define TANDEM_EXP expf
#endif

namespace TANDEM_LOOPS {

void biasGelu(float *__restrict out, const float *__restrict x, const float *__restrict bias,
              int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    TANDEM_VECTORISE
    for (int64_t c = 0; c < columns; ++c) {
      float h = x[r * columns + c] + bias[c];
      out[r * columns + c] = h * (TANDEM_ERF(h * 0.70710678f) + 1.0f) * 0.5f;
    }
  }
}

void siluGate(float *__restrict out, const float *__restrict x, const float *__restrict gate,
              int64_t n) {
  TANDEM_VECTORISE
  for (int64_t i = 0; i < n; ++i)
    out[i] = gate[i] / (TANDEM_EXP(-gate[i]) + 1.0f) * x[i];
}

void residualCast(uint16_t *__restrict out, const float *__restrict x,
                  const float *__restrict residual, int64_t n) {
  TANDEM_VECTORISE
  for (int64_t i = 0; i < n; ++i) {
    float sum = x[i] + residual[i];
    uint32_t bits;
    __builtin_memcpy(&bits, &sum, sizeof bits);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    out[i] = static_cast<uint16_t>(sum != sum ? (bits >> 16 | 0x40u) : rounded);
  }
}

} // namespace TANDEM_LOOPS
