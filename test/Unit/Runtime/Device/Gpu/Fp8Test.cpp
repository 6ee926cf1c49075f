//===- Fp8Test.cpp - products of 8-bit floats ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "tandem/Runtime/HostOps.h"

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

} // namespace
