/*===- gather.h - runs a gather on two ranks ----------------------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

/* Two ranks, which are threads: each brings a row, and both get both. */

#ifndef TANDEM_EXAMPLES_C_GATHER_H
#define TANDEM_EXAMPLES_C_GATHER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tandem-c/Runtime.h>
#include <threads.h>

typedef struct gather_rank {
  const void *program;
  size_t size;
  tandem_local_world *world;
  uint32_t rank;
  char error[256]; /* "" on success */
} gather_rank;

static int gather_on_rank(void *argument) {
  gather_rank *me = argument;
  tandem_context *context = NULL;
  tandem_program *program = NULL;
  tandem_instance *instance = NULL;
  float row[3], all[2][3] = {{0}};
  void *memory[2];
  uint64_t bytes[2] = {sizeof row, sizeof all};
  tandem_code code;
  uint32_t i, k;

  for (k = 0; k < 3; ++k)
    row[k] = (float)(10 * (me->rank + 1) + k);
  memory[0] = row;
  memory[1] = all;
  /* [docs: run] */
  tandem_context_options options = {.struct_size = sizeof options};
  options.device = getenv("GATHER_DEVICE"); /* NULL: the CPU */
  options.channels = "local";               /* ranks are threads */
  options.local_world = me->world;
  options.local_world_rank = me->rank;
  code = tandem_context_create(&options, &context);
  if (code == TANDEM_OK)
    code = tandem_program_load_memory(context, me->program, me->size, &program);
  if (code == TANDEM_OK)
    code = tandem_prepare(context, program, &instance);
  tandem_run_options run = {.struct_size = sizeof run};
  run.data = memory; /* one address per argument: inputs, then results */
  run.bytes = bytes;
  if (code == TANDEM_OK)
    code = tandem_enqueue(instance, &run);
  if (code == TANDEM_OK)
    code = tandem_wait(instance);
  if (code != TANDEM_OK)
    snprintf(me->error, sizeof me->error, "%s: %s", tandem_code_name(code),
             context ? tandem_last_error(context) : "");
  /* [docs: end] */
  for (i = 0; code == TANDEM_OK && i < 2; ++i)
    for (k = 0; k < 3; ++k)
      if (all[i][k] != (float)(10 * (i + 1) + k))
        snprintf(me->error, sizeof me->error, "row %u has a %g", (unsigned)i, (double)all[i][k]);
  tandem_instance_destroy(instance);
  tandem_program_destroy(program);
  tandem_context_destroy(context);
  return 0;
}

/* 0 if both ranks got both rows; else says why not. */
static int gather(const void *program, size_t size) {
  gather_rank ranks[2];
  thrd_t threads[2];
  tandem_local_world *world = NULL;
  uint32_t i;
  int failures = 0;

  if (tandem_local_world_create(2, /*timeout_ms=*/30000, &world) != TANDEM_OK)
    return 1;
  for (i = 0; i < 2; ++i) {
    memset(&ranks[i], 0, sizeof ranks[i]);
    ranks[i].program = program;
    ranks[i].size = size;
    ranks[i].world = world;
    ranks[i].rank = i;
    if (thrd_create(&threads[i], gather_on_rank, &ranks[i]) != thrd_success)
      return 1;
  }
  for (i = 0; i < 2; ++i) {
    thrd_join(threads[i], NULL);
    if (ranks[i].error[0]) {
      fprintf(stderr, "rank %u: %s\n", (unsigned)i, ranks[i].error);
      ++failures;
    }
  }
  tandem_local_world_destroy(world);
  return failures;
}

#endif /* TANDEM_EXAMPLES_C_GATHER_H */
