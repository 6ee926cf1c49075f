/*===- CApi.c - the C API, used from C ----------------------------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

/* Compiled as C11: the header must be clean C. */

#include "tandem-c/Runtime.h"

#include <stdio.h>
#include <string.h>

static int gathers, barriers;

static int allGather(void *user, const void *mine, size_t bytes, void *all) {
  (void)user;
  ++gathers;
  if (bytes)
    memcpy(all, mine, bytes);
  return 0;
}

static int barrier(void *user) {
  (void)user;
  ++barriers;
  return 0;
}

/* Runs a program that doubles "x" into "y", both f32 of `count` elements; 0 if all is as it must
 * be. */
int capiDouble(const void *file, size_t size, int64_t count, float *x, float *y, char *message,
               size_t messageSize);

int capiDouble(const void *file, size_t size, int64_t count, float *x, float *y, char *message,
               size_t messageSize) {
  tandem_launch launch = {sizeof launch, 0,    1,    0,    1,    allGather, barrier,
                          NULL,          NULL, NULL, NULL, NULL, NULL,      NULL};
  tandem_context_options options = {.struct_size = sizeof options};
  tandem_run_options run = {.struct_size = sizeof run};
  tandem_context *context = NULL;
  tandem_program *program = NULL;
  tandem_instance *instance = NULL;
  tandem_stream *stream = NULL;
  tandem_argument argument = {.struct_size = sizeof argument};
  tandem_shard shard = {.struct_size = sizeof shard};
  uint64_t bytes = (uint64_t)count * sizeof(float), sizes[2];
  void *data[2];
  int failed = 1;

  data[0] = x;
  data[1] = y;
  sizes[0] = sizes[1] = bytes;
  options.device = "cpu";
  options.launch = &launch;
  options.timeout_ms = 5000;
  if (tandem_context_create(&options, &context) != TANDEM_OK)
    goto done;
  if (tandem_program_load_memory(context, file, size, &program) != TANDEM_OK)
    goto done;
  if (tandem_program_num_arguments(program) != 2)
    goto done;
  if (tandem_program_argument(program, 1, &argument) != TANDEM_OK || !argument.is_result ||
      !argument.present || strcmp(argument.name, "y") != 0 || argument.local_bytes != bytes ||
      argument.local_rank != 1 || argument.local_shape[0] != count || argument.dtype != TANDEM_F32)
    goto done;
  if (tandem_program_shard(program, 0, 0, &shard) != TANDEM_OK || !shard.present ||
      shard.offset != 0)
    goto done;
  if (tandem_prepare(context, program, &instance) != TANDEM_OK)
    goto done;
  tandem_program_destroy(program); /* the instance keeps what it needs */
  program = NULL;
  if (tandem_bind(instance, 0, x, bytes, TANDEM_F32, 1, &count) != TANDEM_OK ||
      tandem_bind(instance, 1, y, bytes, TANDEM_F32, 1, &count) != TANDEM_OK)
    goto done;
  if (tandem_run(instance) != TANDEM_OK)
    goto done;
  if (tandem_stream_create(context, &stream) != TANDEM_OK)
    goto done;
  run.stream = stream;
  run.data = data;
  run.bytes = sizes;
  if (tandem_enqueue(instance, &run) != TANDEM_OK || tandem_enqueue(instance, NULL) != TANDEM_OK ||
      tandem_wait(instance) != TANDEM_OK || tandem_stream_synchronize(stream) != TANDEM_OK)
    goto done;
  failed = gathers == 0 || tandem_context_health(context) != TANDEM_OK;
done:
  snprintf(message, messageSize, "%s", tandem_last_error(context));
  tandem_instance_destroy(instance);
  tandem_stream_destroy(stream);
  tandem_program_destroy(program);
  tandem_context_destroy(context);
  return failed;
}
