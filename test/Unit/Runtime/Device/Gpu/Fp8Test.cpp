//===- Fp8Test.cpp - products of 8-bit floats ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "tandem/Runtime/HostOps.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

struct Factors {
  DType a = DType::F8E4M3FN, b = DType::F8E4M3FN;
  int64_t m = 16, k = 32, n = 16;
  bool transposeA = false, transposeB = true;
  int64_t batch = 1;
};

/// out, of bf16, against sums on the host; and how many plans for 8 bits the library gave.
int64_t multiply(const Factors &f) {
  ProgramSpec spec(1);
  std::vector<int64_t> shapeA = f.transposeA ? std::vector<int64_t>{f.batch, f.k, f.m}
                                             : std::vector<int64_t>{f.batch, f.m, f.k};
  std::vector<int64_t> shapeB = f.transposeB ? std::vector<int64_t>{f.batch, f.n, f.k}
                                             : std::vector<int64_t>{f.batch, f.k, f.n};
  uint32_t a = spec.stacked("a", false, f.a, shapeA), b = spec.stacked("b", false, f.b, shapeB);
  uint32_t out = spec.stacked("out", true, DType::BF16, {f.batch, f.m, f.n});
  RankSpec &rank = spec.ranks[0];
  auto bytesA = static_cast<size_t>(f.batch * f.m * f.k),
       bytesB = static_cast<size_t>(f.batch * f.k * f.n),
       count = static_cast<size_t>(f.batch * f.m * f.n);
  uint32_t left = rank.view(rank.argument(a, bytesA), f.a, shapeA);
  uint32_t right = rank.view(rank.argument(b, bytesB), f.b, shapeB);
  uint32_t result = rank.view(rank.argument(out, 2 * count), DType::BF16, {f.batch, f.m, f.n});
  rank.add(sp::CommandKind::matmul, 0, {result, left, right}).flags =
      static_cast<uint8_t>(f.transposeA * 1 | f.transposeB * 2);
  // Small numbers, whose products and sums are exact.
  auto numbers = [](size_t count, uint32_t seed) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>((i * 7 + seed) % 5) - 2;
    return values;
  };
  std::vector<float> x = numbers(bytesA, 1), w = numbers(bytesB, 3), y(count);
  int64_t before = fakeNumber("fp8-plans");
  Status status = runRanks(spec, "local", [&](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
    std::vector<uint8_t> narrow(std::max(bytesA, bytesB));
    storeFromF32(f.a, x.data(), narrow.data(), 1, static_cast<int64_t>(bytesA));
    TANDEM_RETURN_IF_ERROR(context.device().upload(memory[0]->data(), narrow.data(), bytesA));
    storeFromF32(f.b, w.data(), narrow.data(), 1, static_cast<int64_t>(bytesB));
    TANDEM_RETURN_IF_ERROR(context.device().upload(memory[1]->data(), narrow.data(), bytesB));
    TANDEM_RETURN_IF_ERROR(instance.run());
    std::vector<uint16_t> bits(count);
    TANDEM_RETURN_IF_ERROR(context.device().download(bits.data(), memory[2]->data(), 2 * count));
    loadAsF32(DType::BF16, bits.data(), 1, static_cast<int64_t>(count), y.data());
    return Status();
  })[0];
  EXPECT_TRUE(status.ok()) << status.message();
  for (int64_t l = 0; l < f.batch; ++l)
    for (int64_t i = 0; i < f.m; ++i)
      for (int64_t j = 0; j < f.n; ++j) {
        const float *left = x.data() + l * f.m * f.k, *right = w.data() + l * f.k * f.n;
        float sum = 0;
        for (int64_t k = 0; k < f.k; ++k)
          sum += left[f.transposeA ? k * f.m + i : i * f.k + k] *
                 right[f.transposeB ? j * f.k + k : k * f.n + j];
        EXPECT_EQ(y[static_cast<size_t>((l * f.m + i) * f.n + j)], sum)
            << l << ", " << i << ", " << j;
      }
  return fakeNumber("fp8-plans") - before;
}

