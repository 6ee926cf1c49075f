//===- SharedFolderTest.cpp - a job's folder of shared memory ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedFolder.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tandem::run;
namespace fs = std::filesystem;

namespace {

/// A folder in place of /dev/shm.
class SharedFolderTest : public testing::Test {
protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "shared-folder-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    parent = name;
  }
  void TearDown() override { fs::remove_all(parent); }

  std::string parent;
};

} // namespace

TEST_F(SharedFolderTest, GoesWithItsOwner) {
  std::string path;
  {
    SharedFolder folder;
    folder.make(parent);
    path = folder.path();
    ASSERT_TRUE(fs::is_directory(path)) << path;
    std::ofstream(path + "/left") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(SharedFolderTest, RemovesThoseOfKilledOwnersOnly) {
  fs::create_directory(parent + "/another");
  std::ofstream(parent + "/tandem-file") << "no folder";
  SharedFolder alive;
  alive.make(parent);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  pid_t child = ::fork();
  if (child == 0) {
    SharedFolder killed;
    killed.make(parent);
    std::string name = fs::path(killed.path()).filename();
    if (::write(ready[1], name.data(), name.size()) < 0)
      ::_exit(1);
    ::pause();
  }
  char name[64] = "";
  ASSERT_GT(::read(ready[0], name, sizeof name - 1), 0);
  std::string left = parent + "/" + name;
  {
    SharedFolder meanwhile;
    meanwhile.make(parent);
    EXPECT_TRUE(fs::exists(left));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::exists(left));
  SharedFolder next;
  next.make(parent);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(alive.path()));
  EXPECT_TRUE(fs::exists(parent + "/another"));
  EXPECT_TRUE(fs::exists(parent + "/tandem-file"));
  for (int end : ready)
    ::close(end);
}

TEST_F(SharedFolderTest, RemovesNothingThatItDidNotMake) {
  // As a user might call them; the last is also named as make() would.
  for (const char *name : {"/tandem-data", "/tandem-review-notes", "/tandem-backup"}) {
    fs::create_directory(parent + name);
    std::ofstream(parent + name + "/file") << "x";
  }
  SharedFolder folder;
  folder.make(parent);
  ASSERT_NE(folder.path(), "");
  for (const char *name : {"/tandem-data", "/tandem-review-notes", "/tandem-backup"})
    EXPECT_TRUE(fs::exists(parent + name + "/file")) << name;
}

TEST_F(SharedFolderTest, NoParent) {
  SharedFolder folder;
  folder.make(parent + "/none");
  EXPECT_EQ(folder.path(), "");
}
