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
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status))
    return Status(Code::Io, fmt::format("cannot read \"{}\": not a regular file", path));
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Status(Code::Io, fmt::format("cannot open \"{}\": {}", path, std::strerror(errno)));
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad())
    return Status(Code::Io, fmt::format("cannot read \"{}\": {}", path, std::strerror(errno)));
  return bytes;
}

/// The least that a file needs of a disk, in bytes.
static constexpr size_t kBlock = 4096;

static Status cannotWrite(const std::string &path, const std::string &why) {
  return Status(Code::Io, fmt::format("cannot write \"{}\": {}", path, why));
}

static Status writeBytes(const std::string &path, std::string_view bytes) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file ? Status() : cannotWrite(path, std::strerror(errno));
}

/// Whether a file of that name can be made; it is empty then.
static bool make(const fs::path &path) {
  return bool(std::ofstream(path, std::ios::binary | std::ios::trunc));
}

/// The file that is written before it replaces `target`.
static fs::path partOf(const fs::path &target) {
  return fmt::format("{}.{}.tmp", target.string(), ::getpid());
}

Status run::writeFile(const std::string &path, std::string_view bytes) {
  return replaceFile(path, [&](const std::string &part) { return writeBytes(part, bytes); });
}

Status run::replaceFile(const std::string &path,
                        const std::function<Status(const std::string &)> &write) {
  std::error_code error;
  fs::path target(path);
  fs::file_status status = fs::status(target, error);
  if (fs::exists(status) && !fs::is_regular_file(status))
    return write(path);
  // What a link points to is replaced, not the link.
  if (fs::path real = fs::canonical(target, error); !error)
    target = real;
  fs::path part = partOf(target);
  if (!make(part)) // a folder where no other file can be made
    return write(path);
  Status written = write(part.string());
  if (!written.ok()) {
    std::string message = written.message();
    if (size_t at = message.find(part.string()); at != std::string::npos)
      message.replace(at, part.string().size(), path);
    written = Status(written.code(), message);
  } else if (fs::rename(part, target, error); error) {
    written = cannotWrite(path, error.message());
  }
  if (!written.ok())
    fs::remove(part, error);
  return written;
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
  fs::path part = partOf(target);
  errno = 0;
  if (!make(part)) // as in replaceFile()
    return exists ? Status() : cannotWrite(path, std::strerror(errno));
  Status written = writeBytes(part.string(), std::string(kBlock, ' '));
  int reason = errno;
  fs::remove(part, error);
  return written.ok() ? written : cannotWrite(path, std::strerror(reason));
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
