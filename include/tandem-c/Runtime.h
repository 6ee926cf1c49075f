/*===- tandem-c/Runtime.h - the runtime's C API -------------------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

/* Runs stream programs on one rank: create a context, load a program, prepare an instance, bind
 * memory, run.
 *
 * Functions that can fail return a tandem_code; tandem_last_error(context) then returns the
 * message. No exception leaves this library. A handle is for one thread at a time unless stated
 * otherwise. All ranks load, prepare, run and destroy instances in the same order.
 */

#ifndef TANDEM_C_RUNTIME_H
#define TANDEM_C_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tandem_code {
  TANDEM_OK = 0,
  TANDEM_INVALID_ARGUMENT = 1,
  TANDEM_INVALID_PROGRAM = 2,
  TANDEM_UNSUPPORTED = 3,
  TANDEM_OUT_OF_MEMORY = 4,
  TANDEM_IO = 5,
  TANDEM_TIMEOUT = 6, /* the watchdog ended a run */
  TANDEM_ABORTED = 7, /* another rank, or an earlier error, ended it */
  TANDEM_INTERNAL = 8
} tandem_code;

/* An integer, so that an unknown value is an error and not undefined behaviour. */
typedef int tandem_dtype;
enum {
  TANDEM_F32 = 0,
  TANDEM_F16 = 1,
  TANDEM_BF16 = 2,
  TANDEM_I32 = 3,
  TANDEM_F64 = 4,
  TANDEM_I64 = 5,
  TANDEM_I8 = 6,
  TANDEM_I1 = 7, /* one byte, 0 or 1 */
  TANDEM_I16 = 8 /* not reduced */
};

typedef struct tandem_context tandem_context;
typedef struct tandem_program tandem_program;
typedef struct tandem_instance tandem_instance;
typedef struct tandem_stream tandem_stream;
typedef struct tandem_local_world tandem_local_world;

/* The embedder's bootstrap. Both functions are collective over the world and return 0 on success.
 * Called only by tandem_context_create and tandem_prepare, on the calling thread. */
typedef struct tandem_launch {
  uint32_t rank, world_size;
  uint32_t local_rank, local_size; /* within this node; local_size 0: one node */
  /* Every rank contributes `bytes` bytes; `all` receives world_size * bytes, in rank order. */
  int (*all_gather)(void *user, const void *mine, size_t bytes, void *all);
  int (*barrier)(void *user);
  void *user;
} tandem_launch;

/* New members go to the end and leave no padding: members unknown to an older caller lie beyond its
 * struct_size, never in its uninitialised padding. */
typedef struct tandem_context_options {
  size_t struct_size;   /* sizeof(tandem_context_options): newer fields are then taken as 0 */
  const char *device;   /* "cpu" (also for NULL), "null", "cuda" (GPU number: local rank mod
                         * GPU count), "cuda:1" */
  const char *channels; /* comma-separated, first choice first: "ucx", "local", "ccl", "peer"; NULL:
                         * none */
  const tandem_launch *launch;     /* NULL: a world of one rank, or that of local_world */
  tandem_local_world *local_world; /* ranks as threads; needed by channel "local" */
  uint32_t local_world_rank;
  uint32_t timeout_ms;     /* a run that takes longer is ended; 0 = 60000 */
  uint32_t matmul_threads; /* 0 = 1 */
  uint32_t unused;         /* not read: padding in older versions */
  int no_graphs;           /* 1: launch every command by itself, even if the device has
                            * graphs */
  uint32_t require_proof;  /* 1: a program without a complete certificate is TANDEM_UNSUPPORTED */
} tandem_context_options;

typedef struct tandem_argument {
  const char *name;
  int is_result;
  int present; /* 0: this rank holds no part of it; do not bind it */
  tandem_dtype dtype;
  uint32_t rank; /* dimensions of `shape` */
  const int64_t *shape;
  uint32_t local_rank; /* dimensions of `local_shape` */
  const int64_t *local_shape;
  uint64_t local_bytes;
} tandem_argument; /* pointers live as long as the program */

/* "0.1.0". */
const char *tandem_version(void);
/* "timeout". */
const char *tandem_code_name(tandem_code code);

/* A job whose ranks are threads of this process. Thread-safe; destroy it after its contexts. */
tandem_code tandem_local_world_create(uint32_t world_size, uint32_t timeout_ms,
                                      tandem_local_world **world);
void tandem_local_world_destroy(tandem_local_world *world);

/* The job of a launcher that started this process: torchrun, mpirun, srun, tandem-run, or the same
 * environment variables set by hand (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT). */
typedef struct tandem_job tandem_job;
/* Collective: connects to the other ranks over TCP and waits for them, at most
 * TANDEM_LAUNCH_TIMEOUT seconds (60). Without a launcher: a world of one rank. Also sets *job on
 * failure (unless out of memory), for tandem_job_error; destroy it. */
