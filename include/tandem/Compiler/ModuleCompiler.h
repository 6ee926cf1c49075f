//===- ModuleCompiler.h - one module, many sizes ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For embedders whose shapes are known only at run time: reads the module once, fills in its `?` at
// each compile, and caches the programs. This header needs neither LLVM nor MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_MODULECOMPILER_H
#define TANDEM_COMPILER_MODULECOMPILER_H

#include "tandem/Compiler/Compiler.h"

#include <cstddef>
#include <memory>

namespace tandem::compiler {

/// Limits of the cache. The least recently used program is dropped first.
struct CacheLimits {
  size_t programs = 256;
  /// Bytes of the programs and their keys.
  uint64_t bytes = uint64_t(256) << 20;
};

struct CacheStatistics {
  uint64_t hits = 0;     ///< found in memory
  uint64_t joined = 0;   ///< waited for another thread's compile of the same program
  uint64_t compiled = 0; ///< compiled, with or without success
  uint64_t fromDisk = 0; ///< read from CompilerSettings::directory
  uint64_t failed = 0;   ///< of the compiled; not cached
  uint64_t evicted = 0;  ///< dropped because of the limits
  uint64_t bypassed = 0; ///< compiles whose options request more than a program
  size_t programs = 0;   ///< in memory now
  uint64_t bytes = 0;    ///< in memory now
};

struct CompilerSettings {
  /// The module's name in diagnostics.
  std::string name = "input.mlir";
  CacheLimits limits;
  /// Cache folder on disk (created if missing); empty: none. Processes may share it. A file is used
  /// only if the same build of the compiler wrote it for the same text and options and its content
  /// hash is right; else it is replaced. Write errors are ignored. Files are never deleted.
  std::string directory;
};

/// A module and the programs compiled from it. Thread-safe.
class ModuleCompiler {
public:
  /// Reads `text` (or bytecode). If it cannot be read, every compile returns the errors.
  explicit ModuleCompiler(std::string_view text, CompilerSettings settings = {});
  ~ModuleCompiler();
  ModuleCompiler(const ModuleCompiler &) = delete;
  ModuleCompiler &operator=(const ModuleCompiler &) = delete;

  /// The program for these options: immutable, never null, shared with the caller. Threads that
  /// request a program while another compiles it wait for that compile. Failures are not cached.
  /// Options that request more than a program (`log`, `statistics`, `snapshotDirectory`) bypass the
  /// cache.
  ///
  /// Sizes and shapes are as in CompileOptions, in any order. Naming an argument once by name and
  /// once by position gives two cached programs with the same bytes.
  std::shared_ptr<const CompileResult> compile(const CompileOptions &options = {});

  CacheStatistics statistics() const;
  /// Drops the cached programs from memory; programs held by callers stay valid.
  void clear();

private:
  class Implementation;
  std::unique_ptr<Implementation> implementation;
};

} // namespace tandem::compiler

#endif // TANDEM_COMPILER_MODULECOMPILER_H
