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

/// A folder of programs: see CompilerSettings::directory. Any number of threads and processes.
class DiskCache {
public:
  /// `scope` is what all keys have in common (the module's text); an empty directory keeps nothing.
  DiskCache(std::string directory, std::string_view scope);

  /// What was stored for `key`; not ok if nothing was, or nothing that can be trusted.
  CompileResult load(const std::string &key) const;
  /// Keeps a result that is ok and had nothing to say. Failing to is no error.
  void store(const std::string &key, const CompileResult &result) const;

private:
  std::string path(const std::string &key) const;

  std::string directory; ///< empty: off
  std::string scope;     ///< a hash of the text and of this build of the compiler
};

} // namespace tandem::compiler

#endif // TANDEM_LIB_COMPILER_DISKCACHE_H
