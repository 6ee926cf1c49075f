//===- Files.cpp - files of tools -------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Files.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <system_error>
#include <unistd.h>
#include <vector>

using namespace tandem;
using namespace tandem::run;
namespace fs = std::filesystem;

Expected<std::string> run::readFile(const std::string &path) {
  auto bytes = readWhole(path, kMostFileBytes);
  return bytes ? std::move(bytes)
               : bytes.status().withPrefix(fmt::format("cannot read \"{}\": ", path));
}

/// The least that a file needs of a disk, in bytes.
static constexpr size_t kBlock = 4096;

static Status cannotWrite(const std::string &path, const std::string &why) {
  return Status(Code::Io, fmt::format("cannot write \"{}\": {}", path, why));
}

Status run::checkWritable(const std::string &path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    return cannotWrite(path, std::strerror(EISDIR));
  fs::path target(path), folder = target.parent_path();
  bool exists = fs::exists(target, error);
  if (exists && ::access(path.c_str(), W_OK) != 0)
    return cannotWrite(path, std::strerror(errno));
  if (exists && !fs::is_regular_file(target, error))
    return Status();
  if (!exists && !fs::is_directory(folder.empty() ? "." : folder, error))
    return cannotWrite(path, fmt::format("\"{}\" is not a folder", folder.string()));
  if (fs::path real = fs::canonical(target, error); !error)
    target = real;
  // Rights do not tell of file systems that take no files, or are full.
  fs::path part = fmt::format("{}.{}.tmp", target.string(), ::getpid());
  FileSizeErrors guard;
  errno = 0;
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  if (!file) // as in replaceFile()
    return exists ? Status() : cannotWrite(path, std::strerror(errno));
  file << std::string(kBlock, ' ');
  file.close();
  int reason = errno;
  fs::remove(part, error);
  return file ? Status() : cannotWrite(path, std::strerror(reason));
}

Status run::makeFolderAnew(const std::string &path,
                           const std::function<bool(const std::string &)> &ours) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error))
    return Status(Code::Io, fmt::format("\"{}\" is not a folder", path));
  std::vector<fs::path> old;
  if (fs::exists(path, error)) {
    fs::directory_iterator entry(path, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      if (!fs::is_regular_file(entry->symlink_status(error)) ||
          !ours(entry->path().filename().string()))
        return Status(
            Code::Io,
            fmt::format(
                "\"{}\" holds \"{}\", which no earlier --stage wrote: name an empty or new folder",
                path, entry->path().filename().string()));
      old.push_back(entry->path());
    }
  } else {
    fs::create_directories(path, error);
  }
  for (const fs::path &file : old)
    if (!error)
      fs::remove(file, error);
  return error ? Status(Code::Io, fmt::format("cannot make \"{}\": {}", path, error.message()))
               : Status();
}
