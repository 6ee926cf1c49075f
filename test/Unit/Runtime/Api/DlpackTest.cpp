//===- DlpackTest.cpp - tensors of DLPack -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Runtime.h"

#include "Support/ProgramSpec.h"

#include <gtest/gtest.h>

// As in dlpack.h.
typedef struct {
  int32_t device_type;
  int32_t device_id;
} DLDevice;
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byte_offset;
} DLTensor;
struct DLManagedTensorVersioned {
  struct {
    uint32_t major, minor;
  } version;
  void *manager_ctx;
  void (*deleter)(DLManagedTensorVersioned *);
  uint64_t flags;
  DLTensor dl_tensor;
};

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr int32_t kCpu = 1, kCuda = 2;
constexpr uint8_t kInt = 0, kFloat = 2;

class CDlpack : public testing::Test {
public:
  void SetUp() override {
    ProgramSpec spec(1);
    spec.name = "copy";
    uint32_t in = spec.stacked("x", false, DType::F32, {2, 3}),
             out = spec.stacked("y", true, DType::F32, {2, 3});
    RankSpec &rank = spec.ranks[0];
    uint32_t from = rank.view(rank.argument(in, 24), DType::F32, {2, 3});
    rank.copy(0, rank.view(rank.argument(out, 24), DType::F32, {2, 3}), from);
    std::string file = spec.encode();
    tandem_context_options options{};
    options.struct_size = sizeof options;
    ASSERT_EQ(tandem_context_create(&options, &context), TANDEM_OK);
    ASSERT_EQ(tandem_program_load_memory(context, file.data(), file.size(), &program), TANDEM_OK)
        << tandem_last_error(context);
    ASSERT_EQ(tandem_prepare(context, program, &instance), TANDEM_OK);
  }
  void TearDown() override {
    tandem_instance_destroy(instance);
    tandem_program_destroy(program);
    tandem_context_destroy(context);
  }
  DLTensor tensor(float *data) { return {data, {kCpu, 0}, 2, {kFloat, 32, 1}, shape, nullptr, 0}; }
  void expectError(const DLTensor &tensor, const std::string &text, uint32_t index = 0) {
    EXPECT_EQ(tandem_bind_dlpack(instance, index, &tensor), TANDEM_INVALID_ARGUMENT);
    EXPECT_EQ(tandem_last_error(context), text);
  }

  tandem_context *context = nullptr;
  tandem_program *program = nullptr;
  tandem_instance *instance = nullptr;
  int64_t shape[3] = {2, 3, 1}, rows[3] = {3, 1, 1}, columns[3] = {1, 2, 1};
  float x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, y[6] = {};
};

TEST_F(CDlpack, RunsOnTensors) {
  DLTensor in = tensor(x), out = tensor(y);
  in.byte_offset = 2 * sizeof(float);
  in.strides = rows;
  const void *tensors[] = {&in, &out};
  tandem_run_options run{};
  run.struct_size = sizeof run;
  run.dl_tensors = tensors;
  ASSERT_EQ(tandem_enqueue(instance, &run), TANDEM_OK) << tandem_last_error(context);
  ASSERT_EQ(tandem_wait(instance), TANDEM_OK);
  EXPECT_EQ(std::vector<float>(y, y + 6), (std::vector<float>{2, 3, 4, 5, 6, 7}));
  int done = -1;
  EXPECT_EQ(tandem_query(instance, &done), TANDEM_OK);
  EXPECT_EQ(done, 1);
  in.byte_offset = 0;
  ASSERT_EQ(tandem_bind_dlpack(instance, 0, &in), TANDEM_OK);
  ASSERT_EQ(tandem_run(instance), TANDEM_OK);
  EXPECT_EQ(y[5], 5);
  tensors[1] = nullptr;
  EXPECT_EQ(tandem_enqueue(instance, &run), TANDEM_INVALID_ARGUMENT);
  EXPECT_STREQ(tandem_last_error(context), "@copy: argument 1 \"y\": null pointer");
}

TEST_F(CDlpack, Errors) {
  const std::string where = "@copy: argument 0 \"x\": ";
  DLTensor wrong = tensor(x);
  wrong.device = {kCuda, 3};
  expectError(wrong, where + "expected a tensor on cpu, found one on cuda:3");
  wrong = tensor(x);
  wrong.dtype.code = kInt;
  expectError(wrong, where + "expected f32[2,3], found i32[2,3]");
  wrong.dtype = {kFloat, 8, 1};
  expectError(wrong,
              where + "expected f32[2,3], found DLPack's type 2 of 8 bits and 1 lanes, [2,3]");
  wrong = tensor(x);
  wrong.ndim = 3;
  expectError(wrong, where + "expected f32[2,3], found f32[2,3,1]");
  wrong = tensor(x);
  wrong.strides = columns;
  expectError(wrong, where + "expected dense (row-major) memory, found strides [1,2]");
  expectError(tensor(x), "@copy: no argument 2: the program has 2", 2);
  expectError(tensor(nullptr), "rank 0: @copy: argument 0 \"x\": null pointer");
  EXPECT_EQ(tandem_bind_dlpack(instance, 0, nullptr), TANDEM_INVALID_ARGUMENT);
}

TEST_F(CDlpack, Versioned) {
  DLManagedTensorVersioned managed{{1, 1}, nullptr, nullptr, 0, tensor(x)};
  EXPECT_EQ(tandem_bind_dlpack_versioned(instance, 0, &managed), TANDEM_OK);
  managed.flags = 1; // read-only
  EXPECT_EQ(tandem_bind_dlpack_versioned(instance, 0, &managed), TANDEM_OK);
  managed.dl_tensor = tensor(y);
  EXPECT_EQ(tandem_bind_dlpack_versioned(instance, 1, &managed), TANDEM_INVALID_ARGUMENT);
  EXPECT_STREQ(tandem_last_error(context), "@copy: argument 1 \"y\": expected memory that can be "
                                           "written, found a read-only tensor");
  managed.flags = 0;
  EXPECT_EQ(tandem_bind_dlpack_versioned(instance, 1, &managed), TANDEM_OK);
  EXPECT_EQ(tandem_run(instance), TANDEM_OK) << tandem_last_error(context);
  EXPECT_EQ(y[5], 5);
  managed.version.major = 2;
  EXPECT_EQ(tandem_bind_dlpack_versioned(instance, 1, &managed), TANDEM_INVALID_ARGUMENT);
  EXPECT_STREQ(tandem_last_error(context), "DLPack: expected version 1, found 2.1");
}

} // namespace
