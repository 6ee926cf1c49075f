//===- CCompiler.cpp - the compiler's C API ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Compiler.h"

#include "tandem/Compiler/ModuleCompiler.h"

#include <algorithm>
#include <cstring>
#include <new>

using namespace tandem::compiler;

struct tandem_compilation {
  std::shared_ptr<const CompileResult> result;
  std::vector<std::string> messages; ///< with notes
};

struct tandem_module_compiler {
  ModuleCompiler compiler;
};

/// Fields unknown to an older caller are 0.
template <typename T> static T known(const T *options) {
  T result = {};
  if (options)
    std::memcpy(&result, options, std::min(options->struct_size, sizeof result));
  return result;
}

static CompileOptions convert(const tandem_compile_options &from) {
  CompileOptions to;
  if (from.entry)
    to.entry = from.entry;
  for (size_t i = 0; i < from.num_mesh; ++i)
    to.mesh.emplace_back(from.mesh[i].axis, from.mesh[i].size);
  for (size_t i = 0; i < from.num_shapes; ++i)
    to.shapes.emplace_back(
        from.shapes[i].argument,
        std::vector<int64_t>(from.shapes[i].extents, from.shapes[i].extents + from.shapes[i].rank));
  if (from.target)
    to.target = from.target;
  if (from.one_rank)
    to.rank = from.rank;
  to.numRanks = from.num_ranks;
  if (from.workers)
    to.workers = from.workers;
  to.oracle = !from.no_oracle;
  if (from.machine)
    to.machine = from.machine;
  if (from.gather)
    to.gather = from.gather;
  to.certify = from.certify != 0;
  if (from.tuned)
    to.tuned = from.tuned;
  if (from.deterministic)
    to.deterministic = from.deterministic;
  return to;
}

static tandem_compilation *wrap(std::shared_ptr<const CompileResult> result) {
  auto *compilation = new (std::nothrow) tandem_compilation;
  if (!compilation)
    return nullptr;
  for (const Diagnostic &diagnostic : result->diagnostics) {
    std::string message = diagnostic.message;
    for (const Diagnostic &note : diagnostic.notes)
      message += "\n" + note.str();
    compilation->messages.push_back(std::move(message));
  }
  compilation->result = std::move(result);
  return compilation;
}

tandem_compilation *tandem_compile(const char *text, size_t size, const char *name,
                                   const tandem_compile_options *options) {
  return wrap(std::make_shared<const CompileResult>(
      compileText({text, size}, convert(known(options)), name ? name : "input.mlir")));
}

void tandem_compilation_destroy(tandem_compilation *compilation) { delete compilation; }

int tandem_compilation_ok(const tandem_compilation *compilation) { return compilation->result->ok; }

const void *tandem_compilation_bytes(const tandem_compilation *compilation, size_t *size) {
  const std::string &bytes = compilation->result->output;
  *size = bytes.size();
  return bytes.empty() ? nullptr : bytes.data();
}

size_t tandem_compilation_num_diagnostics(const tandem_compilation *compilation) {
  return compilation->messages.size();
}

int tandem_compilation_diagnostic(const tandem_compilation *compilation, size_t index,
                                  tandem_diagnostic *diagnostic) {
  if (index >= compilation->messages.size())
    return 0;
  const Diagnostic &from = compilation->result->diagnostics[index];
  *diagnostic = {static_cast<tandem_severity>(from.severity), compilation->messages[index].c_str(),
                 from.file.c_str(), from.line, from.column};
  return 1;
}

tandem_module_compiler *tandem_module_compiler_create(const char *text, size_t size,
                                                      const tandem_module_options *options) {
  tandem_module_options given = known(options);
  CompilerSettings settings;
  if (given.name)
    settings.name = given.name;
  if (given.max_programs)
    settings.limits.programs = given.max_programs;
  if (given.max_bytes)
    settings.limits.bytes = given.max_bytes;
  if (given.directory)
    settings.directory = given.directory;
  return new (std::nothrow)
      tandem_module_compiler{ModuleCompiler(std::string_view(text, size), settings)};
}

void tandem_module_compiler_destroy(tandem_module_compiler *compiler) { delete compiler; }

tandem_compilation *tandem_module_compile(tandem_module_compiler *compiler,
                                          const tandem_compile_options *options) {
  return wrap(compiler->compiler.compile(convert(known(options))));
}

void tandem_module_compiler_statistics(const tandem_module_compiler *compiler,
                                       tandem_cache_statistics *statistics) {
  CacheStatistics counts = compiler->compiler.statistics();
  *statistics = {counts.hits,   counts.joined,  counts.compiled, counts.fromDisk,
                 counts.failed, counts.evicted, counts.programs, counts.bytes};
}
