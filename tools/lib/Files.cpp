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
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Status(Code::Io, fmt::format("cannot open \"{}\": {}", path, std::strerror(errno)));
  std::string bytes;
  if (file.peek() != std::ifstream::traits_type::eof()) // a folder opens, too
    bytes.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  if (file.bad())
    return Status(Code::Io, fmt::format("cannot read \"{}\": {}", path, std::strerror(errno)));
  return bytes;
}

static Status cannotWrite(const std::string &path, const std::string &why) {
  return Status(Code::Io, fmt::format("cannot write \"{}\": {}", path, why));
}

static bool writeBytes(const fs::path &path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return bool(file);
}

Status run::writeFile(const std::string &path, std::string_view bytes) {
  std::error_code error;
  fs::path target(path);
  fs::file_status status = fs::status(target, error);
  if (fs::is_regular_file(status) || !fs::exists(status)) {
    // What a link points to is replaced, not the link.
    if (fs::path real = fs::canonical(target, error); !error)
      target = real;
    fs::path part(fmt::format("{}.{}.tmp", target.string(), ::getpid()));
    if (writeBytes(part, bytes)) {
      fs::rename(part, target, error);
      if (!error)
        return Status();
    }
    fs::remove(part, error);
  }
  // Also files in folders where no other can be made.
  errno = 0;
  return writeBytes(target, bytes) ? Status() : cannotWrite(path, std::strerror(errno));
}

Status run::checkWritable(const std::string &path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    return cannotWrite(path, std::strerror(EISDIR));
  if (fs::exists(path, error))
    return ::access(path.c_str(), W_OK) == 0 ? Status() : cannotWrite(path, std::strerror(errno));
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty())
    folder = ".";
  if (!fs::is_directory(folder, error))
    return cannotWrite(path, fmt::format("\"{}\" is not a folder", folder.string()));
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? Status()
                                                    : cannotWrite(path, std::strerror(errno));
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
