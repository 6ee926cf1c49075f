//===- ElementwiseBenchmark.cpp - the interpreter against compiled loops ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ProgramSpec.h"
#include "tandem/Runtime/Device.h"

#include <benchmark/benchmark.h>
#include <chrono>
#include <vector>

#define TANDEM_LOOPS(name)                                                                         \
  namespace name {                                                                                 \
  void biasGelu(float *out, const float *x, const float *bias, int64_t rows, int64_t columns);     \
  void siluGate(float *out, const float *x, const float *gate, int64_t n);                         \
  void residualCast(uint16_t *out, const float *x, const float *residual, int64_t n);              \
  }
TANDEM_LOOPS(plain)
TANDEM_LOOPS(vectorised)

using namespace tandem;

namespace {

using Op = sp::ExprOp;
using Clock = std::chrono::steady_clock;

/// 1 MiB of f32 an operand.
constexpr int64_t kRows = 256, kColumns = 1024, kElements = kRows * kColumns;

bool haveAvx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

struct Case {
  std::vector<test::Instr> code;
  Layout out, first, second;
  void (*plain)(void *, const float *, const float *);
  void (*vectorised)(void *, const float *, const float *);
};

Layout matrix(DType type, int64_t rowStride) {
  Layout layout = Layout::dense(type, {kRows, kColumns});
  layout.strides[0] = rowStride;
  return layout;
}

const Layout kMatrix = matrix(DType::F32, kColumns), kRow = matrix(DType::F32, 0);

Case biasGelu() {
  return {{{Op::load, 0, 0, 0, 0},
           {Op::load, 1, 0, 0, 0},
           {Op::add, 0, 1, 0, 0},
           {Op::constant, 0, 0, 0, 0.70710678f},
           {Op::mul, 2, 3, 0, 0},
           {Op::erf, 4, 0, 0, 0},
           {Op::constant, 0, 0, 0, 1.0f},
           {Op::add, 5, 6, 0, 0},
           {Op::mul, 2, 7, 0, 0},
           {Op::constant, 0, 0, 0, 0.5f},
           {Op::mul, 8, 9, 0, 0},
           {Op::store, 10, 0, 0, 0}},
          kMatrix,
          kMatrix,
          kRow,
          [](void *o, const float *a, const float *b) {
            plain::biasGelu(static_cast<float *>(o), a, b, kRows, kColumns);
          },
          [](void *o, const float *a, const float *b) {
            vectorised::biasGelu(static_cast<float *>(o), a, b, kRows, kColumns);
          }};
}

Case siluGate() {
  return {{{Op::load, 0, 0, 0, 0},
           {Op::load, 1, 0, 0, 0},
           {Op::neg, 1, 0, 0, 0},
           {Op::exp, 2, 0, 0, 0},
           {Op::constant, 0, 0, 0, 1.0f},
           {Op::add, 3, 4, 0, 0},
           {Op::div, 1, 5, 0, 0},
           {Op::mul, 6, 0, 0, 0},
           {Op::store, 7, 0, 0, 0}},
          kMatrix,
          kMatrix,
          kMatrix,
          [](void *o, const float *a, const float *b) {
            plain::siluGate(static_cast<float *>(o), a, b, kElements);
          },
          [](void *o, const float *a, const float *b) {
            vectorised::siluGate(static_cast<float *>(o), a, b, kElements);
          }};
}

Case residualCast() {
  return {{{Op::load, 0, 0, 0, 0},
           {Op::load, 1, 0, 0, 0},
           {Op::add, 0, 1, 0, 0},
           {Op::store, 2, 0, 0, 0}},
          matrix(DType::BF16, kColumns),
          kMatrix,
          kMatrix,
          [](void *o, const float *a, const float *b) {
            plain::residualCast(static_cast<uint16_t *>(o), a, b, kElements);
          },
          [](void *o, const float *a, const float *b) {
            vectorised::residualCast(static_cast<uint16_t *>(o), a, b, kElements);
          }};
}

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Interpreter and loops take turns, so that other work on the machine hits all alike; the least
/// time of each counts.
void elementwise(benchmark::State &state, Case (*make)()) {
  Case c = make();
  auto bytes = test::encodeExpression(2, 1, c.code);
  auto device = createCpuDevice();
  LaunchDesc desc;
  desc.code = bytes.data();
  desc.codeSize = bytes.size();
  desc.operands = {{0, c.out}, {1, c.first}, {2, c.second}};
  auto operation = device->prepareLaunch(desc);
  if (!operation.ok()) {
    state.SkipWithError("the kernel was refused");
    return;
  }
  auto &host = dynamic_cast<HostOperation &>(**operation);
  std::vector<float> out(kElements), first(kElements), second(kElements);
  for (int64_t i = 0; i < kElements; ++i) {
    first[i] = static_cast<float>(i % 1013) * 0.006f - 3;
    second[i] = static_cast<float>(i % 877) * 0.007f - 3;
  }
  void *pointers[] = {out.data(), first.data(), second.data()};
  Frame frame;
  frame.pointers = pointers;
  double interpreted = 1e9, plain = 1e9, vectorised = 1e9;
  auto least = [](double &best, auto &&run) {
    auto start = Clock::now();
    run();
    double seconds = secondsSince(start);
    best = std::min(best, seconds);
    benchmark::ClobberMemory();
    return seconds;
  };
  for (auto _ : state) {
    double seconds = least(interpreted, [&] { host.execute(frame).ignore(); });
    state.SetIterationTime(seconds);
    least(plain, [&] { c.plain(out.data(), first.data(), second.data()); });
    if (haveAvx512())
      least(vectorised, [&] { c.vectorised(out.data(), first.data(), second.data()); });
  }
  state.counters["interpreted_us"] = interpreted * 1e6;
  state.counters["plain_us"] = plain * 1e6;
  state.counters["ratio"] = interpreted / plain;
  if (haveAvx512()) {
    state.counters["vectorised_us"] = vectorised * 1e6;
    state.counters["ratio_vectorised"] = interpreted / vectorised;
  }
}

BENCHMARK_CAPTURE(elementwise, biasGelu, biasGelu)->UseManualTime();
BENCHMARK_CAPTURE(elementwise, siluGate, siluGate)->UseManualTime();
BENCHMARK_CAPTURE(elementwise, residualCast, residualCast)->UseManualTime();

} // namespace
