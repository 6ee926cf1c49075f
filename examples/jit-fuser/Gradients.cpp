//===- Gradients.cpp - reverse mode over recorded ops ---------------- -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tensor.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

using namespace fuser;

namespace {
/// What an op passes on: the gradient of each operand, given that of its result.
class Reverse {
public:
  Reverse(Recorder &r, const Tensor &y, Tensor g) : r(r), y(y), g(std::move(g)) {}

  std::vector<Tensor> operands() {
    switch (y->op) {
    case Op::Leaf:
      return {};
    case Op::Map:
      return ofMap();
    case Op::Matmul:
      return ofMatmul();
    case Op::Sum:
      return {r.broadcast(g, x(0)->shape, allDims(x(0)), y->at)};
    case Op::Max:
      break; // only in the gradient of attention, which has none itself
    case Op::Broadcast:
      return {ofBroadcast()};
    case Op::Permute: {
      Shape inverse(y->dims.size());
      for (size_t i = 0; i < inverse.size(); ++i)
        inverse[static_cast<size_t>(y->dims[i])] = static_cast<int64_t>(i);
      return {r.permute(g, inverse, y->at)};
    }
    case Op::Reshape:
      return {r.reshape(g, x(0)->shape, y->at)};
    case Op::Rotate:
      return {r.rotate(g, !y->isBack, y->at)};
    case Op::Attention:
      return ofAttention();
    case Op::Reshard:
      return {g}; // the caller places it like the operand
    }
    throw std::invalid_argument("expected an op with a gradient");
  }

private:
  const Tensor &x(size_t i) const { return y->operands[i]; }
  static Shape allDims(const Tensor &of) {
    Shape dims(of->shape.size());
    for (size_t i = 0; i < dims.size(); ++i)
      dims[i] = static_cast<int64_t>(i);
    return dims;
  }
  Tensor mul(const Tensor &a, const Tensor &b) { return r.map("mul", {a, b}, y->at); }

  std::vector<Tensor> ofMap() {
    const std::string &op = y->name;
    bool hasNumber = !y->numbers.empty();
    double number = hasNumber ? y->numbers[0] : 0;
    if (op == "add")
      return hasNumber ? std::vector<Tensor>{g} : std::vector<Tensor>{g, g};
    if (op == "sub" && hasNumber)
      return {y->isNumberFirst ? r.map("neg", {g}, y->at) : g};
    if (op == "sub")
      return {g, r.map("neg", {g}, y->at)};
    if (op == "mul" && hasNumber)
      return {r.map("mul", g, number, y->at)};
    if (op == "mul")
      return {mul(g, x(1)), mul(g, x(0))};
    if (op == "neg")
      return {r.map("neg", {g}, y->at)};
    if (op == "exp")
      return {mul(g, y)};
    if (op == "rsqrt") // -1/2 x^(-3/2)
      return {mul(g, r.map("mul", mul(y, mul(y, y)), -0.5, y->at))};
    if (op == "div" && hasNumber && !y->isNumberFirst)
      return {r.map("div", g, number, y->at)};
    const Tensor &divisor = x(y->operands.size() - 1);
    if (op == "div") {
      Tensor scaled = r.map("div", {g, divisor}, y->at);
      Tensor below = r.map("neg", {mul(scaled, y)}, y->at);
      return hasNumber ? std::vector<Tensor>{below} : std::vector<Tensor>{scaled, below};
    }
    throw std::invalid_argument("expected an elementwise op with a gradient, found " + op);
  }

  std::vector<Tensor> ofMatmul() {
    const Tensor &a = x(0), &b = x(1);
    bool ta = y->transposeA, tb = y->transposeB;
    // y = a b: da = g b^T, db = a^T g, where a and b may be read transposed.
    Tensor da = ta ? r.matmul(b, g, tb, true, y->at) : r.matmul(g, b, false, !tb, y->at);
    Tensor db = tb ? r.matmul(g, a, true, ta, y->at) : r.matmul(a, g, !ta, false, y->at);
    return {da, db};
  }

  Tensor ofBroadcast() {
    Shape repeated, kept(y->dims);
    for (size_t d = 0; d < y->shape.size(); ++d) {
      auto at = std::find(kept.begin(), kept.end(), static_cast<int64_t>(d));
      bool isNew = at == kept.end();
      if (isNew || x(0)->shape[static_cast<size_t>(at - kept.begin())] != y->shape[d])
        repeated.push_back(static_cast<int64_t>(d));
    }
    return r.reshape(r.sum(g, repeated, y->at), x(0)->shape, y->at);
  }

  /// The scores are computed again, as the op keeps none of them.
  std::vector<Tensor> ofAttention() {
    const Tensor &q = x(0), &k = x(1), &v = x(2);
    Location at = y->at;
    double scale = 1 / std::sqrt(static_cast<double>(q->shape[2]));
    Tensor scores = r.map("mul", r.matmul(q, k, false, true, at), scale, at);
    auto mask = [](int64_t query, int64_t key, int64_t) { return key > query ? -1e30 : 0.0; };
    int64_t tokens = q->shape[1];
    if (y->causal)
      scores = r.map(
          "add",
          {scores, r.broadcast(r.table("mask", tokens, tokens, mask), scores->shape, {1, 2}, at)},
          at);
    auto overKeys = [&](const Tensor &row) {
      return r.broadcast(row, scores->shape, {0, 1, 2}, at);
    };
    Tensor weights =
        r.map("exp", {r.map("sub", {scores, overKeys(r.max(scores, {2}, at))}, at)}, at);
    Tensor p = r.map("div", {weights, overKeys(r.sum(weights, {2}, at))}, at);
    Tensor dp = r.matmul(g, v, false, true, at);
    Tensor mean = overKeys(r.sum(r.map("mul", {dp, p}, at), {2}, at));
    Tensor ds = r.map("mul", r.map("mul", {p, r.map("sub", {dp, mean}, at)}, at), scale, at);
    return {r.matmul(ds, k, false, false, at), r.matmul(ds, q, true, false, at),
            r.matmul(p, g, true, false, at)};
  }

  Recorder &r;
  Tensor y, g;
};
} // namespace

std::vector<Tensor> fuser::gradients(Recorder &r, const Tensor &loss,
                                     const std::vector<Tensor> &of) {
  // Recorded after its operands, a tensor is visited before them.
  std::map<uint64_t, Tensor> pending{{loss->id, loss}};
  std::map<uint64_t, Tensor> found;
  // A tensor of ones of the shape of the loss.
  found[loss->id] = r.map("add", r.map("mul", loss, 0.0), 1.0);
  while (!pending.empty()) {
    Tensor y = std::prev(pending.end())->second;
    pending.erase(y->id);
    if (y->op == Op::Leaf)
      continue;
    // All uses of y have added to its gradient. A partial sum is reduced once, to where y is.
    Tensor g = r.shard(found[y->id], y->placement.split, y->at);
    found[y->id] = g;
    std::vector<Tensor> passed = Reverse(r, y, g).operands();
    for (size_t i = 0; i < passed.size(); ++i) {
      const Tensor &x = y->operands[i];
      Tensor &sum = found[x->id];
      sum = sum ? r.map("add", {sum, passed[i]}, y->at) : passed[i];
      pending[x->id] = x;
    }
  }
  std::vector<Tensor> result;
  for (const Tensor &x : of) {
    auto at = found.find(x->id);
    if (at == found.end())
      throw std::invalid_argument("expected tensors that the loss depends on");
    result.push_back(r.shard(at->second, x->placement.split, x->at));
  }
  return result;
}
