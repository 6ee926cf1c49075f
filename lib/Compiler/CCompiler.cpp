//===- CCompiler.cpp - the compiler's C API ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Compiler.h"

#include "LoopsJson.h"
#include "tandem/Compiler/Family.h"
#include "tandem/Program/CStruct.h"
#include "tandem/Program/Printable.h"

#include <new>

using namespace tandem;
using namespace tandem::compiler;

static_assert(TANDEM_NO_PADDING_AFTER(tandem_mesh_size, size) &&
              TANDEM_NO_PADDING_AFTER(tandem_argument_shape, rank) &&
              TANDEM_NO_PADDING_AFTER(tandem_compile_options, reserved) &&
              TANDEM_NO_PADDING_AFTER(tandem_family_options, reserved) &&
              TANDEM_NO_PADDING_AFTER(tandem_module_options, directory));

struct tandem_compilation {
  std::shared_ptr<const CompileResult> result;
  std::vector<std::string> messages; ///< with notes
  std::string loops;                 ///< JSON
};

struct tandem_module_compiler {
  ModuleCompiler compiler;
  Status settings; ///< whether the options could be read
};

struct tandem_family {
  ProgramFamily family;
  Status settings; ///< whether the options could be read
};

static Status convert(const tandem_compile_options *given, CompileOptions &to) {
  if (!given)
    return Status();
  tandem_compile_options from;
  TANDEM_RETURN_IF_ERROR(readStruct(given, "tandem_compile_options", from));
#define TANDEM_OPTIONS_OF_C
#define TANDEM_OPTION_TEXT(field, member, ...)                                                     \
  if (from.field)                                                                                  \
    to.member = from.field;
#define TANDEM_OPTION_NUMBER(type, field, member, ...)                                             \
  if (from.field)                                                                                  \
    to.member = from.field;
#define TANDEM_OPTION_SWITCH(field, member, ...) to.member = from.field != 0;
#define TANDEM_OPTION_OPT_OUT(field, member, ...) to.member = from.field == 0;
#include "tandem-c/CompileOptions.def"
  for (size_t i = 0; i < from.num_mesh; ++i) {
    tandem_mesh_size axis;
    TANDEM_RETURN_IF_ERROR(readStruct(elementOf(from.mesh, i), "tandem_mesh_size", axis));
    to.mesh.emplace_back(axis.axis ? axis.axis : "", axis.size);
  }
  for (size_t i = 0; i < from.num_shapes; ++i) {
    tandem_argument_shape shape;
    TANDEM_RETURN_IF_ERROR(readStruct(elementOf(from.shapes, i), "tandem_argument_shape", shape));
    to.shapes.emplace_back(shape.argument ? shape.argument : "",
                           std::vector<int64_t>(shape.extents, shape.extents + shape.rank));
  }
  if (from.one_rank)
    to.rank = from.rank;
  return Status();
}

static Status checkText(const char *text, size_t size) {
  return text || !size ? Status()
                       : Status(Code::InvalidArgument,
                                fmt::format("text: expected {} bytes, found a null pointer", size));
}

/// A compilation that has not begun.
static std::shared_ptr<const CompileResult> refused(const Status &why) {
  CompileResult result;
  result.diagnostics.emplace_back();
  result.diagnostics.back().message = escapeControls(why.message());
  return std::make_shared<const CompileResult>(std::move(result));
}

static tandem_compilation *wrap(std::shared_ptr<const CompileResult> result) {
  auto *compilation = new (std::nothrow) tandem_compilation;
  if (!compilation)
    return nullptr;
  for (const Diagnostic &diagnostic : result->diagnostics) {
    std::string message = escapeControls(diagnostic.message);
    for (const Diagnostic &note : diagnostic.notes)
      message += "\n" + note.str();
    compilation->messages.push_back(std::move(message));
  }
  compilation->loops =
      loopsJson(result->loops).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  compilation->result = std::move(result);
  return compilation;
}

uint32_t tandem_compiler_version(void) { return TANDEM_VERSION; }
const char *tandem_compiler_version_string(void) { return TANDEM_VERSION_STRING; }

tandem_compilation *tandem_compile(const char *text, size_t size, const char *name,
                                   const tandem_compile_options *options) {
  CompileOptions converted;
  Status status = checkText(text, size);
  if (status.ok())
    status = convert(options, converted);
  if (!status.ok())
    return wrap(refused(status));
  return wrap(std::make_shared<const CompileResult>(
      compileText({text, size}, converted, name ? name : "input.mlir")));
}

void tandem_compilation_destroy(tandem_compilation *compilation) { delete compilation; }

