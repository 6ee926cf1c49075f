//===- EpilogueTest.cpp - epilogues of matmuls by the library ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

enum class Function { Bias, Relu, Gelu };

/// A layer without PTX: the stand-in cannot run its launch, so its results are right only if the
/// library computes all of it.
struct Layer {
  Function function = Function::Relu;
  bool bias = true, residual = false;
  float beta = 1; ///< of the residual
  int64_t batch = 1, m = 8, k = 4, n = 8;
};

float expected(const Layer &layer, float x) {
  switch (layer.function) {
  case Function::Bias:
    return x;
  case Function::Relu:
    return std::max(x, 0.0f);
  case Function::Gelu:
    return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
  }
  return 0;
}

KernelSpec kernelOf(const Layer &layer) {
  using E = sp::ExprOp;
  std::vector<Instr> code;
  auto add = [&](E op, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0, double imm = 0) {
    code.emplace_back(op, a, b, c, imm);
    return static_cast<uint32_t>(code.size() - 1);
  };
  uint32_t inputs = 0, x = add(E::load, inputs++);
  if (layer.bias)
    x = add(E::add, x, add(E::load, inputs++));
  if (layer.residual)
    x = add(E::fma, add(E::load, inputs++), add(E::constant, 0, 0, 0, layer.beta), x);
  if (layer.function == Function::Relu)
    x = add(E::max, x, add(E::constant));
  if (layer.function == Function::Gelu) {
    uint32_t cube = add(E::mul, add(E::mul, x, x), x);
    uint32_t sum = add(E::fma, add(E::constant, 0, 0, 0, 0.044715), cube, x);
    uint32_t tanh = add(E::tanh, add(E::mul, sum, add(E::constant, 0, 0, 0, 0.7978845608)));
    uint32_t weight = add(E::add, tanh, add(E::constant, 0, 0, 0, 1));
    x = add(E::mul, add(E::mul, x, add(E::constant, 0, 0, 0, 0.5)), weight);
  }
  add(E::store, x);
  KernelSpec kernel;
  kernel.code = encodeExpression(inputs, 1, code);
  kernel.operandTypes.assign(inputs + 1, static_cast<uint8_t>(sp::DType::f32));
  kernel.outputs = 1;
  return kernel;
}

/// Values that differ from one another, of either sign.
std::vector<float> numbers(int64_t count, int seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((static_cast<int>(i) * 7 + seed) % 11 - 5) / 8;
  return values;
}

/// Runs the layer in f32, and returns what went wrong.
Status run(const Layer &layer, bool graphs = true) {
  ProgramSpec spec(1);
  RankSpec &rank = spec.ranks[0];
  int64_t sizes[] = {layer.batch * layer.m * layer.k, layer.k * layer.n, layer.n,
                     layer.batch * layer.m * layer.n, layer.batch * layer.m * layer.n};
  Shape shapes[] = {{layer.batch, layer.m, layer.k},
                    {layer.k, layer.n},
                    {layer.n},
                    {layer.batch, layer.m, layer.n},
                    {layer.batch, layer.m, layer.n}};
  const char *names[] = {"x", "w", "b", "r", "y"};
  uint32_t views[5];
  for (uint32_t i = 0; i < 5; ++i) {
    uint32_t argument = spec.stacked(names[i], i == 4, DType::F32, shapes[i]);
    uint32_t buffer = rank.argument(argument, static_cast<uint64_t>(4 * sizes[i]));
    views[i] = i == 2 ? rank.view(buffer, DType::F32, shapes[4], {0, 0, 1}, 0)
                      : rank.view(buffer, DType::F32, shapes[i]);
  }
  rank.kernels.push_back(kernelOf(layer));
  rank.add(sp::CommandKind::matmul, 0, {views[4], views[0], views[1]});
  std::vector<uint32_t> operands{views[4], views[4]};
  if (layer.bias)
    operands.push_back(views[2]);
  if (layer.residual)
    operands.push_back(views[3]);
  rank.launch(0, 0, operands);
  std::vector<float> x = numbers(sizes[0], 1), w = numbers(sizes[1], 2), b = numbers(sizes[2], 3),
                     r = numbers(sizes[3], 4), y(static_cast<size_t>(sizes[4]));
  auto part = [&](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
    const std::vector<float> *inputs[] = {&x, &w, &b, &r};
    for (size_t i = 0; i < 4; ++i)
      TANDEM_RETURN_IF_ERROR(context.device().upload(memory[i]->data(), inputs[i]->data(),
                                                     inputs[i]->size() * sizeof(float)));
    for (int again = 0; again < 2; ++again)
      TANDEM_RETURN_IF_ERROR(instance.run());
    return context.device().download(y.data(), memory[4]->data(), y.size() * sizeof(float));
  };
  RankOptions with;
  with.graphs = graphs;
  Status status = runRanks(spec, "local", part, with)[0];
  TANDEM_RETURN_IF_ERROR(status);
  for (int64_t i = 0; i < layer.batch * layer.m; ++i)
    for (int64_t j = 0; j < layer.n; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < layer.k; ++p)
        sum += x[static_cast<size_t>(i * layer.k + p)] * w[static_cast<size_t>(p * layer.n + j)];
      auto at = static_cast<size_t>(i * layer.n + j);
      if (layer.bias)
        sum += b[static_cast<size_t>(j)];
      if (layer.residual)
        sum += layer.beta * r[at];
      if (std::abs(y[at] - expected(layer, sum)) > 1e-5f)
        return Status(Code::Internal, "a wrong result, " + std::to_string(y[at]) + " for " +
                                          std::to_string(expected(layer, sum)));
    }
  return status;
}

void expectRuns(const Layer &layer) {
  for (bool graphs : {true, false}) {
    Status status = run(layer, graphs);
    EXPECT_TRUE(status.ok()) << status.message() << (graphs ? " in a graph" : "");
  }
}

TEST(GpuEpilogue, TheLibraryComputesIt) {
  for (Function function : {Function::Bias, Function::Relu, Function::Gelu})
    for (bool bias : {false, true})
      for (bool residual : {false, true}) {
        SCOPED_TRACE(testing::Message() << "function " << static_cast<int>(function) << ", bias "
                                        << bias << ", residual " << residual);
        if (function != Function::Bias || bias || residual)
          expectRuns({function, bias, residual});
      }
}

TEST(GpuEpilogue, AResidualIsScaled) { expectRuns({Function::Relu, true, true, -0.5f}); }

TEST(GpuEpilogue, BatchesHaveOneEach) { expectRuns({Function::Gelu, true, true, 1, 3, 5, 4, 7}); }

TEST(GpuEpilogue, RefusedByTheLibraryOrNotAskedFor) {
  Layer layer;
  auto expectAlone = [&] {
    // Only now does the launch need code for this GPU.
    EXPECT_EQ(run(layer).code(), Code::Unsupported);
  };
  {
    Knob refused("epilogues-refused", 1);
    expectAlone();
    EXPECT_NE(takeLog().find("the launch behind it runs alone"), std::string::npos);
  }
  {
    Variable off("TANDEM_EPILOGUES", "0");
    expectAlone();
  }
  expectRuns(layer);
}

} // namespace
