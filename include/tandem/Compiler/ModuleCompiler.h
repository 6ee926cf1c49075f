//===- ModuleCompiler.h - one module, many sizes ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For an embedder whose shapes are known only when it runs: the module is read once, its `?` become
// numbers at each compile, and what has been compiled for some sizes is kept. This header needs
// neither LLVM nor MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_MODULECOMPILER_H
#define TANDEM_COMPILER_MODULECOMPILER_H

#include "tandem/Compiler/Compiler.h"

#include <cstddef>
#include <memory>

namespace tandem::compiler {

/// How much is kept. What was asked for longest ago goes first.
struct CacheLimits {
  size_t programs = 256;
  /// Of the programs and their keys.
  uint64_t bytes = uint64_t(256) << 20;
};

struct CacheStatistics {
  uint64_t hits = 0;     ///< found in memory
  uint64_t joined = 0;   ///< waited for another thread that was compiling the same
  uint64_t compiled = 0; ///< compiled, with or without success
  uint64_t fromDisk = 0; ///< read from CompilerSettings::directory
  uint64_t failed = 0;   ///< of the compiled: are not kept
  uint64_t evicted = 0;  ///< gone for the limits
  uint64_t bypassed = 0; ///< compiles whose options ask for more than a program
  size_t programs = 0;   ///< in memory now
  uint64_t bytes = 0;    ///< in memory now
};

struct CompilerSettings {
  /// Stands for the module in diagnostics.
  std::string name = "input.mlir";
  CacheLimits limits;
  /// A folder (made if need be) in which programs outlive the process; empty: none. Processes may
  /// share it. A file counts only if it was written by this very build of the compiler, for the
  /// same text and options, and its content hash is right; else it is compiled and written anew.
  /// What cannot be written is not reported. Nothing in it is ever deleted.
  std::string directory;
};

/// A module and the programs that were compiled from it. Every member may be called by any number
/// of threads at once.
class ModuleCompiler {
public:
  /// Reads `text` (or bytecode). If it cannot be read, every compile says why.
  explicit ModuleCompiler(std::string_view text, CompilerSettings settings = {});
  ~ModuleCompiler();
  ModuleCompiler(const ModuleCompiler &) = delete;
  ModuleCompiler &operator=(const ModuleCompiler &) = delete;

  /// The program for these options: never null, immutable, and the caller's for as long as it holds
  /// it. Compiled at most once while it is kept: threads that ask for what another is compiling
  /// wait for that. What fails is not kept. Options that ask for more than a program (`log`,
  /// `statistics`, `snapshotDirectory`) are compiled each time, and not kept either.
  ///
  /// Sizes and shapes mean what they mean in CompileOptions, in any order; an argument that is
  /// named once by name and once by position makes two programs of the same bytes.
  std::shared_ptr<const CompileResult> compile(const CompileOptions &options = {});

  CacheStatistics statistics() const;
  /// Forgets what is kept in memory. Who holds a program keeps it.
  void clear();

private:
  class Implementation;
  std::unique_ptr<Implementation> implementation;
};

} // namespace tandem::compiler

#endif // TANDEM_COMPILER_MODULECOMPILER_H
