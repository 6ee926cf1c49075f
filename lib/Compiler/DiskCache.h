//===- DiskCache.h - compiled programs that outlive a process ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_COMPILER_DISKCACHE_H
#define TANDEM_LIB_COMPILER_DISKCACHE_H

#include "tandem/Compiler/Compiler.h"

namespace tandem::compiler {

/// A folder of programs: see CompilerSettings::directory. Safe for several threads and processes.
class DiskCache {
public:
  /// `scope`: the common part of all keys (the module's text). An empty directory disables the
  /// cache.
  DiskCache(std::string directory, std::string_view scope);

  /// The result stored for `key`; not ok if there is none or it is invalid.
  CompileResult load(const std::string &key) const;
  /// Stores a successful result without diagnostics. Ignores write errors.
  void store(const std::string &key, const CompileResult &result) const;

private:
  std::string path(const std::string &key) const;

  std::string directory; ///< empty: off
  std::string scope;     ///< a hash of the text and of this build of the compiler
};

} // namespace tandem::compiler

#endif // TANDEM_LIB_COMPILER_DISKCACHE_H
