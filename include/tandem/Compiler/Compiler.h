//===- Compiler.h - the compiler as a library -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a module (text or bytecode) to a stream program. This header needs neither LLVM nor MLIR;
// who has a module in memory uses CompilerMLIR.h.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_COMPILER_H
#define TANDEM_COMPILER_COMPILER_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::compiler {

enum class Severity { Error, Warning, Remark, Note };

/// What the compiler has to say about one place.
struct Diagnostic {
  Severity severity = Severity::Error;
  /// Lower case, no final period.
  std::string message;
  /// Where: 1-based; an empty file name or line 0 if unknown.
  std::string file;
  unsigned line = 0, column = 0;
  std::vector<Diagnostic> notes;

  /// "file.mlir:3:5: error: message", notes on lines of their own.
  std::string str() const;
};

/// What the result is.
enum class Output {
  StreamProgram, ///< the bytes of a .tsp file
  HostIR         ///< the text of the host program that would be translated
};

struct CompileOptions {
  /// The function (or `hostir.program`) to compile, with or without `@`; empty: the only public
  /// one.
  std::string entry;
  /// Sizes of mesh axes that are `?`: {"x", 8}, or {"mesh.x", 8}.
  std::vector<std::pair<std::string, int64_t>> mesh;
  /// Shapes of arguments with `?` extents, by name or by position ("arg0"). Others take what
  /// `fusion.shape` says.
  std::vector<std::pair<std::string, std::vector<int64_t>>> shapes;
  /// A name of targetNames().
  std::string target = "cpu-ucx";
  /// The one rank to write; none: all. Messages are matched across ranks only where all are
  /// written.
  std::optional<uint32_t> rank;
  /// Ranks of the world; 0: as many as the meshes need.
  uint32_t numRanks = 0;
  /// Size of the pool of worker streams.
  unsigned workers = 4;
  /// A machine file, as a path or as the name of one that Tandem ships ("h200x8"): by its numbers
  /// schedules, slices and the sides of reshards are chosen where the module does not name them.
  /// Empty: by fixed rules.
  std::string machine;
  /// Where reshards go that could stand on either side of an op: "before", "after" or "cost";
  /// empty: by cost if there is a machine, else before.
  std::string gather;
  /// Put the oracle, the unsharded reference, into the file.
  bool oracle = true;
  /// Passes to leave out, by name: see passNames().
  std::vector<std::string> disabledPasses;
  /// Folder for numbered snapshots of the IR, one per pass; empty: none.
  std::string snapshotDirectory;
  /// Say as remarks what each pass did.
  bool log = false;
  /// Collect what the passes counted into CompileResult::statistics.
  bool statistics = false;
  /// Read the stream program back as a runtime would, and fail where it would refuse it.
  bool verifyOutput = true;
  /// Commands of one rank beyond which a program is taken for one without end.
  uint64_t maxCommands = uint64_t(1) << 24;
  Output output = Output::StreamProgram;
};

struct CompileResult {
  bool ok = false;
  /// Bytes or text, as asked for; empty unless ok.
  std::string output;
  /// In the order in which they came. At least one error unless ok.
  std::vector<Diagnostic> diagnostics;
  /// Of the stream program.
  uint32_t numRanks = 0;
  uint64_t numCommands = 0, numMessages = 0;
  /// Text for people; empty unless asked for.
  std::string statistics;

  explicit operator bool() const { return ok; }
  /// The errors as lines.
  std::string errorText() const;
};

/// Compiles text (or bytecode); `name` stands for it in diagnostics. Any number of threads may
/// compile at once, each call has a context of its own. Never throws; bad input of any kind gives
/// diagnostics.
CompileResult compileText(std::string_view text, const CompileOptions &options = {},
                          const std::string &name = "input.mlir");

/// The same for a file; "-" is the standard input.
CompileResult compileFile(const std::string &path, const CompileOptions &options = {});

/// What CompileOptions::target may be.
std::vector<std::string> targetNames();

/// The passes from a fusion to a planned host program, in order.
std::vector<std::string> passNames();

/// "tandem 0.1.0": written into stream programs.
std::string version();

} // namespace tandem::compiler

#endif // TANDEM_COMPILER_COMPILER_H