/// y = a b + term, which is read in place. `type`: of a and b.
ProgramSpec withTerms(DType type) {
  ProgramSpec spec(1);
  RankSpec &rank = spec.ranks[0];
  auto tensor = [&](const char *name, bool isResult, DType type, std::vector<int64_t> shape) {
    uint64_t bytes = static_cast<uint64_t>(shape[0] * shape[1]) * sizeOf(type);
    uint32_t argument = spec.stacked(name, isResult, type, shape);
    return rank.view(rank.argument(argument, bytes), type, shape);
  };
  DType out = type == DType::F32 ? type : DType::BF16;
  uint32_t a = tensor("a", false, type, {16, 32}), b = tensor("b", false, type, {16, 32});
  uint32_t term = tensor("term", false, out, {16, 16}), y = tensor("y", true, out, {16, 16});
  rank.add(sp::CommandKind::matmul, 0, {y, a, b, term}).flags =
      static_cast<uint8_t>(sp::CommandFlags::transpose_b);
  return spec;
}

TEST(GpuFp8, MisalignedArgumentsAreRefusedWhenTheyAreBound) {
  if (testsHip())
    GTEST_SKIP() << "the factors are converted first";
  for (DType type : {DType::F8E4M3FN, DType::F32}) {
    Status status =
        runRanks(withTerms(type), "local", [&](Context &context, Instance &instance) -> Status {
          TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
          TANDEM_ASSIGN_OR_RETURN(auto larger,
                                  context.device().allocate(16 * 32 * 4 + 16, MemoryKind::Plain));
          for (size_t i = 0; i < memory.size(); ++i) {
            std::vector<void *> data;
            for (const auto &each : memory)
              data.push_back(each->data());
            data[i] = static_cast<std::byte *>(larger->data()) + 4;
            Status bound = instance.bindAll(data.data(), nullptr);
            if (type == DType::F32) { // other plans take any address
              EXPECT_TRUE(bound.ok()) << bound.message();
              TANDEM_RETURN_IF_ERROR(instance.run());
              continue;
            }
            EXPECT_EQ(bound.code(), Code::InvalidArgument) << i;
            EXPECT_NE(bound.message().find("address is not a multiple of 16"), std::string::npos)
                << bound.message();
          }
          TANDEM_ASSIGN_OR_RETURN(auto again, bindAll(context, instance));
          return instance.run();
        })[0];
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(GpuFp8, TheLibraryReadsBothFactorsAlongK) {
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true})
      for (DType b : {DType::F8E4M3FN, DType::F8E5M2}) {
        Factors factors;
        factors.b = b;
        factors.n = 24;
        factors.transposeA = transposeA;
        factors.transposeB = transposeB;
        EXPECT_EQ(multiply(factors), testsHip() ? 0 : 1);
      }
}

/// The results of a batch are at multiples of 16 bytes, and of 8 elements.
TEST(GpuFp8, ABatch) {
  Factors factors;
  factors.batch = 3;
  factors.m = 1;
  factors.n = 24;
  EXPECT_EQ(multiply(factors), testsHip() ? 0 : 1);
}

/// The experts of a device; the same products if the library takes one matrix at a time.
TEST(GpuFp8, MatricesOneAfterTheOther) {
  auto products = [] {
    return fakeNumber("products.0") + fakeNumber("products.1") + fakeNumber("products.2");
  };
  Factors factors;
  factors.batch = 4;
  factors.n = 24;
  int64_t before = products();
  EXPECT_EQ(multiply(factors), testsHip() ? 0 : 1);
  int64_t together = products() - before;
  Knob refused("fp8-batch-refused", 1);
  before = products();
  EXPECT_EQ(multiply(factors), testsHip() ? 0 : 1);
  if (!testsHip()) {
    EXPECT_GT(products() - before, together);
  }
}

/// Then bf16 is multiplied, to which 8 bits are converted.
TEST(GpuFp8, WhereTheLibraryHasNone) {
  Factors factors;
  factors.k = 24; // not a multiple of 16
  EXPECT_EQ(multiply(factors), 0);
  factors = {};
  factors.n = 9;
  EXPECT_EQ(multiply(factors), 0);
  factors.transposeB = false;
  factors.transposeA = true;
  EXPECT_EQ(multiply(factors), 0);
  factors = {DType::F8E5M2, DType::F8E5M2};
  EXPECT_EQ(multiply(factors), 0);
  Knob refused("fp8-refused", 1);
  EXPECT_EQ(multiply({}), 0);
}

