//===- Compile.h - .mlir as input, where there is a compiler ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The seam between the two halves: neither LLVM nor the runtime is seen here.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_COMPILE_H
#define TANDEM_RUN_COMPILE_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tandem::run {

struct CompileRequest {
  std::string path;
  std::string text;                ///< the module itself, unless empty; then `path` only names it
  std::string entry;               ///< "": the only function
  std::vector<std::string> mesh;   ///< "x=4"
  std::vector<std::string> shapes; ///< "arg0=8x16"
  int64_t bound = 0;               ///< of extents that vary (CompileOptions::bound)
  std::string target;
  std::string machine; ///< by whose numbers schedules are chosen; "": by fixed rules
  uint32_t ranks = 0;  ///< 0: not known. Without `mesh`, an axis of size `?` gets it.
  /// Ranks of each node. Without `mesh`, if a mesh has two axes of size `?`, the second gets it and
  /// the first the number of nodes. 0: all ranks are on one node.
  uint32_t ranksPerNode = 0;
  /// The ranks node by node, the devices of meshes with axes of size `?`. Empty: 0, 1, ...
  std::vector<uint32_t> ranksByNode;
  std::string deterministic; ///< "bitwise" or "batch"; "": as the module says
  /// Loops by signature, and the candidate that each gets (CompileOptions::choices).
  std::vector<std::pair<std::string, std::string>> choices;
  bool check = true;    ///< prove the program (CompileOptions::check)
  bool certify = false; ///< the same, with a complete certificate
};

struct CompiledProgram {
  /// A loop that has been priced, and its candidates: the chosen one first.
  struct Loop {
    std::string signature;
    std::vector<std::string> candidates;
  };

  bool ok = false;
  std::string bytes;  ///< of a .tsp
  std::string errors; ///< lines; unless ok
  std::vector<Loop> loops;
};

/// Whether this tool can compile at all.
bool hasCompiler();
/// What CompileRequest::target may be; nothing without a compiler.
std::vector<std::string> targetNames();

CompiledProgram compileProgram(const CompileRequest &request);

} // namespace tandem::run

#endif // TANDEM_RUN_COMPILE_H
