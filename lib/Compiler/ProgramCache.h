//===- ProgramCache.h - compiled programs by key ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Needs neither LLVM nor MLIR, so that it can be tested by itself (and under TSan).
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

/// Programs by key, the least recently used given up first. Any number of threads.
class ProgramCache {
public:
  using Program = std::shared_ptr<const CompileResult>;

  explicit ProgramCache(CacheLimits limits) : limits(limits) {}

  /// The program of `key`, from `make` if there is none. Of several threads that ask at once one
  /// calls `make`, without a lock held; the others get what it returns, failures too. `make` must
  /// not ask for the same key.
  Program get(const std::string &key, const std::function<CompileResult()> &make);

  /// hits, joined, failed, evicted, programs and bytes; the rest is the caller's.
  CacheStatistics statistics() const;
  void clear();

private:
  struct Slot {
    /// Null while it is being made.
    Program program;
    uint64_t bytes = 0;
    std::list<const std::string *>::iterator place; ///< in `recency`; once there is a program
  };
  /// What those who wait look at: the slot may be gone when they wake.
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
  /// Keys of `slots`, the most recently used first.
  std::list<const std::string *> recency;
  CacheStatistics counts;
};

} // namespace tandem::compiler

#endif // TANDEM_LIB_COMPILER_PROGRAMCACHE_H