/// relu(x w * scales + bias + residual), right behind the product and in place, without PTX: the
/// stand-in cannot run the launch, so results are right only if the library computes all of it.
struct Scaled {
  enum Scales { None, One, Two, Vectors, RowsOnly } scales = Vectors;
  bool bias = false, residual = false, relu = false;
  int64_t batch = 1, offset = 0; ///< of the vectors, in elements
};

Status runScaled(const Scaled &layer) {
  using E = sp::ExprOp;
  constexpr int64_t m = 16, k = 32, n = 24;
  ProgramSpec spec(1);
  RankSpec &rank = spec.ranks[0];
  std::vector<uint8_t> types{static_cast<uint8_t>(sp::DType::bf16),
                             static_cast<uint8_t>(sp::DType::bf16)};
  struct Argument {
    std::vector<float> values;
    DType type;
  };
  std::vector<Argument> arguments;
  auto buffer = [&](const char *name, DType type, const Shape &shape) {
    std::vector<float> values(static_cast<size_t>(product(shape)));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((i * 7 + arguments.size()) % 5) - 2;
    uint32_t argument = spec.stacked(name, false, type, shape);
    arguments.push_back({values, type});
    return rank.argument(argument, values.size() * sizeOf(type));
  };
  Shape shape{layer.batch, m, n};
  DType narrow = DType::F8E4M3FN;
  uint32_t x = rank.view(buffer("x", narrow, {layer.batch, m, k}), narrow, {layer.batch, m, k});
  uint32_t w = rank.view(buffer("w", narrow, {n, k}), narrow, {n, k});
  uint32_t sx = buffer("sx", DType::F32, {m + 4}), sw = buffer("sw", DType::F32, {n + 4});
  uint32_t b = buffer("b", DType::BF16, {n}), r = buffer("r", DType::BF16, shape);
  uint32_t result = spec.stacked("out", true, DType::BF16, shape);
  auto count = static_cast<size_t>(product(shape));
  uint32_t out = rank.view(rank.argument(result, 2 * count), DType::BF16, shape);
  std::vector<uint32_t> operands{out, out};
  std::vector<Instr> code;
  auto add = [&](E op, uint32_t a = 0, uint32_t b = 0) {
    code.emplace_back(op, a, b, 0, 0);
    return static_cast<uint32_t>(code.size() - 1);
  };
  uint32_t value = add(E::load, 0);
  auto apply = [&](E op, uint32_t view, DType type) {
    operands.push_back(view);
    types.push_back(static_cast<uint8_t>(type == DType::F32 ? sp::DType::f32 : sp::DType::bf16));
    value = add(op, value, add(E::load, static_cast<uint32_t>(operands.size()) - 2));
  };
  bool vectors = layer.scales == Scaled::Vectors || layer.scales == Scaled::RowsOnly;
  if (layer.scales != Scaled::None)
    apply(E::mul,
          rank.view(sx, DType::F32, shape, {0, vectors ? 1 : 0, 0}, uint64_t(4 * layer.offset)),
          DType::F32);
  if (layer.scales == Scaled::Two || layer.scales == Scaled::Vectors)
    apply(E::mul,
          rank.view(sw, DType::F32, shape, {0, 0, vectors ? 1 : 0}, uint64_t(4 * layer.offset)),
          DType::F32);
  if (layer.bias)
    apply(E::add, rank.view(b, DType::BF16, shape, {0, 0, 1}, 0), DType::BF16);
  if (layer.residual)
    apply(E::add, rank.view(r, DType::BF16, shape), DType::BF16);
  if (layer.relu)
    value = add(E::max, value, add(E::constant));
  add(E::store, value);
  KernelSpec kernel;
  kernel.code = encodeExpression(static_cast<uint32_t>(operands.size()) - 1, 1, code);
  kernel.operandTypes = types;
  kernel.outputs = 1;
  rank.kernels.push_back(kernel);
  rank.add(sp::CommandKind::matmul, 0, {out, x, w}).flags = 2;
  rank.launch(0, 0, operands);
  std::vector<float> y(count);
  TANDEM_RETURN_IF_ERROR(
      runRanks(spec, "local", [&](Context &context, Instance &instance) -> Status {
        TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
        for (size_t i = 0; i < arguments.size(); ++i) {
          const auto &[values, type] = arguments[i];
          std::vector<uint8_t> bytes(values.size() * sizeOf(type));
          storeFromF32(type, values.data(), bytes.data(), 1, static_cast<int64_t>(values.size()));
          TANDEM_RETURN_IF_ERROR(
              context.device().upload(memory[i]->data(), bytes.data(), bytes.size()));
        }
        for (int again = 0; again < 2; ++again)
          TANDEM_RETURN_IF_ERROR(instance.run());
        std::vector<uint16_t> bits(count);
        TANDEM_RETURN_IF_ERROR(
            context.device().download(bits.data(), memory[arguments.size()]->data(), 2 * count));
        loadAsF32(DType::BF16, bits.data(), 1, static_cast<int64_t>(count), y.data());
        return Status();
      })[0]);
  for (int64_t i = 0; i < layer.batch * m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      auto of = [&](size_t argument, int64_t at) {
        return arguments[argument].values[static_cast<size_t>(at)];
      };
      float sum = 0;
      for (int64_t p = 0; p < k; ++p)
        sum += of(0, i * k + p) * of(1, j * k + p);
      if (layer.scales != Scaled::None)
        sum *= of(2, layer.offset + (vectors ? i % m : 0));
      if (layer.scales == Scaled::Two || layer.scales == Scaled::Vectors)
        sum *= of(3, layer.offset + (vectors ? j : 0));
      if (layer.bias)
        sum += of(4, j);
      if (layer.residual)
        sum += of(5, i * n + j);
      if (layer.relu)
        sum = std::max(sum, 0.0f);
      EXPECT_NEAR(y[static_cast<size_t>(i * n + j)], sum, std::abs(sum) / 256) << i << ", " << j;
    }
  return Status();
}

