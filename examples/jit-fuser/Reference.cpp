//===- Reference.cpp - a Llama block in plain loops ----------------- -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Llama.h"

#include <algorithm>
#include <cmath>

using namespace fuser;

using Matrix = std::vector<double>; // row-major

static Matrix multiply(const Matrix &a, const Matrix &b, int64_t rows, int64_t inner,
                       int64_t columns) {
  Matrix y(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < inner; ++k)
      for (int64_t j = 0; j < columns; ++j)
        y[static_cast<size_t>(i * columns + j)] +=
            a[static_cast<size_t>(i * inner + k)] * b[static_cast<size_t>(k * columns + j)];
  return y;
}

static Matrix rmsNorm(const Matrix &x, const Matrix &weight, int64_t rows) {
  Matrix y(x.size());
  size_t h = weight.size();
  for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
    double sum = 0;
    for (size_t j = 0; j < h; ++j)
      sum += x[i * h + j] * x[i * h + j];
    for (size_t j = 0; j < h; ++j)
      y[i * h + j] = x[i * h + j] / std::sqrt(sum / static_cast<double>(h) + 1e-5) * weight[j];
  }
  return y;
}

/// Rotary embedding of [tokens, heads * depth].
static Matrix rotary(Matrix x, const Config &config) {
  int64_t h = config.hidden, depth = h / config.heads, half = depth / 2;
  for (int64_t t = 0; t < config.tokens; ++t)
    for (int64_t first = 0; first < h; first += depth)
      for (int64_t d = 0; d < half; ++d) {
        double &a = x[static_cast<size_t>(t * h + first + d)];
        double &b = x[static_cast<size_t>(t * h + first + d + half)];
        double angle = rotaryAngle(t, d, depth), old = a;
        a = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + old * std::sin(angle);
      }
  return x;
}

/// Causal, of all heads: q, k, v and the result are [tokens, heads * depth].
static Matrix attention(const Matrix &q, const Matrix &k, const Matrix &v, const Config &config) {
  auto t = static_cast<size_t>(config.tokens), h = static_cast<size_t>(config.hidden);
  size_t depth = h / static_cast<size_t>(config.heads);
  Matrix y(q.size());
  for (size_t first = 0; first < h; first += depth)
    for (size_t i = 0; i < t; ++i) {
      Matrix scores(i + 1);
      for (size_t j = 0; j <= i; ++j)
        for (size_t d = first; d < first + depth; ++d)
          scores[j] += q[i * h + d] * k[j * h + d] / std::sqrt(static_cast<double>(depth));
      double most = *std::max_element(scores.begin(), scores.end()), sum = 0;
      for (double &score : scores)
        sum += score = std::exp(score - most);
      for (size_t j = 0; j <= i; ++j)
        for (size_t d = first; d < first + depth; ++d)
          y[i * h + d] += scores[j] / sum * v[j * h + d];
    }
  return y;
}

std::vector<double> fuser::referenceForward(const Config &config, const std::vector<double> &input,
                                            const std::vector<std::vector<double>> &weights) {
  int64_t t = config.tokens, h = config.hidden, f = config.feed;
  Matrix x = input;
  for (size_t i = 0; i < weights.size(); i += parametersOf(config).size()) {
    const Matrix *w = &weights[i];
    Matrix normed = rmsNorm(x, w[0], t);
    Matrix mixed = attention(rotary(multiply(normed, w[1], t, h, h), config),
                             rotary(multiply(normed, w[2], t, h, h), config),
                             multiply(normed, w[3], t, h, h), config);
    Matrix out = multiply(mixed, w[4], t, h, h);
    for (size_t e = 0; e < x.size(); ++e)
      x[e] += out[e];
    normed = rmsNorm(x, w[5], t);
    Matrix gate = multiply(normed, w[6], t, h, f), up = multiply(normed, w[7], t, h, f);
    for (size_t e = 0; e < gate.size(); ++e)
      gate[e] *= up[e] / (1 + std::exp(-gate[e]));
    out = multiply(gate, w[8], t, f, h);
    for (size_t e = 0; e < x.size(); ++e)
      x[e] += out[e];
  }
  return x;
}

double fuser::referenceLoss(const Config &config, const std::vector<double> &y) {
  double sum = 0;
  for (double element : y)
    sum += element * element;
  return sum / (2 * static_cast<double>(config.tokens));
}
