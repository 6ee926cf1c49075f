/*===- two.c - two copies of the compiler in one process ----------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

/* two LIBRARY LIBRARY: each compiles; the second also once the first is unloaded. */

#include "fusion.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <tandem-c/Compiler.h>

typedef struct compiler {
  void *library;
  tandem_compilation *(*compile)(const char *, size_t, const char *,
                                 const tandem_compile_options *);
  const void *(*bytes)(const tandem_compilation *, size_t *);
  void (*destroy)(tandem_compilation *);
} compiler;

/* A function from dlsym: ISO C has no conversion from an object's address. */
static int find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  memcpy(function, &found, sizeof found);
  return found != NULL;
}

static int load(const char *path, compiler *result) {
  result->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!result->library)
    fprintf(stderr, "%s\n", dlerror());
  return result->library && find(result->library, "tandem_compile", &result->compile) &&
         find(result->library, "tandem_compilation_bytes", &result->bytes) &&
         find(result->library, "tandem_compilation_destroy", &result->destroy);
}

static tandem_compilation *compile(const compiler *with) {
  tandem_mesh_size mesh = {sizeof mesh, "x", 2};
  tandem_compile_options options = {.struct_size = sizeof options};
  options.mesh = &mesh;
  options.num_mesh = 1;
  options.target = "cpu-local";
  return with->compile(fusion, sizeof fusion - 1, "gather.mlir", &options);
}

int main(int argc, char **argv) {
  compiler compilers[2];
  tandem_compilation *compilations[2];
  const void *bytes[2];
  size_t sizes[2];
  int i;

  if (argc != 3)
    return 2;
  for (i = 0; i < 2; ++i)
    if (!load(argv[i + 1], &compilers[i]))
      return 1;
  if (compilers[0].compile == compilers[1].compile) {
    fprintf(stderr, "the same library twice\n");
    return 1;
  }
  for (i = 0; i < 2; ++i) {
    compilations[i] = compile(&compilers[i]);
    bytes[i] = compilers[i].bytes(compilations[i], &sizes[i]);
  }
  if (!bytes[0] || !bytes[1] || sizes[0] != sizes[1] || memcmp(bytes[0], bytes[1], sizes[0]) != 0)
    return 1;
  for (i = 0; i < 2; ++i)
    compilers[i].destroy(compilations[i]);
  dlclose(compilers[0].library);
  compilations[1] = compile(&compilers[1]);
  if (!compilers[1].bytes(compilations[1], &sizes[1]))
    return 1;
  compilers[1].destroy(compilations[1]);
  printf("compiled with both\n");
  return 0;
}
