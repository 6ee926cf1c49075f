//===- Compile.h - built fusions to stream programs -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Links libtandem_compiler.so (tandem-c/Compiler.h).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_BUILDER_COMPILE_H
#define TANDEM_COMPILER_BUILDER_COMPILE_H

#include "tandem-c/Compiler.h"
#include "tandem/Compiler/Builder.h"

namespace tandem::builder {
inline namespace TANDEM_VERSION_NAMESPACE {

/// What tandem_compile gives, as values.
struct Program {
  bool ok = false;
  /// Of a .tsp file, for tandem_program_load_memory; empty unless ok.
  std::string bytes;
  /// At least one error unless ok. Their file and line are those of the calls that built the ops.
  std::vector<Diagnostic> diagnostics;

  /// The errors, one per line.
  std::string errorText() const {
    std::string text;
    for (const Diagnostic &one : diagnostics)
      if (one.severity == Diagnostic::Severity::Error)
        text += (text.empty() ? "" : "\n") + one.str();
    return text;
  }
};

/// Compiles a fusion; its own diagnostics if it has any. Thread-safe for different fusions.
inline Program compile(const Fusion &fusion, const tandem_compile_options *options = nullptr) {
  Program program;
  program.diagnostics = fusion.diagnostics();
  if (!fusion.ok())
    return program;
  std::string text = fusion.text();
  tandem_compilation *compilation =
      tandem_compile(text.data(), text.size(), fusion.name().c_str(), options);
  if (!compilation) {
    program.diagnostics.emplace_back().message = "out of memory";
    return program;
  }
  for (size_t i = 0; i < tandem_compilation_num_diagnostics(compilation); ++i) {
    tandem_diagnostic found = {};
    found.struct_size = sizeof found;
    tandem_compilation_diagnostic(compilation, i, &found);
    Diagnostic &made = program.diagnostics.emplace_back();
    made.severity = static_cast<Diagnostic::Severity>(found.severity);
    made.message = found.message;
    made.file = found.file;
    made.line = found.line;
  }
  program.ok = tandem_compilation_ok(compilation) != 0;
  size_t size = 0;
  const void *bytes = tandem_compilation_bytes(compilation, &size);
  if (bytes)
    program.bytes.assign(static_cast<const char *>(bytes), size);
  tandem_compilation_destroy(compilation);
  return program;
}

} // namespace TANDEM_VERSION_NAMESPACE
} // namespace tandem::builder

#endif // TANDEM_COMPILER_BUILDER_COMPILE_H
