//===- SuiteTest.cpp - rows as bytes and as folders -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Suite.h"

#include "Files.h"
#include "Texts.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::bench;
using testing::HasSubstr;

namespace {

/// A folder of this process, gone with the test.
class SuiteTest : public testing::Test {
protected:
  SuiteTest()
      : folder(testing::TempDir() + "tandem-bench-" + std::to_string(::getpid()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(folder);
  }
  ~SuiteTest() override { std::filesystem::remove_all(folder); }

  void write(const std::string &name, const std::string &text) {
    ASSERT_TRUE(run::writeFile(folder + "/" + name, text).ok());
  }

  const std::string folder;
};

} // namespace

TEST(PackedRow, IsTheSameBehind) {
  Row row;
  row.shape = {Op::ReduceScatter, 8, 4, 2, DType::F16};
  row.variants = {{Role::Sequence, "sequence", std::string("a\0b\xff", 4), ""},
                  {Role::Fused, "push", "", "because"}};
  auto same = unpackRow(packRow(row));
  ASSERT_TRUE(same) << same.status().message();
  EXPECT_EQ(same->shape.text(), row.shape.text());
  ASSERT_EQ(same->variants.size(), 2u);
  EXPECT_EQ(same->variants[0].bytes, row.variants[0].bytes);
  EXPECT_EQ(same->variants[0].role, Role::Sequence);
  EXPECT_EQ(same->variants[1].refused, "because");
  EXPECT_FALSE(unpackRow("no row"));
}

TEST_F(SuiteTest, ReadsWhatIsThere) {
  write("a.tsp", "bytes");
  write(
      "bench.json",
      R"({"tandem_bench": 1, "ranks": 2, "target": "t", "link_bytes": 64, "probes": false, "rows": [
      {"kind": "shape", "shape": {"op": "ar", "m": 8, "n": 4, "k": 2, "dtype": "bf16"}, "variants": [
        {"role": "matmul", "name": "matmul", "file": "a.tsp"},
        {"role": "fused", "name": "push", "refused": "because"},
        {"role": "fused", "name": "gone", "file": "b.tsp"}]}]})");
  auto suite = readSuite(folder);
  ASSERT_TRUE(suite) << suite.status().message();
  EXPECT_EQ((*suite)->numRows(), 1u);
  auto row = (*suite)->row(0);
  ASSERT_FALSE(row);
  EXPECT_THAT(row.status().message(), HasSubstr("b.tsp"));
  write("b.tsp", "");
  row = (*suite)->row(0);
  ASSERT_TRUE(row) << row.status().message();
  EXPECT_EQ(row->shape.text(), "ar 8x4x2 bf16");
  EXPECT_EQ(row->variants[0].bytes, "bytes");
  EXPECT_EQ(row->variants[1].refused, "because");
}

TEST_F(SuiteTest, RefusesOtherLists) {
  EXPECT_THAT(readSuite(folder).status().message(), HasSubstr("bench.json"));
  for (
      const char *text :
      {"", "{", "[]", "{}", R"({"tandem_bench": 2, "ranks": 2, "target": "t", "link_bytes": 1})",
       R"({"tandem_bench": 1, "ranks": 1, "target": "t", "link_bytes": 1, "probes": false, "rows": [{}]})",
       R"({"tandem_bench": 1, "ranks": 2, "target": "t", "link_bytes": 1, "probes": false, "rows": []})",
       R"({"tandem_bench": 1, "ranks": 2, "target": "t", "link_bytes": 1, "probes": false, "rows": [{"kind": 1}]})",
       R"({"tandem_bench": 1, "ranks": 2, "target": "t", "link_bytes": 1, "probes": false, "rows":
            [{"kind": "links", "variants": [{"role": "link", "name": "no file"}]}]})"}) {
    write("bench.json", text);
    EXPECT_THAT(readSuite(folder).status().message(), HasSubstr("bench.json")) << text;
  }
}

TEST_F(SuiteTest, MakesOnlyItsOwnFolderAnew) {
  write("precious.txt", "");
  EXPECT_FALSE(run::makeFolderAnew(folder, "bench.json").ok());
  write("bench.json", "{}");
  EXPECT_TRUE(run::makeFolderAnew(folder, "bench.json").ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_TRUE(run::makeFolderAnew(folder + "/new/one", "bench.json").ok());
  write("file", "");
  EXPECT_FALSE(run::makeFolderAnew(folder + "/file", "bench.json").ok());
}

TEST(Texts, SayWhatWasAskedFor) {
  Case gather{Op::AllGather, 64, 32, 16, DType::BF16};
  auto text = fusedText(gather, 8, *parseSchedule("push:streams=2:merge=double"));
  ASSERT_TRUE(text) << text.status().message();
  EXPECT_THAT(*text, HasSubstr("#fusion.schedule<push, streams = 2, merge = [1, 1, 2, 4]>"));
  EXPECT_THAT(*text, HasSubstr("tensor<64x32xbf16, #fusion.axes<#tp, [stream(\"x\"), "));
  EXPECT_FALSE(fusedText(gather, 6, *parseSchedule("push:merge=double")));
  text = fusedText({Op::ReduceScatter, 64, 32, 16, DType::F32}, 2, *parseSchedule("pipeline"));
  ASSERT_TRUE(text) << text.status().message();
  EXPECT_THAT(*text, HasSubstr("[didx(\"x\") * stream(4), -]"));
}
