//===- Tensor.cpp - recorded tensors -------------------------------- -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tensor.h"

#include "Kernels.h"

#include <stdexcept>

using namespace fuser;
namespace builder = tandem::builder;

builder::Mesh fuser::meshOf(int64_t ranks) { return {"world", {{"x", ranks}}}; }

builder::Axes fuser::axesOf(int split, size_t rank, int64_t ranks) {
  std::vector<builder::Dim> dims(rank);
  if (split >= 0)
    dims[static_cast<size_t>(split)] = builder::didx("x");
  return meshOf(ranks).axes(std::move(dims));
}

builder::Value fuser::emit(builder::Fusion &f, const Node &node,
                           const std::vector<builder::Value> &operands, int64_t ranks) {
  switch (node.op) {
  case Op::Leaf:
    break;
  case Op::Map: {
    std::vector<builder::Operand> all(operands.begin(), operands.end());
    all.insert(node.isNumberFirst ? all.begin() : all.end(), node.numbers.begin(),
               node.numbers.end());
    return f.map(node.name, all, node.at);
  }
  case Op::Matmul: {
    builder::MatmulOptions options;
    options.transposeA = node.transposeA;
    options.transposeB = node.transposeB;
    return f.matmul(operands[0], operands[1], options, node.at);
  }
  case Op::Sum:
  case Op::Max:
    return f.reduce(node.op == Op::Sum ? builder::Reduction::Sum : builder::Reduction::Max,
                    operands[0], node.dims, /*keepDims=*/true, node.at);
  case Op::Broadcast:
    return f.broadcast(operands[0], node.shape, node.dims, node.at);
  case Op::Permute:
    return f.permute(operands[0], node.dims, node.at);
  case Op::Reshape:
    return f.reshape(operands[0], node.shape, node.at);
  case Op::Rotate: {
    Shape half = node.operands[0]->shape, offset(half.size());
    half.back() /= 2;
    builder::Value a = f.slice(operands[0], offset, half, {}, node.at);
    offset.back() = half.back();
    builder::Value b = f.slice(operands[0], offset, half, {}, node.at);
    (node.isBack ? a : b) = f.map("neg", {node.isBack ? a : b}, node.at);
    return f.concat({b, a}, static_cast<int64_t>(half.size()) - 1, node.at);
  }
  case Op::Attention: {
    if (!node.name.empty()) {
      const Shape &q = node.operands[0]->shape, &v = node.operands[2]->shape;
      builder::CallOptions options; // two products with all keys
      options.flops = static_cast<double>(2 * v[1] * (q[2] + v[2]));
      return f.call(node.name, operands, {builder::DType::F32, {q[0], q[1], v[2]}, {}},
                    kAttentionDims, options, node.at);
    }
    builder::AttentionOptions options;
    options.causal = node.causal;
    return f.attention(operands[0], operands[1], operands[2], options, node.at);
  }
  case Op::Reshard:
    return f.reshard(operands[0], axesOf(node.placement.split, node.shape.size(), ranks), {},
                     node.at);
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Placements
//===----------------------------------------------------------------------===//

/// The dimension of `to` that begins where dimension `split` of `from` begins, or -1: a reshape
/// keeps the outermost part of a split dimension on its rank.
static int throughReshape(const Shape &from, const Shape &to, int split, int64_t ranks) {
  int64_t before = 1, prefix = 1;
  for (int i = 0; i < split; ++i)
    before *= from[static_cast<size_t>(i)];
  for (size_t i = 0; i < to.size(); prefix *= to[i++])
    if (prefix == before && to[i] > 1)
      return to[i] % ranks == 0 ? static_cast<int>(i) : -1;
  return -1;
}

/// Where the result is if the op communicates no more than it must; only of the values that leave a
/// group do others take notice, within a group the compiler decides.
static Placement infer(const Node &node, int64_t ranks) {
  auto of = [&](size_t i) { return node.operands[i]->placement; };
  auto find = [&](const Shape &dims, int dim) {
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i] == dim)
        return static_cast<int>(i);
    return -1;
  };
  switch (node.op) {
  case Op::Leaf:
  case Op::Reshard:
    return node.placement;
  case Op::Map: {
    bool isLinear = node.numbers.empty() && (node.name == "add" || node.name == "sub");
    Placement result{-1, isLinear};
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (result.split < 0)
        result.split = of(i).split;
      result.partial &= of(i).partial;
    }
    return result;
  }
  case Op::Matmul: {
    int rank = static_cast<int>(node.operands[0]->shape.size());
    int a = of(0).split, b = of(1).split;
    int aK = node.transposeA ? rank - 2 : rank - 1, bK = node.transposeB ? rank - 1 : rank - 2;
    if (b >= 0 && b < rank - 2)
      return {b, false};
    if (a >= 0 && a < rank - 2)
      return {a, false};
    if (b >= 0 && b != bK) // the weight stays, and the other factor is gathered
      return {rank - 1, false};
    if (a >= 0 && a != aK && b < 0)
      return {rank - 2, false};
    if (a >= 0 && a != aK) // and b is split in K
      return {rank - 2, false};
    return {-1, a >= 0 && b >= 0};
  }
  case Op::Sum:
  case Op::Max:
    if (of(0).split >= 0 && find(node.dims, of(0).split) >= 0)
      return {-1, node.op == Op::Sum};
    return {of(0).split, of(0).partial && node.op == Op::Sum};
  case Op::Broadcast: {
    bool isKept = of(0).split >= 0;
    return {isKept ? static_cast<int>(node.dims[static_cast<size_t>(of(0).split)]) : -1, false};
  }
  case Op::Permute:
    return {of(0).split < 0 ? -1 : find(node.dims, of(0).split), of(0).partial};
  case Op::Reshape:
    if (of(0).split < 0)
      return of(0);
    return {throughReshape(node.operands[0]->shape, node.shape, of(0).split, ranks), false};
  case Op::Attention:
  case Op::Rotate:
    return of(0);
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Recording
//===----------------------------------------------------------------------===//

Tensor Recorder::record(Node node) {
  // The builder knows what fits, and the shape of the result.
  builder::Fusion fusion("recorded");
  std::vector<builder::Value> operands;
  for (size_t i = 0; i < node.operands.size(); ++i)
    operands.push_back(fusion.input("operand " + std::to_string(i), builder::DType::F32,
                                    node.operands[i]->shape, std::nullopt, node.at));
  builder::Value value = emit(fusion, node, operands, ranks);
  if (!fusion.ok())
    throw std::invalid_argument(fusion.errorText());
  node.shape = fusion.shape(value);
  node.placement = infer(node, ranks);
  node.id = recorded++;
  return std::make_shared<const Node>(std::move(node));
}

static Node makeNode(Op op, std::vector<Tensor> operands, Location at) {
  Node node;
  node.op = op;
  node.operands = std::move(operands);
  node.at = at;
  return node;
}

Tensor Recorder::map(const char *name, std::vector<Tensor> operands, Location at) {
  Node node = makeNode(Op::Map, std::move(operands), at);
  node.name = name;
  return record(std::move(node));
}

Tensor Recorder::map(const char *name, Tensor operand, double number, Location at) {
  Node node = makeNode(Op::Map, {std::move(operand)}, at);
  node.name = name;
  node.numbers = {number};
  return record(std::move(node));
}

Tensor Recorder::map(const char *name, double number, Tensor operand, Location at) {
  Node node = makeNode(Op::Map, {std::move(operand)}, at);
  node.name = name;
  node.numbers = {number};
  node.isNumberFirst = true;
  return record(std::move(node));
}

Tensor Recorder::matmul(Tensor a, Tensor b, bool transposeA, bool transposeB, Location at) {
  Node node = makeNode(Op::Matmul, {std::move(a), std::move(b)}, at);
  node.transposeA = transposeA;
  node.transposeB = transposeB;
  return record(std::move(node));
}

Tensor Recorder::sum(Tensor x, Shape dims, Location at) {
  Node node = makeNode(Op::Sum, {std::move(x)}, at);
  node.dims = std::move(dims);
  return record(std::move(node));
}

Tensor Recorder::max(Tensor x, Shape dims, Location at) {
  Node node = makeNode(Op::Max, {std::move(x)}, at);
  node.dims = std::move(dims);
  return record(std::move(node));
}

Tensor Recorder::broadcast(Tensor x, Shape shape, Shape dims, Location at) {
  Node node = makeNode(Op::Broadcast, {std::move(x)}, at);
  node.shape = std::move(shape);
  node.dims = std::move(dims);
  return record(std::move(node));
}

Tensor Recorder::permute(Tensor x, Shape permutation, Location at) {
  Node node = makeNode(Op::Permute, {std::move(x)}, at);
  node.dims = std::move(permutation);
  return record(std::move(node));
}

Tensor Recorder::reshape(Tensor x, Shape shape, Location at) {
  Node node = makeNode(Op::Reshape, {std::move(x)}, at);
  node.shape = std::move(shape);
  return record(std::move(node));
}

Tensor Recorder::rotate(Tensor x, bool isBack, Location at) {
  Node node = makeNode(Op::Rotate, {std::move(x)}, at);
  node.isBack = isBack;
  return record(std::move(node));
}

Tensor Recorder::attention(Tensor q, Tensor k, Tensor v, bool causal, Location at) {
  Node node = makeNode(Op::Attention, {std::move(q), std::move(k), std::move(v)}, at);
  node.causal = causal;
  if (causal)
    node.name = attentionKernel;
  return record(std::move(node));
}

Tensor Recorder::shard(Tensor x, int split, Location at) {
  if (x->placement.split == split && !x->placement.partial)
    return x;
  Node node = makeNode(Op::Reshard, {x}, at);
  node.shape = x->shape;
  node.placement.split = split;
  return record(std::move(node));
}
