//===- Llama.h - a Llama block, recorded ---------------------------- -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// With tensor and sequence parallelism: between blocks each rank has some of the tokens; inside of
// attention and MLP, some of the heads and of the hidden features.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_EXAMPLES_JITFUSER_LLAMA_H
#define TANDEM_EXAMPLES_JITFUSER_LLAMA_H

#include "Tensor.h"

namespace fuser {

struct Config {
  int64_t tokens = 16, hidden = 32, heads = 8, feed = 48, blocks = 2;
};

/// A parameter, and how tensor parallelism splits it.
struct Parameter {
  const char *name;
  Shape shape;
  int split;
};

/// The parameters of one block: norm, q, k, v, o, norm, gate, up, down.
std::vector<Parameter> parametersOf(const Config &config);

/// The output of all blocks for x [tokens, hidden], split by tokens; `weights` has the parameters
/// of the first block, then of the next.
Tensor forward(Recorder &recorder, const Config &config, Tensor x,
               const std::vector<Tensor> &weights);
/// sum(y * y) / (2 tokens): [1, 1].
Tensor lossOf(Recorder &recorder, const Tensor &y);

/// The angle by which rotary embedding turns features `column` and `column + columns / 2` of a
/// head.
double rotaryAngle(int64_t token, int64_t column, int64_t columns);

/// The same in plain loops of double, on whole tensors.
std::vector<double> referenceForward(const Config &config, const std::vector<double> &x,
                                     const std::vector<std::vector<double>> &weights);
double referenceLoss(const Config &config, const std::vector<double> &y);

} // namespace fuser

#endif // TANDEM_EXAMPLES_JITFUSER_LLAMA_H
