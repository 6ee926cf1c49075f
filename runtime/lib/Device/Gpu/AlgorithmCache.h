//===- AlgorithmCache.h - choices that outlive the process ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_ALGORITHMCACHE_H
#define TANDEM_LIB_DEVICE_GPU_ALGORITHMCACHE_H

#include "tandem/Program/Status.h"

#include <map>
#include <string>
#include <utility>

namespace tandem::gpu {

/// Which algorithm was the fastest for a problem on a device: a file of lines "DEVICE<tab>PROBLEM
/// <tab>ALGORITHM", with a version before them and a checksum behind them.
class AlgorithmCache {
public:
  /// No such file: empty. Not such a file, or cut off: empty, with a line on stderr.
  static AlgorithmCache read(const std::string &path);
  /// Under another name first, so that a reader finds the old file or the new one.
  Status write(const std::string &path) const;

  /// Null if it is not known. `device` names the GPU's model and the library's version.
  const std::string *find(const std::string &device, const std::string &problem) const;
  /// None of them has a tab or a line's end. True if that is news.
  bool add(const std::string &device, const std::string &problem, const std::string &algorithm);

private:
  std::map<std::pair<std::string, std::string>, std::string> choices;
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_ALGORITHMCACHE_H
