//===- SuiteTest.cpp - rows as bytes and as folders -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Suite.h"

#include "Files.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <unistd.h>
#include <utility>

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
  EXPECT_THAT(row.status().message(), HasSubstr("a.tsp: ")) << "no program";
  std::filesystem::remove(folder + "/a.tsp");
  row = (*suite)->row(0);
  ASSERT_FALSE(row);
  EXPECT_THAT(row.status().message(), HasSubstr("a.tsp")) << "gone";
  EXPECT_EQ((*suite)->label(0), "ar 8x4x2 bf16");
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

TEST_F(SuiteTest, NamesBadFields) {
  std::string head =
      R"({"tandem_bench": 1, "ranks": 2, "target": "t", "link_bytes": 64, "probes": false, "rows": [)";
  auto row = [&](const char *shape) {
    return head + R"({"kind": "shape", "shape": )" + shape +
           R"(, "variants": [{"role": "matmul", "name": "m", "refused": "r"}]}]})";
  };
  const std::pair<std::string, const char *> cases[] = {
      {row(R"({"op": "ar", "m": 8, "n": 4, "k": 2, "dtype": "f64"})"), "rows[0]: dtype: expected"},
      {row(R"({"op": "aa", "m": 8, "n": 4, "k": 2, "dtype": "f32"})"), "rows[0]: op: expected"},
      {row(R"({"op": "ar", "m": 0, "n": 4, "k": 2, "dtype": "f32"})"), "rows[0]: m: expected"},
      {row(R"({"op": "ar", "m": 8, "n": 16777217, "k": 2, "dtype": "f32"})"), "n: expected"},
      {row(R"({"op": "ar", "m": 8, "n": 4, "k": 18446744073709551615, "dtype": "f32"})"),
       "k: expected"},
      {row(R"({"op": "ar", "m": 8.5, "n": 4, "k": 2, "dtype": "f32"})"), "m: expected"},
      {row(R"([])"), "op: missing"},
      {R"({"tandem_bench": 1, "ranks": 65537})", "ranks: expected a number from 2 to 65536"},
      {R"({"tandem_bench": 1, "ranks": -2})", "ranks: expected"},
      {R"({"tandem_bench": 1, "ranks": "2"})", "ranks: expected"},
      {R"({"tandem_bench": 1, "ranks": 2, "target": 1e999})", "bench.json: "},
      {R"({"tandem_bench": 1, "ranks": 2, "target": 3})", "target: expected a string, found 3"}};
  for (const auto &[text, message] : cases) {
    write("bench.json", text);
    EXPECT_THAT(readSuite(folder).status().message(), HasSubstr(message)) << text;
  }
  write("bench.json", row(R"({"op": "ar", "m": 16777216, "n": 4, "k": 2, "dtype": "f32"})"));
  EXPECT_TRUE(readSuite(folder)) << readSuite(folder).status().message();
}

namespace {

/// One program of any bytes, or none.
class FixedSuite : public Suite {
public:
  explicit FixedSuite(std::string refused) : refused(std::move(refused)) {}
  uint32_t ranks() const override { return 2; }
  std::string target() const override { return "t"; }
  bool isProbes() const override { return true; }
  size_t numRows() const override { return 1; }
  uint64_t linkBytes() const override { return 64; }
  Expected<Row> row(size_t) override {
    Row row;
    row.kind = RowKind::Probe;
    row.variants = {{Role::Probe, "p", refused.empty() ? "bytes" : "", refused}};
    return row;
  }
  std::string label(size_t) const override { return "p"; }

private:
  std::string refused;
};

} // namespace

TEST_F(SuiteTest, StagesIntoItsOwnFolderOnly) {
  FixedSuite suite("");
  for (const char *foreign : {"precious.txt", "1-2.tspx", "notes-1.tsp", "xbench.json"}) {
    write(foreign, "");
    write("bench.json", R"({"tandem_bench": 1, "link_bytes": 64})");
    EXPECT_THAT(writeSuite(suite, folder).status().message(), HasSubstr(foreign));
    EXPECT_TRUE(std::filesystem::exists(folder + "/" + foreign));
    EXPECT_TRUE(std::filesystem::exists(folder + "/bench.json"));
    std::filesystem::remove(folder + "/" + foreign);
  }
  std::filesystem::create_directories(folder + "/1-2.tsp");
  EXPECT_FALSE(writeSuite(suite, folder)) << "a folder of such a name";
  std::filesystem::remove(folder + "/1-2.tsp");
  write("bench.json", R"({"tandem_bench": 1, "rows": []})");
  EXPECT_FALSE(writeSuite(suite, folder)) << "a report";
  std::filesystem::remove(folder + "/bench.json");
  write("3-4.tsp", "an interrupted stage");
  EXPECT_TRUE(writeSuite(suite, folder));
  EXPECT_FALSE(std::filesystem::exists(folder + "/3-4.tsp"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/0-0.tsp"));
  EXPECT_TRUE(writeSuite(suite, folder)) << "again";
  EXPECT_TRUE(writeSuite(suite, folder + "/new/one"));
  write("file", "");
  EXPECT_FALSE(writeSuite(suite, folder + "/file"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/file"));
}

TEST_F(SuiteTest, StagesNothingIfAllWasRefused) {
  FixedSuite suite("because");
  EXPECT_THAT(writeSuite(suite, folder).status().message(), HasSubstr("because"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/bench.json"));
}

TEST_F(SuiteTest, FilesAreReplacedAsAWhole) {
  write("report", "old");
  std::filesystem::create_symlink("report", folder + "/link");
  write("link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder + "/link"));
  EXPECT_EQ(*run::readFile(folder + "/report"), "new");
  EXPECT_TRUE(run::writeFile("/dev/null", "gone").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  auto entries = std::filesystem::directory_iterator(folder);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 2) << "nothing else is left";
  EXPECT_TRUE(run::checkWritable(folder + "/report").ok());
  EXPECT_TRUE(run::checkWritable(folder + "/other").ok());
  EXPECT_FALSE(std::filesystem::exists(folder + "/other"));
  EXPECT_FALSE(run::checkWritable(folder).ok());
  EXPECT_THAT(run::checkWritable(folder + "/none/report").message(), HasSubstr("not a folder"));
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
