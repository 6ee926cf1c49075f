/*===- main.c - runs a program, without the compiler --------------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

/* main PROGRAM [PLUGIN]: the plugin runs it with its own version of Tandem, before and after. */

#include "gather.h"

#include <dlfcn.h>

int main(int argc, char **argv) {
  static char bytes[1 << 20];
  int (*plugin_gather)(const void *, size_t) = NULL;
  const char *(*plugin_version)(void) = NULL;
  void *plugin = NULL, *symbol;
  size_t size;
  FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;

  if (!file)
    return 2;
  size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  if (argc > 2) {
    plugin = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    symbol = dlsym(plugin, "plugin_gather");
    memcpy(&plugin_gather, &symbol, sizeof symbol);
    symbol = dlsym(plugin, "plugin_version");
    memcpy(&plugin_version, &symbol, sizeof symbol);
    if (plugin_gather(bytes, size))
      return 1;
    printf("plugin: gathered with %s\n", plugin_version());
  }
  if (gather(bytes, size))
    return 1;
  printf("gathered with %s\n", tandem_runtime_version_string());
  return plugin ? plugin_gather(bytes, size) : 0;
}
