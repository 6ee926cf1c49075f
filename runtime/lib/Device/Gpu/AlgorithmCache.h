//===- AlgorithmCache.h - algorithms chosen in earlier runs -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_DEVICE_GPU_ALGORITHMCACHE_H
#define TANDEM_RUNTIME_LIB_DEVICE_GPU_ALGORITHMCACHE_H

#include "tandem/Program/Status.h"
#include "tandem/Runtime/Log.h"

#include <map>
#include <string>
#include <utility>
namespace tandem::gpu {

/// The fastest algorithm of each problem on each GPU model, stored in a text file: a version line,
/// lines "DEVICE<tab>PROBLEM<tab>ALGORITHM", then a checksum.
class AlgorithmCache {
public:
  /// Empty if the file is missing. Empty, with a warning, if it is invalid or truncated.
  static AlgorithmCache read(const std::string &path, const Log &log);

  /// Writes a temporary file and renames it, so readers see the old or the new file.
  Status write(const std::string &path) const;

  /// Null if unknown. `device` names the GPU model and the library version.
  const std::string *find(const std::string &device, const std::string &problem) const {
    auto found = choices.find({device, problem});
    return found == choices.end() ? nullptr : &found->second;
  }

  /// The strings contain no tab or newline. True if the entry is new.
  bool add(const std::string &device, const std::string &problem, const std::string &algorithm) {
    std::string &known = choices[{device, problem}];
    return std::exchange(known, algorithm) != algorithm;
  }

private:
  std::map<std::pair<std::string, std::string>, std::string> choices;
};

} // namespace tandem::gpu

#endif // TANDEM_RUNTIME_LIB_DEVICE_GPU_ALGORITHMCACHE_H