int tandem_compilation_ok(const tandem_compilation *compilation) { return compilation->result->ok; }

const void *tandem_compilation_bytes(const tandem_compilation *compilation, size_t *size) {
  const std::string &bytes = compilation->result->output;
  *size = bytes.size();
  return bytes.empty() ? nullptr : bytes.data();
}

const char *tandem_compilation_loops(const tandem_compilation *compilation) {
  return compilation->loops.c_str();
}

size_t tandem_compilation_num_diagnostics(const tandem_compilation *compilation) {
  return compilation->messages.size();
}

int tandem_compilation_diagnostic(const tandem_compilation *compilation, size_t index,
                                  tandem_diagnostic *diagnostic) {
  if (index >= compilation->messages.size())
    return 0;
  const Diagnostic &from = compilation->result->diagnostics[index];
  tandem_diagnostic result{};
  result.severity = static_cast<tandem_severity>(from.severity);
  result.message = compilation->messages[index].c_str();
  result.file = from.file.c_str();
  result.line = from.line;
  result.column = from.column;
  return writeStruct(result, "tandem_diagnostic", diagnostic).ok();
}

tandem_module_compiler *tandem_module_compiler_create(const char *text, size_t size,
                                                      const tandem_module_options *options) {
  CompilerSettings settings;
  tandem_module_options given{};
  Status status = checkText(text, size);
  if (!status.ok())
    size = 0;
  else if (options)
    status = readStruct(options, "tandem_module_options", given);
  if (given.name)
    settings.name = given.name;
  if (given.max_programs)
    settings.limits.programs = given.max_programs;
  if (given.max_bytes)
    settings.limits.bytes = given.max_bytes;
  if (given.directory)
    settings.directory = given.directory;
  return new (std::nothrow)
      tandem_module_compiler{ModuleCompiler(std::string_view(text, size), settings), status};
}

void tandem_module_compiler_destroy(tandem_module_compiler *compiler) { delete compiler; }

tandem_compilation *tandem_module_compile(tandem_module_compiler *compiler,
                                          const tandem_compile_options *options) {
  CompileOptions converted;
  Status status = compiler->settings.ok() ? convert(options, converted) : compiler->settings;
  return wrap(status.ok() ? compiler->compiler.compile(converted) : refused(status));
}

void tandem_module_compiler_statistics(const tandem_module_compiler *compiler,
                                       tandem_cache_statistics *statistics) {
  CacheStatistics counts = compiler->compiler.statistics();
  tandem_cache_statistics result{0,
                                 counts.hits,
                                 counts.joined,
                                 counts.compiled,
                                 counts.fromDisk,
                                 counts.failed,
                                 counts.evicted,
                                 counts.programs,
                                 counts.bytes};
  writeStruct(result, "tandem_cache_statistics", statistics).ignore();
}

static FamilySteps stepsOf(const tandem_family_options &given) {
  FamilySteps steps;
  steps.bound = given.bound;
  steps.step = given.step;
  if (given.unit)
    steps.unit = given.unit;
  if (given.per_doubling)
    steps.perDoubling = given.per_doubling;
  return steps;
}

tandem_family *tandem_family_create(tandem_module_compiler *compiler,
                                    const tandem_compile_options *options,
                                    const tandem_family_options *family) {
  tandem_family_options given;
  CompileOptions converted;
  Status status = readStruct(family, "tandem_family_options", given);
  if (status.ok())
    status = convert(options, converted);
  return new (std::nothrow) tandem_family{
      ProgramFamily(compiler->compiler, std::move(converted), stepsOf(given)), std::move(status)};
}

void tandem_family_destroy(tandem_family *family) { delete family; }

int64_t tandem_family_step(const tandem_family *family, int64_t extent) {
  const FamilySteps &steps = family->family.steps();
  return !steps.check(extent).empty() ? -1 : steps.roundUp(extent);
}

int64_t tandem_round_up_extent(int64_t extent, const tandem_family_options *family) {
  tandem_family_options given{};
  if (!readStruct(family, "tandem_family_options", given).ok())
    return -1;
  FamilySteps steps = stepsOf(given);
  steps.bound = INT64_MAX;
  return !steps.check(extent).empty() ? -1 : steps.roundUp(extent);
}

tandem_compilation *tandem_family_program(tandem_family *family, int64_t extent) {
  if (!family->settings.ok())
    return wrap(refused(family->settings));
  return wrap(family->family.program(extent));
}

tandem_compilation *tandem_family_compile_all(tandem_family *family, uint32_t threads) {
  if (!family->settings.ok())
    return wrap(refused(family->settings));
  return wrap(family->family.compileAll(threads));
}
