//===- Llama.cpp - a Llama block, recorded -------------------------- -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Llama.h"

#include <cmath>

using namespace fuser;

std::vector<Parameter> fuser::parametersOf(const Config &config) {
  int64_t h = config.hidden, f = config.feed;
  return {{"norm1", {h}, -1},  {"q", {h, h}, 1},  {"k", {h, h}, 1},
          {"v", {h, h}, 1},    {"o", {h, h}, 0},  {"norm2", {h}, -1},
          {"gate", {h, f}, 1}, {"up", {h, f}, 1}, {"down", {f, h}, 0}};
}

static Tensor rmsNorm(Recorder &r, const Tensor &x, const Tensor &weight) {
  Tensor mean =
      r.map("mul", r.sum(r.map("mul", {x, x}), {1}), 1 / static_cast<double>(x->shape[1]));
  Tensor scale = r.map("rsqrt", {r.map("add", mean, 1e-5)});
  Tensor normed = r.map("mul", {x, r.broadcast(scale, x->shape, {0, 1})});
  return r.map("mul", {normed, r.broadcast(weight, x->shape, {1})});
}

double fuser::rotaryAngle(int64_t token, int64_t column, int64_t columns) {
  double frequency = static_cast<double>(column % (columns / 2)) / static_cast<double>(columns / 2);
  return static_cast<double>(token) * std::pow(10000.0, -frequency);
}

/// Of [heads, tokens, depth].
static Tensor rotary(Recorder &r, const Tensor &x) {
  auto cosine = [](int64_t t, int64_t d, int64_t depth) {
    return std::cos(rotaryAngle(t, d, depth));
  };
  auto sine = [](int64_t t, int64_t d, int64_t depth) {
    return std::sin(rotaryAngle(t, d, depth));
  };
  auto times = [&](const Tensor &y, const Tensor &table) {
    return r.map("mul", {y, r.broadcast(table, x->shape, {1, 2})});
  };
  return r.map("add", {times(x, r.table("cos", x->shape[1], x->shape[2], cosine)),
                       times(r.rotate(x), r.table("sin", x->shape[1], x->shape[2], sine))});
}

static Tensor block(Recorder &r, const Config &config, Tensor x, const Tensor *w) {
  int64_t t = config.tokens, h = config.hidden, heads = config.heads;
  Tensor normed = rmsNorm(r, x, w[0]);
  auto project = [&](const Tensor &weight) { // [heads, tokens, depth]
    return r.permute(r.reshape(r.matmul(normed, weight), {t, heads, h / heads}), {1, 0, 2});
  };
  Tensor mixed = r.attention(rotary(r, project(w[1])), rotary(r, project(w[2])), project(w[3]),
                             /*causal=*/true);
  Tensor out = r.matmul(r.reshape(r.permute(mixed, {1, 0, 2}), {t, h}), w[4]);
  x = r.map("add", {x, r.shard(out, 0)});

  normed = rmsNorm(r, x, w[5]);
  Tensor gate = r.matmul(normed, w[6]);
  Tensor silu = r.map("div", {gate, r.map("add", r.map("exp", {r.map("neg", {gate})}), 1)});
  Tensor down = r.matmul(r.map("mul", {silu, r.matmul(normed, w[7])}), w[8]);
  return r.map("add", {x, r.shard(down, 0)});
}

Tensor fuser::forward(Recorder &r, const Config &config, Tensor x,
                      const std::vector<Tensor> &weights) {
  size_t each = parametersOf(config).size();
  for (size_t i = 0; i < weights.size(); i += each)
    x = block(r, config, std::move(x), &weights[i]);
  return x;
}

Tensor fuser::lossOf(Recorder &r, const Tensor &y) {
  return r.map("mul", r.sum(r.map("mul", {y, y}), {0, 1}), 0.5 / static_cast<double>(y->shape[0]));
}
