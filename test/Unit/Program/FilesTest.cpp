//===- FilesTest.cpp - reading and replacing files --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Files.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace tandem;
namespace fs = std::filesystem;

namespace {

class Files : public testing::Test {
public:
  void SetUp() override {
    char name[] = "/tmp/tandem-files-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder = name;
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string path(const char *name) const { return folder + "/" + name; }
  std::string folder;
};

TEST_F(Files, ReadsRegularFilesOnly) {
  ASSERT_TRUE(writeFile(path("a"), "text").ok());
  EXPECT_EQ(*readWhole(path("a")), "text");
  EXPECT_EQ(readWhole(path("a"), 3).status().message(), "expected at most 3 bytes, found more");
  EXPECT_FALSE(readWhole("/proc/self/status")->empty()); // which has a size of 0
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(readWhole(path("pipe")).status().message(), "not a regular file");
  EXPECT_EQ(readWhole("/dev/zero").status().message(), "not a regular file");
  EXPECT_EQ(readWhole(folder).status().message(), "Is a directory");
  EXPECT_EQ(readWhole(path("none")).status().message(), "No such file or directory");
  ASSERT_EQ(::truncate(path("a").c_str(), off_t(1) << 40), 0);
  EXPECT_EQ(readWhole(path("a")).status().message(),
            "expected at most 1073741824 bytes, found more");
  EXPECT_TRUE(isEndless(path("pipe")));
  EXPECT_FALSE(isEndless(path("a")));
  EXPECT_FALSE(isEndless(path("none")));
}

TEST_F(Files, AnErrorLeavesTheOldFileAndNoPart) {
  ASSERT_TRUE(writeFile(path("a"), "old").ok());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1024;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Status written = writeFile(path("a"), std::string(4096, 'x')); // SIGXFSZ would end the test
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(written.message(), "cannot write \"" + path("a") + "\": File too large");
  EXPECT_EQ(*readWhole(path("a")), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

} // namespace
