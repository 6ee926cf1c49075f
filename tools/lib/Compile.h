//===- Compile.h - .mlir as input, where there is a compiler ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The seam between compiler and runtime: neither LLVM nor the runtime is seen here.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_COMPILE_H
#define TANDEM_RUN_COMPILE_H

#include "tandem/Compiler/Compiler.h"

namespace tandem::run {

struct CompileRequest {
  std::string path;
  /// `mesh` and `shapes` are filled in from the texts. `numRanks`: 0: not known. Without `mesh`, an
  /// axis of size `?` gets it; ranks outside of the meshes run nothing.
  compiler::CompileOptions options;
  std::vector<std::string> mesh;   ///< "x=4"
  std::vector<std::string> shapes; ///< "arg0=8x16"
  /// Ranks of each node. Without `mesh`, if a mesh has two axes of size `?`, the second gets it and
  /// the first the number of nodes. 0: all ranks are on one node.
  uint32_t ranksPerNode = 0;
};

struct CompiledProgram {
  bool ok = false;
  std::string bytes;  ///< of a .tsp
  std::string errors; ///< lines; unless ok
};

/// Whether this tool can compile at all.
bool hasCompiler();
/// What CompileOptions::target may be; nothing without a compiler.
std::vector<std::string> targetNames();

CompiledProgram compileProgram(const CompileRequest &request);

} // namespace tandem::run

#endif // TANDEM_RUN_COMPILE_H
