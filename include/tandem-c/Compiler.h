/*===- tandem-c/Compiler.h - the compiler's C API -----------------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

/* Compiles the text of a fusion to a stream program, which tandem-c/Runtime.h runs. Thread-safe.
 *
 * Every struct begins with struct_size, which the caller sets to sizeof; in arrays, in every
 * element. The library reads and writes no more than that. Fields beyond an older caller's size
 * count as 0. A newer caller may not set fields that the library does not know.
 */

#ifndef TANDEM_C_COMPILER_H
#define TANDEM_C_COMPILER_H

#include "tandem-c/Version.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tandem_compilation tandem_compilation;

/* TANDEM_VERSION and TANDEM_VERSION_STRING of the library. */
uint32_t tandem_compiler_version(void);
const char *tandem_compiler_version_string(void);

/* The size of a mesh axis that is `?`. */
typedef struct tandem_mesh_size {
  size_t struct_size;
  const char *axis; /* "x" or "mesh.x" */
  int64_t size;
} tandem_mesh_size;

/* The shape of an argument with `?` extents. */
typedef struct tandem_argument_shape {
  size_t struct_size;
  /* Its fusion.name, or "arg0" (first argument); the %name of the text is not kept. */
  const char *argument;
  const int64_t *extents;
  size_t rank;
} tandem_argument_shape;

/* What each field means, and its name in C++, Python and tools: tandem-c/CompileOptions.def. Zero
 * everything but struct_size for the defaults; a switch is set by any other number. */
typedef struct tandem_compile_options {
  size_t struct_size;
#define TANDEM_OPTIONS_OF_C
#define TANDEM_OPTION_TEXT(field, member, stage, name, value, description) const char *field;
#define TANDEM_OPTION_NUMBER(type, field, member, stage, name, value, description) type field;
#define TANDEM_OPTION_SWITCH(field, member, stage, name, description) int field;
#define TANDEM_OPTION_OPT_OUT(field, member, stage, name, description) int field;
/* Sizes of mesh axes that are `?`, and shapes of arguments with `?` extents (-1: it varies, up to
 * `bound`). */
#define TANDEM_OPTION_SIZES                                                                        \
  const tandem_mesh_size *mesh;                                                                    \
  size_t num_mesh;                                                                                 \
  const tandem_argument_shape *shapes;                                                             \
  size_t num_shapes;
/* `one_rank`: only `rank` is written. */
#define TANDEM_OPTION_RANK                                                                         \
  int one_rank;                                                                                    \
  uint32_t rank;
#include "tandem-c/CompileOptions.def"
  uint32_t reserved; /* 0 */
} tandem_compile_options;

typedef enum tandem_severity {
  TANDEM_ERROR = 0,
  TANDEM_WARNING = 1,
  TANDEM_REMARK = 2,
  TANDEM_NOTE = 3
} tandem_severity;

typedef struct tandem_diagnostic {
  size_t struct_size;
  tandem_severity severity;
  const char *message; /* notes follow on lines of their own */
  const char *file;    /* "" if unknown */
  uint32_t line, column;
} tandem_diagnostic; /* pointers live as long as the compilation */

/* Compiles `size` bytes of text (or MLIR bytecode); `name` (NULL: "input.mlir") is their
 * name in diagnostics. NULL options: the defaults. Invalid options are a diagnostic. Destroy the
 * result; NULL only if out of memory.
 */
tandem_compilation *tandem_compile(const char *text, size_t size, const char *name,
                                   const tandem_compile_options *options);
void tandem_compilation_destroy(tandem_compilation *compilation);
/* Not 0 if there is a program. */
int tandem_compilation_ok(const tandem_compilation *compilation);
/* The bytes of a .tsp file; NULL and 0 if there is none. They live as long as the compilation. */
const void *tandem_compilation_bytes(const tandem_compilation *compilation, size_t *size);
/* How each loop of reshards and compute is run, and what else was priced: a JSON list of objects
 * with "reshards", "locations", "schedule", "source", "signature" (equal for equal loops; files of
 * measured choices have it, docs/benchmarking.md) and "candidates" [{"schedule", "seconds"}].
 * Without a machine file signature and candidates are empty. Times of a whole run are 0: see
 * tandem_explain_program. It lives as long as the compilation. */
const char *tandem_compilation_loops(const tandem_compilation *compilation);
size_t tandem_compilation_num_diagnostics(const tandem_compilation *compilation);
/* Returns 0 and leaves *diagnostic unchanged if `index` is too large or its struct_size is 0. */
int tandem_compilation_diagnostic(const tandem_compilation *compilation, size_t index,
                                  tandem_diagnostic *diagnostic);

/* A module that is read once and compiled for several sizes. Programs are cached; concurrent
 * requests for the same one compile it once. Thread-safe. See docs/fusion.md, "From `?` to
 * numbers". */
typedef struct tandem_module_compiler tandem_module_compiler;

/* Zero everything but struct_size for the defaults. */
typedef struct tandem_module_options {
  size_t struct_size;
  const char *name;      /* in diagnostics; NULL: "input.mlir" */
  uint64_t max_programs; /* kept in memory; 0: 256 */
  uint64_t max_bytes;    /* of the cached programs; 0: 256 MiB */
  const char *directory; /* cache on disk; NULL: none */
} tandem_module_options;

typedef struct tandem_cache_statistics {
  size_t struct_size;
  uint64_t hits, joined, compiled, from_disk, failed, evicted;
  uint64_t programs, bytes; /* in memory now */
} tandem_cache_statistics;

/* NULL only if out of memory. Every compile reports text that cannot be read. */
tandem_module_compiler *tandem_module_compiler_create(const char *text, size_t size,
                                                      const tandem_module_options *options);
