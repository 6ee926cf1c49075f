//===- AlgorithmCache.cpp - algorithms chosen in earlier runs -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AlgorithmCache.h"

#include "tandem/Program/Files.h"

#include <fmt/format.h>
#include <sstream>
#include <string_view>
#include <unistd.h>
#include <xxhash.h>

namespace tandem::gpu {

static constexpr std::string_view kFileVersion = "tandem algorithms 1\n";

static std::string checksum(std::string_view body) {
  return fmt::format("end {:016x}\n", XXH3_64bits(body.data(), body.size()));
}

AlgorithmCache AlgorithmCache::read(const std::string &path, const Log &log) {
  AlgorithmCache cache;
  auto read = readWhole(path);
  if (!read && ::access(path.c_str(), F_OK) != 0)
    return cache;
  std::string text = read ? std::move(*read) : "";
  size_t end = text.rfind("end ");
  bool good = text.compare(0, kFileVersion.size(), kFileVersion) == 0 && end != std::string::npos &&
              text.substr(end) == checksum(std::string_view(text).substr(0, end));
  std::istringstream lines(good ? text.substr(kFileVersion.size(), end - kFileVersion.size()) : "");
  for (std::string line; good && std::getline(lines, line);) {
    size_t first = line.find('\t'), second = line.find('\t', first + 1);
    good = first != std::string::npos && second != std::string::npos;
    if (good)
      cache.add(line.substr(0, first), line.substr(first + 1, second - first - 1),
                line.substr(second + 1));
  }
  if (good)
    return cache;
  log(LogLevel::Warning, path + " is not a complete file of algorithms: ignored");
  return {};
}

Status AlgorithmCache::write(const std::string &path) const {
  std::string text(kFileVersion);
  for (const auto &[what, algorithm] : choices)
    text += fmt::format("{}\t{}\t{}\n", what.first, what.second, algorithm);
  text += checksum(text);
  return writeFile(path, text);
}

} // namespace tandem::gpu
