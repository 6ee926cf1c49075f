//===- Compiler.h - the compiler as a library -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a module (text or bytecode) to a stream program. This header needs neither LLVM nor
// MLIR; CompilerMLIR.h compiles a module in memory, Certify.h proves what was compiled.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_COMPILER_H
#define TANDEM_COMPILER_COMPILER_H

#include "tandem/Program/Certificate.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::compiler {

enum class Severity { Error, Warning, Remark, Note };

/// A diagnostic and its location.
struct Diagnostic {
  Severity severity = Severity::Error;
  /// Lower case, no final period.
  std::string message;
  /// 1-based; an empty file name or line 0 if unknown.
  std::string file;
  unsigned line = 0, column = 0;
  std::vector<Diagnostic> notes;

  /// "file.mlir:3:5: error: message", with notes on separate lines.
  std::string str() const;
};

/// The form of the result.
enum class Output {
  StreamProgram, ///< the bytes of a .tsp file
  HostIR         ///< the text of the host program that would be translated
};

/// Options of one value are in tandem-c/CompileOptions.def, with what each means.
struct CompileOptions {
#define TANDEM_OPTION(type, member, stage, name, value, description) type member = value;
#include "tandem-c/CompileOptions.def"
  /// Sizes of mesh axes that are `?`: {"x", 8}, or {"mesh.x", 8}.
  std::vector<std::pair<std::string, int64_t>> mesh;
  /// Devices of the meshes with such axes that have as many devices. Empty: 0, 1, ...
  std::vector<int64_t> devices;
  /// Shapes of arguments with `?` extents, by name or position ("arg0"). Default: the argument's
  /// `fusion.shape`. -1: the extent varies, up to `bound`.
  std::vector<std::pair<std::string, std::vector<int64_t>>> shapes;
  /// The only rank to write; none: all. With one rank, messages are not matched across ranks.
  std::optional<uint32_t> rank;
  /// Loops by signature (Certificate::Loop), and the text of the candidate that each gets. They
  /// precede those of `tuned`.
  std::vector<std::pair<std::string, std::string>> choices;
  /// Not empty: for each loop with reshards, in the order of CompileResult::loops, the texts of the
  /// candidates among which the machine's costs decide, besides the plainest; none: all. Ignored if
  /// the program has another number of loops, or where a loop has no such candidate. Family.h sets
  /// it: pricing few candidates takes less time.
  std::vector<std::vector<std::string>> among;
  /// Passes to skip, by name: see passNames().
  std::vector<std::string> disabledPasses;
  Output output = Output::StreamProgram;
};

struct CompileResult {
  bool ok = false;
  /// It was compiled, but the proof found what the errors say (CompileOptions::check).
  bool isUnproven = false;
  /// Bytes or text as requested; empty unless ok.
  std::string output;
  /// The bytes of the baseline's .tsp file; empty unless requested, or if it does not compile.
  std::string baseline;
  /// With deterministic "tp": the bytes of the baseline's .tsp file for one device, whose bits it
  /// has.
  std::string onOneDevice;
  /// With the baseline and a machine: the program with another candidate for one of its loops, as
  /// text and as bytes of a .tsp file, for a certificate that compares with them.
  std::vector<std::pair<std::string, std::string>> alternatives;
  /// What is in the file, with what files do not store. Of a program from a cache on disk: empty.
  Certificate certificate;
  /// In order of emission. At least one error unless ok.
  std::vector<Diagnostic> diagnostics;
  /// Ranks of the stream program.
  uint32_t numRanks = 0;
  uint64_t numCommands = 0, numMessages = 0;
  /// How each loop of reshards and compute is run, without the times of a whole run (which are in
  /// `certificate`).
  /// Of a program from a cache on disk only `reshards`, `what` and `source`.
  std::vector<Certificate::Loop> loops;
  /// Text; empty unless requested.
  std::string statistics;

  explicit operator bool() const { return ok; }
  /// The errors, one per line.
  std::string errorText() const;
};

/// Compiles text (or bytecode); `name` is its name in diagnostics. Thread-safe: each call has its
/// own context. Never throws; bad input gives diagnostics.
CompileResult compileText(std::string_view text, const CompileOptions &options = {},
                          const std::string &name = "input.mlir");

/// Compiles a file; "-" is the standard input.
CompileResult compileFile(const std::string &path, const CompileOptions &options = {});

/// The values that CompileOptions::target accepts.
std::vector<std::string> targetNames();

/// The passes from a fusion to a planned host program, in order.
std::vector<std::string> passNames();

/// "tandem 0.2.0": written into stream programs.
std::string version();

} // namespace tandem::compiler

#endif // TANDEM_COMPILER_COMPILER_H