TEST(GpuFp8, Epilogues) {
  if (testsHip())
    GTEST_SKIP() << "hipBLASLt's products of 8 bits are not asked for";
  for (auto scales : {Scaled::None, Scaled::One, Scaled::Two, Scaled::Vectors})
    for (int flags = 0; flags < 8; ++flags) {
      if (scales == Scaled::None && flags == 0)
        continue;
      SCOPED_TRACE(testing::Message() << "scales " << scales << ", flags " << flags);
      Status status = runScaled({scales, bool(flags & 1), bool(flags & 2), bool(flags & 4)});
      EXPECT_TRUE(status.ok()) << status.message();
    }
  for (auto [scales, offset] : {std::pair(Scaled::Vectors, 4), {Scaled::Two, 1}}) {
    Scaled layer{scales};
    layer.offset = offset;
    Status status = runScaled(layer);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  Status experts = runScaled({Scaled::Two, true, true, true, 3});
  EXPECT_TRUE(experts.ok()) << experts.message();
}

/// Then the launch stays, and the log says why.
TEST(GpuFp8, EpiloguesThatTheLibraryLacks) {
  if (testsHip())
    GTEST_SKIP() << "hipBLASLt's products of 8 bits are not asked for";
  Scaled batch{Scaled::Vectors}, rows{Scaled::RowsOnly}, odd{Scaled::Vectors};
  batch.batch = 3;
  odd.offset = 1;
  for (const auto &[layer, why] :
       {std::pair(batch, "scales of rows and columns of a batch"),
        {rows, "scales that are neither one number each nor dense vectors of both"},
        {odd, "scales that are not at multiples of 16 bytes"}}) {
    EXPECT_EQ(runScaled(layer).code(), Code::Unsupported) << why; // it has no code for this GPU
    EXPECT_NE(takeLog().find(std::string("the launch behind it runs alone: ") + why),
              std::string::npos)
        << why;
  }
  Knob refused("fp8-refused", 1);
  EXPECT_EQ(runScaled({Scaled::One}).code(), Code::Unsupported);
  EXPECT_NE(takeLog().find("has no algorithm for f8E4M3FN 16x24x32"), std::string::npos);
}

} // namespace
