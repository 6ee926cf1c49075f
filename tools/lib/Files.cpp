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

using namespace tandem;
using namespace tandem::run;

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

Status run::writeFile(const std::string &path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file ? Status() : Status(Code::Io, fmt::format("cannot write \"{}\"", path));
}

Status run::makeFolderAnew(const std::string &path, const std::string &mark) {
  namespace fs = std::filesystem;
  std::error_code error;
  bool ours = fs::is_empty(path, error) || fs::exists(fs::path(path) / mark, error);
  if (fs::exists(path, error) && (!fs::is_directory(path, error) || !ours))
    return Status(
        Code::Io,
        fmt::format("\"{}\" is there and holds no {}: give an empty or a new folder", path, mark));
  fs::remove_all(path, error);
  if (!error)
    fs::create_directories(path, error);
  return error ? Status(Code::Io, fmt::format("cannot make \"{}\": {}", path, error.message()))
               : Status();
}
