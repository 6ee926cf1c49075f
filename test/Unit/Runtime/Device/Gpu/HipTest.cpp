//===- HipTest.cpp - what is HIP's own, over the stand-in driver ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "Driver.h"
#include "Hip/CodeObject.h"
#include "KernelArguments.h"

#include "tandem/Runtime/Gpu.h"

#include <gtest/gtest.h>
#include <random>

using namespace tandem;
using namespace tandem::test;

namespace {

std::string_view ownObject() {
  static const auto object = gpu::selectCodeObject(gpu::kHip.kernels(), "gfx942");
  EXPECT_TRUE(object.ok()) << object.status().message();
  return object.ok() ? *object : std::string_view();
}

TEST(CodeObject, SaysTheParametersOfTheRuntimesKernels) {
  auto kernels = gpu::readKernelParameters(ownObject());
  ASSERT_TRUE(kernels.ok()) << kernels.status().message();
  using Sizes = std::vector<uint32_t>;
  EXPECT_EQ((*kernels)["run_words"], Sizes{sizeof(gpu::RunWords)});
  EXPECT_EQ((*kernels)["signal_raise"], Sizes(6, 8));
  EXPECT_EQ((*kernels)["signal_wait"], Sizes(8, 8));
  EXPECT_EQ((*kernels)["copy_128_64"], (Sizes{sizeof(gpu::Nest), 8, 8}));
  EXPECT_EQ((*kernels)["combine_bf16_8_32"], (Sizes{sizeof(gpu::Nest), 8, 8, 8, 4}));
  EXPECT_EQ((*kernels)["reduce_block_per_output_f64_2_32"],
            (Sizes{sizeof(gpu::Nest), sizeof(gpu::Nest), 8, 8, 4}));
}

TEST(CodeObject, ABundleWithoutTheGpuIsRefused) {
  auto object = gpu::selectCodeObject(gpu::kHip.kernels(), "gfx900");
  EXPECT_EQ(object.status().code(), Code::Unsupported);
  EXPECT_EQ(object.status().message(), "code object: expected one for gfx900, found gfx942");
}

// The kinds of GPU that a bundle names may have features, which end in + or -.
TEST(CodeObject, FeaturesOfAGpuAreNoPartOfItsKind) {
  std::string bundle = "__CLANG_OFFLOAD_BUNDLE__";
  auto number = [&](uint64_t value) {
    bundle.append(reinterpret_cast<const char *>(&value), sizeof value);
  };
  std::string_view ids[] = {"host-x86_64-unknown-linux-gnu-",
                            "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-",
                            "hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-"};
  number(3);
  uint64_t offset = 0;
  for (std::string_view id : ids) {
    number(offset++);
    number(1);
    number(id.size());
    bundle += id;
  }
  auto object = gpu::selectCodeObject(bundle, "gfx942");
  ASSERT_TRUE(object.ok()) << object.status().message();
  EXPECT_EQ(object->data(), bundle.data() + 2);
  EXPECT_EQ(gpu::selectCodeObject(bundle, "gfx900").status().message(),
            "code object: expected one for gfx900, found gfx90a, gfx942");
}

TEST(CodeObject, OtherTextIsRefused) {
  for (const char *text : {"",
                           "\x7f"
                           "ELF",
                           ".version 8.0\n.target sm_90", "__CLANG_OFFLOAD_BUNDLE__"})
    EXPECT_EQ(gpu::selectCodeObject(text, "gfx942").status().code(), Code::InvalidArgument) << text;
  EXPECT_EQ(gpu::readKernelParameters("nothing").status().message(),
            "code object: expected an ELF file for AMD GPUs");
}

// Copies, so that a sanitizer sees a read beyond the end.
TEST(CodeObject, DamageIsNoCrash) {
  std::string_view object = ownObject();
  ASSERT_GT(object.size(), 4096u);
  auto whole = gpu::readKernelParameters(object);
  ASSERT_TRUE(whole.ok());
  std::string head(object);
  for (size_t size = 0; size < head.size(); size += 4999)
    gpu::readKernelParameters(std::string(head, 0, size)).status().ignore();
  std::minstd_rand random(7);
  size_t refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string damaged = head;
    for (int k = 0; k < 20; ++k)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    for (int k = 0; k < 2; ++k) // of the tables that say where all else is
      damaged[random() % 512] = static_cast<char>(random());
    refused += gpu::readKernelParameters(damaged).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 10u);
}

TEST(HipDevice, SaysWhatItIs) {
  auto device = createGpuDevice("hip:1", 0);
  ASSERT_TRUE(device.ok()) << device.status().message();
  EXPECT_EQ((*device)->name(), "hip:1");
  EXPECT_EQ((*device)->description(), "fake gfx942, hipblasLt 1000");
  EXPECT_EQ(createGpuDevice("hip:x", 0).status().message(),
            "device \"hip:x\": expected hip or hip:NUMBER");
  EXPECT_EQ(createGpuDevice("hip:7", 0).status().message(),
            "device hip:7: this machine has 2 GPUs");
}

// Of the table: what the rest of the backend decides by.
TEST(HipDevice, SignalsLieApartAndWaitsAreKernels) {
  auto driver = gpu::kHip.open(0);
  ASSERT_TRUE(driver.ok());
  EXPECT_TRUE((*driver)->info().separateSignalPad);
  EXPECT_FALSE((*driver)->info().streamValues);
  EXPECT_EQ((*driver)->info().target, "gfx942");
  for (int old : {0, 1}) { // without hipDeviceMallocUncached, fine-grained memory does
    Knob hip5("hip5", old);
    void *memory = nullptr;
    Status status = (*driver)->allocateSignals(64, &memory);
    ASSERT_TRUE(status.ok()) << status.message();
    uint64_t words[8] = {1};
    ASSERT_TRUE((*driver)->copy(words, memory, sizeof words).ok());
    EXPECT_EQ(words[0], 0u);
    gpu::SharedHandle handle;
    ASSERT_TRUE((*driver)->exportShared(memory, 64, &handle).ok());
    EXPECT_EQ(handle.descriptor, -1);
    EXPECT_EQ(handle.bytes.size(), 64u);
    EXPECT_TRUE((*driver)->freeShared(memory).ok());
  }
  gpu::SharedHandle wrong{-1, "short"};
  void *none = nullptr;
  EXPECT_EQ((*driver)->importShared(wrong, 8, &none).message(),
            "expected a handle of 64 bytes, found 5: do all ranks use HIP?");
}

TEST(HipDevice, OrderedProductsAreRefused) {
  auto driver = gpu::kHip.open(0);
  ASSERT_TRUE(driver.ok());
  auto blas = gpu::kHip.openBlas(**driver);
  ASSERT_TRUE(blas.ok()) << blas.status().message();
  gpu::Product product;
  product.m = product.n = product.k = product.lda = product.ldb = product.ldo = 4;
  EXPECT_TRUE((*blas)->plan(product, 3).ok());
  product.ordered = true;
  auto refused = (*blas)->plan(product, 3);
  EXPECT_EQ(refused.status().code(), Code::Unsupported);
  EXPECT_NE(refused.status().message().find("hipBLASLt cannot be told"), std::string::npos);
}

} // namespace
