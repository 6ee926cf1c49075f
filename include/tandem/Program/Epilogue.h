//===- Epilogue.h - what follows a matmul in place --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A launch right after a matmul that overwrites the product in place may run inside the matmul
// (docs/kernels.md, "Epilogues of matmuls"). This is the one place that recognises it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_EPILOGUE_H
#define TANDEM_PROGRAM_EPILOGUE_H

#include "tandem/Program/Types.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tandem {
class Program;
}
namespace tandem::sp {
struct Expression;
} // namespace tandem::sp

namespace tandem::program {

/// Gelu is the form with tanh: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))). Silu is
/// x / (1 + exp(-x)).
enum class Activation : uint8_t { None, Relu, Gelu, Silu };

/// activation(alpha * factors * product + the sum of weights[i] * input i). Of inputs that are the
/// product itself the weight is 0.
struct EpilogueFunction {
  Activation activation = Activation::None;
  double alpha = 1;
  std::vector<double> weights;
  std::vector<uint32_t> factors; ///< inputs that the product is multiplied by, ascending
};

/// The function that an expression of one output computes, if it is one of these. `isProduct`: per
/// input. `type`: of the output; an activation may differ from its formula by as much as constants
/// of this type do.
std::optional<EpilogueFunction> findEpilogueFunction(const sp::Expression &expression,
                                                     const std::vector<bool> &isProduct,
                                                     DType type);

/// out = activation(alpha * scales * product + bias + beta * residual) of a matmul and its launch.
struct MatmulEpilogue {
  Activation activation = Activation::None;
  float alpha = 1, beta = 0;
  /// Views, or none: of one row, repeated by strides of 0; of out's layout.
  uint32_t bias = ~uint32_t(0);
  uint32_t residual = ~uint32_t(0);
  /// Views of f32, or none: a scale per row and one per column of the result, repeated by strides
  /// of 0. Either may be a single number. Only of products of 8-bit factors.
  uint32_t rowScale = ~uint32_t(0), columnScale = ~uint32_t(0);
};

/// The epilogue of a matmul or gated matmul, command `matmul` of a loaded program, if it has one.
/// The launch is the command after it, or after its parts. None in deterministic programs: their
/// products are rounded before.
std::optional<MatmulEpilogue> findEpilogue(const Program &program, uint32_t matmul);

} // namespace tandem::program

#endif // TANDEM_PROGRAM_EPILOGUE_H