tandem_code tandem_job_join(tandem_job **job);
/* For tandem_context_options.launch. Lives as long as the job, which outlives the contexts that use
 * it. NULL if joining failed. */
const tandem_launch *tandem_job_launch(const tandem_job *job);
/* The message of the last failure of a call or callback; "" if there was none. */
const char *tandem_job_error(const tandem_job *job);
void tandem_job_destroy(tandem_job *job);

/* Also sets *context on failure (unless out of memory), for tandem_last_error; destroy it. */
tandem_code tandem_context_create(const tandem_context_options *options, tandem_context **context);
/* Destroy its instances, programs and streams first. */
void tandem_context_destroy(tandem_context *context);
/* The message of the last call that failed with this context or a handle made from it; "" if none.
 * Valid until the next failure. */
const char *tandem_last_error(const tandem_context *context);
/* The device, the channels and the versions of their libraries: "NVIDIA H200 sm_90, cublasLt
 * 130100; peer, ccl (NCCL 2.27.3)". Valid as long as the context. "" if its creation failed. */
const char *tandem_context_description(tandem_context *context);
/* TANDEM_OK, or the code of the failed run after which the context cannot be used. */
tandem_code tandem_context_health(tandem_context *context);

/* Loads and verifies this rank's program of a .tsp file. */
tandem_code tandem_program_load_file(tandem_context *context, const char *path,
                                     tandem_program **program);
tandem_code tandem_program_load_memory(tandem_context *context, const void *bytes, size_t size,
                                       tandem_program **program);
/* Its instances stay valid. */
void tandem_program_destroy(tandem_program *program);
const char *tandem_program_name(const tandem_program *program);
uint32_t tandem_program_num_arguments(const tandem_program *program);
tandem_code tandem_program_argument(const tandem_program *program, uint32_t index,
                                    tandem_argument *argument);

/* Collective: allocates memory, opens channels, prepares operations. */
tandem_code tandem_prepare(tandem_context *context, const tandem_program *program,
                           tandem_instance **instance);
/* Waits for runs in flight. */
void tandem_instance_destroy(tandem_instance *instance);

/* Binds argument `index` to dense device memory of `bytes` bytes; dtype and shape must be
 * this rank's. The caller keeps ownership; the memory must outlive the runs that follow. */
tandem_code tandem_bind(tandem_instance *instance, uint32_t index, void *data, uint64_t bytes,
                        tandem_dtype dtype, uint32_t rank, const int64_t *shape);
/* Runs once and returns when this rank's part is complete. */
tandem_code tandem_run(tandem_instance *instance);
/* Enqueues a run after the work of `stream` (NULL: the context's own stream). At most two runs are
 * in flight; a third waits for the first. Waits for all runs in flight before it creates a graph:
 * in each of the first two runs, and when addresses of NCCL's collectives change. */
tandem_code tandem_run_on(tandem_instance *instance, tandem_stream *stream);
/* Waits for all enqueued runs. */
tandem_code tandem_wait(tandem_instance *instance);

/* When a command ran: nanoseconds of the host's monotonic clock. */
typedef struct tandem_command_time {
  int64_t begin_ns, end_ns;
} tandem_command_time;

/* Records the begin and end of commands in later runs (on = 1); first waits for earlier runs.
 * Traced runs use no graphs. Same value on all ranks. */
tandem_code tandem_trace(tandem_instance *instance, int on);
/* Times of the last run, once complete: one per command of this rank. Zeros for records and waits;
 * messages have their group's times. Valid until the next tandem_trace. */
tandem_code tandem_command_times(const tandem_instance *instance, const tandem_command_time **times,
                                 uint32_t *count);

/* Zeroed memory of the context's device, for callers without an allocator. Destroy it before the
 * context. (Device "cpu" accepts any host memory.) */
typedef struct tandem_memory tandem_memory;
tandem_code tandem_memory_create(tandem_context *context, uint64_t bytes, tandem_memory **memory);
void tandem_memory_destroy(tandem_memory *memory);
/* The address for tandem_bind. */
void *tandem_memory_data(tandem_memory *memory);
/* Blocking copies of `bytes` bytes at `offset` from and to host memory. Not ordered with any
 * stream: wait for runs first. */
tandem_code tandem_memory_write(tandem_memory *memory, uint64_t offset, const void *from,
                                uint64_t bytes);
tandem_code tandem_memory_read(tandem_memory *memory, uint64_t offset, void *to, uint64_t bytes);

tandem_code tandem_stream_create(tandem_context *context, tandem_stream **stream);
tandem_code tandem_stream_synchronize(tandem_stream *stream);
void tandem_stream_destroy(tandem_stream *stream);

#ifdef __cplusplus
}
#endif

#endif /* TANDEM_C_RUNTIME_H */
