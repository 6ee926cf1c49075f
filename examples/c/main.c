/*===- main.c - compiles and runs a fusion, in C11 ----------------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

/* main FILE [MACHINE]: writes the program to FILE; a machine file chooses its schedules. */

#include "fusion.h"
#include "gather.h"

#include <tandem-c/Compiler.h>

int main(int argc, char **argv) {
  const void *bytes;
  size_t size, i;
  FILE *file;
  int failed;

  if (argc < 2) {
    fprintf(stderr, "usage: %s FILE [MACHINE]\n", argv[0]);
    return 2;
  }
  /* [docs: compile] */
  tandem_mesh_size mesh = {sizeof mesh, "x", 2}; /* mesh axis "x" has 2 ranks */
  tandem_compile_options options = {.struct_size = sizeof options};
  options.mesh = &mesh;
  options.num_mesh = 1;
  options.target = "cpu-local";
  options.machine = argc > 2 ? argv[2] : NULL;
  tandem_compilation *compilation =
      tandem_compile(fusion, sizeof fusion - 1, "gather.mlir", &options);
  static const char *const severity[] = {"error", "warning", "remark", "note"};
  tandem_diagnostic diagnostic = {.struct_size = sizeof diagnostic};
  for (i = 0; tandem_compilation_diagnostic(compilation, i, &diagnostic); ++i)
    fprintf(stderr, "%s:%u:%u: %s: %s\n", diagnostic.file, (unsigned)diagnostic.line,
            (unsigned)diagnostic.column, severity[diagnostic.severity], diagnostic.message);
  bytes = tandem_compilation_bytes(compilation, &size); /* NULL after an error */
  /* [docs: end] */
  failed = !bytes || gather(bytes, size);
  if (!failed) {
    file = fopen(argv[1], "wb");
    failed = !file || fwrite(bytes, 1, size, file) != size;
    failed = !file || fclose(file) || failed;
  }
  tandem_compilation_destroy(compilation);
  if (!failed)
    printf("gathered with %s\n", tandem_runtime_version_string());
  return failed;
}
