//===- AlgorithmCache.cpp - choices that outlive the process --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AlgorithmCache.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <unistd.h>
#include <xxhash.h>

namespace tandem::gpu {

namespace {

constexpr std::string_view kVersion = "tandem algorithms 1\n";

std::string checksum(std::string_view body) {
  return fmt::format("end {:016x}\n", XXH3_64bits(body.data(), body.size()));
}

} // namespace

AlgorithmCache AlgorithmCache::read(const std::string &path) {
  AlgorithmCache cache;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return cache;
  std::ostringstream all;
  all << file.rdbuf();
  std::string text = all.str();
  size_t end = text.rfind("end ");
  bool good = text.compare(0, kVersion.size(), kVersion) == 0 && end != std::string::npos &&
              text.substr(end) == checksum(std::string_view(text).substr(0, end));
  std::istringstream lines(good ? text.substr(kVersion.size(), end - kVersion.size()) : "");
  for (std::string line; good && std::getline(lines, line);) {
    size_t first = line.find('\t'), second = line.find('\t', first + 1);
    good = first != std::string::npos && second != std::string::npos;
    if (good)
      cache.add(line.substr(0, first), line.substr(first + 1, second - first - 1),
                line.substr(second + 1));
  }
  if (good)
    return cache;
  fmt::print(stderr, "tandem: {} is not a complete file of algorithms: ignored\n", path);
  return {};
}

Status AlgorithmCache::write(const std::string &path) const {
  std::string text(kVersion);
  for (const auto &[what, algorithm] : choices)
    text += fmt::format("{}\t{}\t{}\n", what.first, what.second, algorithm);
  text += checksum(text);
  std::string temporary = fmt::format("{}.{}", path, ::getpid());
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file && std::rename(temporary.c_str(), path.c_str()) == 0)
    return Status();
  Status status(Code::Io, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  std::remove(temporary.c_str());
  return status;
}

const std::string *AlgorithmCache::find(const std::string &device,
                                        const std::string &problem) const {
  auto found = choices.find({device, problem});
  return found == choices.end() ? nullptr : &found->second;
}

bool AlgorithmCache::add(const std::string &device, const std::string &problem,
                         const std::string &algorithm) {
  std::string &known = choices[{device, problem}];
  bool news = known != algorithm;
  known = algorithm;
  return news;
}

} // namespace tandem::gpu