/* Call after its last compile; its compilations stay valid. */
void tandem_module_compiler_destroy(tandem_module_compiler *compiler);
/* Like tandem_compile for the module; destroy the result. Compilations with equal options share
 * their bytes. */
tandem_compilation *tandem_module_compile(tandem_module_compiler *compiler,
                                          const tandem_compile_options *options);
/* No effect if the struct_size of *statistics is 0. */
void tandem_module_compiler_statistics(const tandem_module_compiler *compiler,
                                       tandem_cache_statistics *statistics);

/* A module's programs for an extent that varies from run to run, such as the number of tokens: few
 * serve all extents up to a bound. Thread-safe. See docs/families.md. */
typedef struct tandem_family tandem_family;

/* Zero everything but struct_size and bound for the defaults. */
typedef struct tandem_family_options {
  size_t struct_size;
  int64_t bound;         /* the largest extent */
  int64_t unit;          /* programs are for multiples of this; 0: 64 */
  int64_t step;          /* not 0: programs are for multiples of this; `per_doubling` is not read */
  uint32_t per_doubling; /* programs between n and 2n; 0: 4 */
  uint32_t reserved;     /* 0 */
} tandem_family_options;

/* Copies the options; the `bound` of compile options is not read. The compiler outlives the family.
 * NULL only if out of memory. */
tandem_family *tandem_family_create(tandem_module_compiler *compiler,
                                    const tandem_compile_options *options,
                                    const tandem_family_options *family);
void tandem_family_destroy(tandem_family *family);
/* The bound of the program that serves `extent`; -1 if that is not from 0 to the family's bound. */
int64_t tandem_family_step(const tandem_family *family, int64_t extent);
/* The same without a family, whose bound is not read; -1 if `extent` is negative. For callers that
 * pad to these extents. */
int64_t tandem_round_up_extent(int64_t extent, const tandem_family_options *family);
/* That program, for tandem_set_extent (tandem-c/Instance.h). Compiled at the first call for its
 * step. Destroy the result. */
tandem_compilation *tandem_family_program(tandem_family *family, int64_t extent);
/* Compiles all programs on `threads` threads (0: one), so that tandem_family_program only looks
 * them up. One that failed, else the last; destroy it. */
tandem_compilation *tandem_family_compile_all(tandem_family *family, uint32_t threads);

/* What is known of a compiled program, the bytes of a .tsp file, without running it. Needs no
 * device. Destroy the report; NULL only if out of memory. Thread-safe. */
typedef struct tandem_report tandem_report;

/* The certificate: what is proven; how each loop of reshards and compute
 * is run, whether its communication is overlapped or why not, and the runners-up with their
 * predicted times (with `machine` and `certify`). JSON: {"producer", "properties", "limits",
 * "data", "machine", "seconds", "baseline_seconds", "loops": [{"reshards", "locations", "schedule",
 * "source", "communication_seconds", "exposed_seconds", "explanation", "candidates": [{"schedule",
 * "seconds"}]}]}. */
tandem_report *tandem_explain_program(const void *bytes, size_t size);

/* Zero everything but struct_size for the defaults. */
typedef struct tandem_check_options {
  size_t struct_size;
  uint32_t lint;    /* not 0: also report legal but slow code */
  uint32_t threads; /* 0: one per core, at most 8 */
} tandem_check_options;

/* Replays all ranks' commands: can the program hang, race, or differ from its unsharded reference?
 * (docs/semantics.md.) A program with findings is a report, too.
 * JSON: {"ok", "program", "ranks", "commands", "findings": [{"diagnosis", "severity", "message",
 * "commands", "notes"}], "counts", "limits", "data"}. */
tandem_report *tandem_check_program(const void *bytes, size_t size,
                                    const tandem_check_options *options);

/* Zero everything but struct_size and machine for the defaults. */
typedef struct tandem_simulate_options {
  size_t struct_size;
  const char *machine; /* machine file: a path, or a name such as "h200x8" */
  uint32_t no_graph;   /* not 0: commands are enqueued one by one */
  uint32_t reserved;   /* 0 */
} tandem_simulate_options;

/* Simulates one run of all ranks (docs/simulator.md).
 * JSON: {"program", "machine", "ranks", "seconds", "sequential_seconds", "speedup",
 * "exposed_seconds", "utilisation", "critical_path", "per_rank", ...}. */
tandem_report *tandem_simulate_program(const void *bytes, size_t size,
                                       const tandem_simulate_options *options);

/* Of `num` programs (the bytes of .tsp files) that compute the same, the plainest first: the index
 * of the one to run, by the times that their certificates predict and what `machine` demands that
 * others gain ("selection" in docs/simulator.md). 0 if a time or the machine file is missing. */
size_t tandem_choose_program(const void *const *bytes, const size_t *sizes, size_t num,
                             const char *machine);

/* The name of the machine file for `ranks` GPUs of one node, by the name that the driver has for
 * them ("NVIDIA H200"): "h200x2". Writes at most `size` bytes with the end of the text to `name`;
 * "" if there is none. Returns name. */
const char *tandem_find_machine(const char *gpu, uint32_t ranks, char *name, size_t size);

typedef enum tandem_report_form {
  TANDEM_REPORT_TEXT = 0,
  TANDEM_REPORT_JSON = 1,
  TANDEM_REPORT_SVG = 2 /* a drawing; of simulations only */
} tandem_report_form;

/* 0 if there is none: the text then is the reason (bytes of no program, an unknown machine, ...).
 */
int tandem_report_ok(const tandem_report *report);
/* NULL if the report has no such form. Lives as long as the report. */
const char *tandem_report_get(const tandem_report *report, tandem_report_form form);
void tandem_report_destroy(tandem_report *report);

#ifdef __cplusplus
}
#endif

#endif /* TANDEM_C_COMPILER_H */
