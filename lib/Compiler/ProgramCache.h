//===- ProgramCache.h - compiled programs by key ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Needs neither LLVM nor MLIR, so it can be tested alone (and under TSan).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_COMPILER_PROGRAMCACHE_H
#define TANDEM_LIB_COMPILER_PROGRAMCACHE_H

#include "tandem/Compiler/ModuleCompiler.h"

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <unordered_map>

namespace tandem::compiler {

/// Programs by key; evicts the least recently used. Thread-safe.
class ProgramCache {
public:
  using Program = std::shared_ptr<const CompileResult>;

  explicit ProgramCache(CacheLimits limits) : limits(limits) {}

  /// The program of `key`; calls `make` if it is missing. One of several concurrent callers calls
  /// `make`, without a lock; all get its result, including failures. `make` must not request the
  /// same key.
  Program get(const std::string &key, const std::function<CompileResult()> &make);

  /// hits, joined, failed, evicted, programs and bytes; the caller fills the rest.
  CacheStatistics statistics() const;
  void clear();

private:
  struct Slot {
    /// Null while it is being compiled.
    Program program;
    uint64_t bytes = 0;
    std::list<const std::string *>::iterator place; ///< in `recency`, once compiled
  };
  /// Shared with waiting threads: the slot may be evicted before they wake.
  struct Flight {
    Program program;
  };

  void keep(const std::string &key, const Program &program);
  void shrink();

  const CacheLimits limits;
  mutable std::mutex mutex;
  std::condition_variable landed;
  std::unordered_map<std::string, Slot> slots;
  std::unordered_map<std::string, std::shared_ptr<Flight>> flights;
  /// Keys of `slots`, most recently used first.
  std::list<const std::string *> recency;
  CacheStatistics counts;
};

} // namespace tandem::compiler

#endif // TANDEM_LIB_COMPILER_PROGRAMCACHE_H
