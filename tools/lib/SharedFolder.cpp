//===- SharedFolder.cpp - a job's folder of shared memory -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedFolder.h"

#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace tandem::run;

static constexpr std::string_view kPrefix = "tandem-";
/// In every folder that make() has made, and written while the folder is locked.
static constexpr const char *kMarker = ".tandem-run";

/// A locked descriptor of a folder of this user; -1: none such, or `wait` is false and its owner
/// lives.
static int lockFolder(const std::string &path, bool wait) {
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat info{};
  if (fd >= 0 && !::fstat(fd, &info) && info.st_uid == ::geteuid() &&
      !::flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB))
    return fd;
  if (fd >= 0)
    ::close(fd);
  return -1;
}

static bool isMarked(int folder) {
  struct stat info{};
  return !::fstatat(folder, kMarker, &info, AT_SYMLINK_NOFOLLOW) && S_ISREG(info.st_mode);
}

static bool mark(int folder) {
  int fd = ::openat(folder, kMarker, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0)
    ::close(fd);
  return fd >= 0;
}

static void removeLeftovers(const std::string &parent) {
  std::error_code error;
  std::filesystem::directory_iterator entry(parent, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().filename().string().compare(0, kPrefix.size(), kPrefix) != 0)
      continue;
    int fd = lockFolder(entry->path(), false);
    if (fd < 0)
      continue;
    std::error_code ignored;
    if (isMarked(fd))
      std::filesystem::remove_all(entry->path(), ignored);
    ::close(fd);
  }
}

void SharedFolder::make(const std::string &parent) {
  removeLeftovers(parent);
  std::string name = parent + "/" + std::string(kPrefix) + "XXXXXX";
  if (!::mkdtemp(name.data()))
    return;
  // Nobody takes the folder for a leftover: it has no marker before it is locked.
  lock = lockFolder(name, true);
  if (lock >= 0 && mark(lock)) {
    folder = name;
    return;
  }
  ::rmdir(name.c_str());
  if (lock >= 0)
    ::close(lock);
}

SharedFolder::~SharedFolder() {
  if (folder.empty())
    return;
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  ::close(lock);
}
