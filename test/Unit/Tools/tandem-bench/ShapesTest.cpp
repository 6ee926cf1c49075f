//===- ShapesTest.cpp - shapes and schedules of tandem-bench ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::bench;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Cases, OfKnownModels) {
  auto cases = parseCases("", "1024,8192", "f16,bf16");
  ASSERT_TRUE(cases) << cases.status().message();
  EXPECT_EQ(cases->size(), 2u * 2 * (7 + 6 + 6));
  EXPECT_EQ((*cases)[0].text(), "ag 1024x11008x4096 f16");
  EXPECT_EQ(cases->back().text('-'), "ar-8192x12288x49152-bf16");
}

TEST(Cases, AsGiven) {
  auto cases = parseCases("rs:64x32x16,ar:8x4", "128,256", "f32");
  ASSERT_TRUE(cases) << cases.status().message();
  ASSERT_EQ(cases->size(), 3u);
  EXPECT_EQ((*cases)[0].text(), "rs 64x32x16 f32");
  EXPECT_EQ((*cases)[1].text(), "ar 128x8x4 f32");
  EXPECT_EQ((*cases)[2].text(), "ar 256x8x4 f32");
  EXPECT_EQ((*cases)[0].flops(), 2.0 * 64 * 32 * 16);
}

TEST(Cases, Errors) {
  for (const char *bad : {"", "ag", "ag:", "ag:4", "ag:4x", "ag:1x2x3x4", "ag:0x2", "ag:4x-2",
                          "ag:4x2 ", "xx:4x2", "ag:99999999999x2"}) {
    // Nothing at all asks for the shapes of known models.
    EXPECT_EQ(parseCases(bad, "8", "f32").ok(), *bad == 0) << bad;
  }
  EXPECT_FALSE(parseCases("", "", "f32"));
  EXPECT_FALSE(parseCases("", "1k", "f32"));
  EXPECT_FALSE(parseCases("", "8", "i32"));
  EXPECT_EQ(parseCases("ag:4x2,zz:1x1", "8", "f32").status().message(),
            "--shapes: \"zz:1x1\": expected one of ag, rs, ar, found \"zz\"");
}

// Of 4 ranks, each lacks three quarters of what is gathered or reduced; a sum travels twice.
TEST(Cases, BytesReceived) {
  Case gather{Op::AllGather, 64, 32, 16, DType::BF16};
  EXPECT_EQ(gather.bytesReceived(4), 0.75 * 64 * 16 * 2);
  Case scatter{Op::ReduceScatter, 64, 32, 16, DType::F32};
  EXPECT_EQ(scatter.bytesReceived(4), 0.75 * 64 * 32 * 4);
  Case reduce{Op::AllReduce, 64, 32, 16, DType::F32};
  EXPECT_EQ(reduce.bytesReceived(4), 2 * scatter.bytesReceived(4));
}

// Factors of 8 bits have a result of bf16, and scales.
TEST(Cases, Scaled) {
  auto cases = parseCases("ag:64x32x16,rs:64x32x16", "8", "f8E4M3FN,f8E4M3FN-rows");
  ASSERT_TRUE(cases) << cases.status().message();
  ASSERT_EQ(cases->size(), 4u);
  EXPECT_EQ((*cases)[0].text(), "ag 64x32x16 f8E4M3FN");
  EXPECT_FALSE((*cases)[0].rowScales);
  EXPECT_EQ((*cases)[2].text('-'), "ag-64x32x16-f8E4M3FN-rows");
  EXPECT_TRUE((*cases)[3].rowScales);
  EXPECT_EQ((*cases)[0].bytesReceived(4), 0.75 * 64 * 16);
  EXPECT_EQ((*cases)[1].bytesReceived(4), 0.75 * 64 * 32 * 2);
  EXPECT_EQ(
      parseCases("", "8", "bf16-rows").status().message(),
      "--dtypes: expected one of f32, f16, bf16, f8E4M3FN, f8E4M3FN-rows, found \"bf16-rows\"");
}

TEST(Schedules, Keys) {
  auto push = parseSchedule("push:slices=2:streams=3:order=xor:merge=1-1-2");
  ASSERT_TRUE(push) << push.status().message();
  EXPECT_EQ(push->name, "push");
  EXPECT_EQ(push->slices, 2);
  EXPECT_EQ(push->streams, 3);
  EXPECT_EQ(push->order, "xor");
  EXPECT_THAT(push->merge, ElementsAre(1, 1, 2));
  EXPECT_TRUE(parseSchedule("push:merge=double")->doubling);
  EXPECT_EQ(parseSchedule("pipeline")->slices, 4);
  EXPECT_EQ(parseSchedules("auto,exchange:slices=2")->size(), 2u);
}

TEST(Schedules, Errors) {
  auto bySms = parseSchedule("push:by=sms:blocks=8");
  ASSERT_TRUE(bySms.ok()) << bySms.status().message();
  EXPECT_EQ(bySms->by, "sms");
  EXPECT_EQ(bySms->blocks, 8);
  EXPECT_EQ(parseSchedule("push:copies=3")->copies, 3);
  EXPECT_EQ(parseSchedule("push:sum=matmul")->sum, "matmul");
  auto direct = parseSchedule("direct:shots=two:blocks=32");
  ASSERT_TRUE(direct.ok()) << direct.status().message();
  EXPECT_EQ(direct->blocks, 32);
  EXPECT_EQ(parseSchedule("direct:signals=word")->signals, "word");
  EXPECT_EQ(parseSchedule("push:by=epilogue")->by, "epilogue");
  for (const char *bad : {"push:by=hand", "push:sum=all", "gated:sum=matmul", "gated:by=epilogue",
                          "exchange:by=sms", "gated:copies=2", "pipeline:blocks=2",
                          "direct:signals=hand", "push:signals=word", "direct:slices=2"})
    EXPECT_FALSE(parseSchedule(bad).ok()) << bad;
  for (const char *bad : {"", "pull", "push:", "push:streams", "push:streams=0", "push:order=best",
                          "push:merge=1-", "exchange:order=xor", "auto:slices=2", "push:colour=2"})
    EXPECT_FALSE(parseSchedule(bad)) << bad;
  EXPECT_THAT(parseSchedules("auto,pull").status().message(), HasSubstr("found \"pull\""));
}
