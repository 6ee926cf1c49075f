//===- EpilogueCases.cpp - launches behind matmuls, in place ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels have no code for a GPU: a device without expressions can only pass if its matmul
// computes what they say.
//
//===----------------------------------------------------------------------===//

#include "OneRank.h"

#include <algorithm>
#include <cmath>

namespace tandem::test {

namespace {

enum class Function { Sum, Relu, Gelu };
enum class Scales { None, One, Vectors };

struct Layer {
  DType type = DType::F32;
  Shape batch = {};
  int64_t m = 24, k = 32, n = 16;
  Function function = Function::Relu;
  bool bias = true, residual = false, transposeB = false;
  DType factors = DType::F32; ///< with scales; else `type`
  Scales scales = Scales::None;

  DType factorType() const { return scales == Scales::None ? type : factors; }
};

std::vector<Instr> codeOf(const Layer &layer) {
  using E = sp::ExprOp;
  std::vector<Instr> code;
  auto add = [&](E op, uint32_t a = 0, uint32_t b = 0, double imm = 0) {
    code.emplace_back(op, a, b, 0, imm);
    return static_cast<uint32_t>(code.size() - 1);
  };
  auto times = [&](uint32_t x, double factor) {
    return add(E::mul, x, add(E::constant, 0, 0, factor));
  };
  uint32_t inputs = 0, x = add(E::load, inputs++);
  x = times(x, 0.5);
  if (layer.scales != Scales::None)
    for (int i = 0; i < 2; ++i)
      x = add(E::mul, x, add(E::load, inputs++));
  if (layer.bias)
    x = add(E::add, x, add(E::load, inputs++));
  if (layer.residual)
    x = add(E::sub, x, add(E::load, inputs++));
  if (layer.function == Function::Relu)
    x = add(E::max, x, add(E::constant));
  if (layer.function == Function::Gelu) {
    uint32_t cube = times(add(E::mul, add(E::mul, x, x), x), 0.044715);
    uint32_t tanh = add(E::tanh, times(add(E::add, cube, x), std::sqrt(2 / 3.14159265358979)));
    x = add(E::mul, times(x, 0.5), add(E::add, tanh, add(E::constant, 0, 0, 1)));
  }
  add(E::store, x);
  return code;
}

double activated(Function function, double x) {
  switch (function) {
  case Function::Sum:
    return x;
  case Function::Relu:
    return std::max(x, 0.0);
  case Function::Gelu:
    return x / 2 * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
  }
  return 0;
}

/// function(a b / 2 * scales + bias - residual)
Scenario run(const Layer &layer) {
  OneRank one;
  auto shape = [&](int64_t rows, int64_t columns) {
    Shape all = layer.batch;
    all.insert(all.end(), {rows, columns});
    return all;
  };
  Shape outShape = shape(layer.m, layer.n), rowStrides(outShape.size(), 0);
  rowStrides.back() = 1;
  Shape zeros(outShape.size(), 0), byRows = zeros;
  byRows[outShape.size() - 2] = 1;
  bool vectors = layer.scales == Scales::Vectors;
  Tensor rowScales =
             strided(DType::F32, outShape, vectors ? byRows : zeros, 0, vectors ? layer.m : 1),
         columnScales =
             strided(DType::F32, outShape, vectors ? rowStrides : zeros, 0, vectors ? layer.n : 1);
  Tensor a = dense(layer.factorType(), shape(layer.m, layer.k)),
         b = dense(layer.factorType(),
                   layer.transposeB ? Shape{layer.n, layer.k} : Shape{layer.k, layer.n}),
         bias = strided(layer.type, outShape, rowStrides, 0, layer.n),
         residual = dense(layer.type, outShape), out = dense(layer.type, outShape);
  uint32_t left = one.input(a, 1), right = one.input(b, 2), row = one.input(bias, 3),
           added = one.input(residual, 4);
  std::vector<uint32_t> scales;
  if (layer.scales != Scales::None)
    scales = {one.input(rowScales, 5), one.input(columnScales, 6)};
  uint32_t result = one.output(out, false);
  std::vector<uint32_t> operands{result, result};
  operands.insert(operands.end(), scales.begin(), scales.end());
  if (layer.bias)
    operands.push_back(row);
  if (layer.residual)
    operands.push_back(added);
  auto inputs = static_cast<uint32_t>(operands.size() - 1);
  KernelSpec kernel;
  kernel.code = encodeExpression(inputs, 1, codeOf(layer));
  one.rank().kernels.push_back(kernel);
  one.rank().add(sp::CommandKind::matmul, 0, {result, left, right}).flags =
      static_cast<uint8_t>(layer.transposeB * 2);
  one.rank().launch(0, 0, operands);
  forEachIndex(outShape, [&](const Shape &i) {
    size_t columns = i.size() - 1;
    double sum = 0;
    for (int64_t p = 0; p < layer.k; ++p) {
      Shape at = i;
      at[columns] = p;
      sum += a.at(at) * b.at(layer.transposeB ? Shape{i[columns], p} : Shape{p, i[columns]});
    }
    if (layer.scales != Scales::None)
      sum *= rowScales.at(i) * columnScales.at(i);
    double x = sum / 2 + (layer.bias ? bias.at(i) : 0) - (layer.residual ? residual.at(i) : 0);
    out.at(i) = activated(layer.function, x);
  });
  return one.finish(out, 2 * toleranceOf(layer.type));
}

} // namespace

void addEpilogueCases(Cases &cases) {
  // Factors of 8 bits along K, as a GPU's library reads them.
  for (auto [name, scales] : {std::pair("one", Scales::One), {"vectors", Scales::Vectors}})
    for (int flags = 0; flags < 4; ++flags) {
      Layer layer;
      layer.type = DType::BF16;
      layer.factors = DType::F8E4M3FN;
      layer.scales = scales;
      layer.function = Function::Sum;
      layer.transposeB = true;
      layer.bias = flags & 1;
      layer.residual = flags & 2;
      cases.push_back({std::string("Epilogue.fp8-") + name + (layer.bias ? "-bias" : "") +
                           (layer.residual ? "-residual" : "") + ".bf16",
                       {1},
                       0,
                       [=](uint32_t) { return run(layer); },
                       kFp8Epilogues});
    }
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    auto add = [&](const std::string &name, Layer layer) {
      layer.type = type;
      cases.push_back(
          {"Epilogue." + name + "." + nameOf(type), {1}, 0, [=](uint32_t) { return run(layer); }});
    };
    for (Function function : {Function::Sum, Function::Relu, Function::Gelu})
      for (int flags = 0; flags < 4; ++flags) {
        Layer layer;
        layer.function = function;
        layer.bias = flags & 1;
        layer.residual = flags & 2;
        layer.transposeB = function == Function::Gelu;
        std::string name = function == Function::Sum    ? "scale"
                           : function == Function::Relu ? "relu"
                                                        : "gelu";
        add(name + (layer.bias ? "-bias" : "") + (layer.residual ? "-residual" : ""), layer);
      }
    Layer layer;
    layer.residual = true;
    layer.batch = {3};
    add("batch", layer);
    layer.batch = {};
    layer.m = 1;
    add("row", layer);
    layer.m = 129;
    layer.n = 264;
    layer.k = 520;
    layer.function = Function::Gelu;
    add("large", layer);
  }
}

} // namespace tandem::test
