//===- FilesTest.cpp - reading and replacing files --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Files.h"

#include <fcntl.h>
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

TEST_F(Files, WhatIsOpenIsWrittenBehindWhatItHolds) {
  int file = ::open(path("a").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::write(file, "first ", 6), 6);
  std::string name = "/dev/fd/" + std::to_string(file);
  EXPECT_TRUE(writeFile(name, "second ").ok());
  fs::create_symlink("/proc/self/fd/" + std::to_string(file), path("link"));
  EXPECT_TRUE(writeFile(path("link"), "third ").ok());
  ASSERT_EQ(::write(file, "fourth", 6), 6);
  EXPECT_EQ(*readWhole(path("a")), "first second third fourth");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  fs::remove(path("a")); // and has no name any more
  EXPECT_TRUE(writeFile(name, "fifth").ok());
  struct stat info{};
  ASSERT_EQ(::fstat(file, &info), 0);
  EXPECT_EQ(info.st_size, 30);
  ::close(file);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  std::string another = "/dev/fd/" + std::to_string(full);
  EXPECT_EQ(writeFile(another, "x").message(),
            "cannot write \"" + another + "\": No space left on device");
  ::close(full);
}

TEST_F(Files, APipeIsWrittenInPlace) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_TRUE(writeFile(path("pipe"), "text").ok());
  char bytes[8] = {};
  EXPECT_EQ(::read(reader, bytes, sizeof bytes), 4);
  EXPECT_EQ(std::string(bytes), "text");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
}

} // namespace
