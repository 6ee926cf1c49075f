/*===- plugin.c - brings its own version of Tandem ----------------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "gather.h"

int plugin_gather(const void *program, size_t size);
const char *plugin_version(void);

int plugin_gather(const void *program, size_t size) { return gather(program, size); }
const char *plugin_version(void) { return tandem_runtime_version_string(); }
