/*===- tandem-c/Context.h - one rank's device and connections ------------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef TANDEM_C_CONTEXT_H
#define TANDEM_C_CONTEXT_H

#include "tandem-c/Base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The embedder's bootstrap. Both functions are collective over the world and return 0 on success.
 * Called only by tandem_context_create and tandem_prepare, on the calling thread. */
typedef struct tandem_launch {
  size_t struct_size;
  uint32_t rank, world_size;
  uint32_t local_rank, local_size; /* within this node; local_size 0: one node */
  /* Every rank contributes `bytes` bytes; `all` receives world_size * bytes, in rank order. */
  int (*all_gather)(void *user, const void *mine, size_t bytes, void *all);
  int (*barrier)(void *user);
  void *user;
  /* Optional, for launches that learn outside of these calls how ranks fare; any thread, during
   * them too, without waiting. `health`: 0 while no rank is known to have ended or given up, else
   * not 0, with the reason in `reason`, a text of at most `size` bytes with its end; runs in flight
   * are then ended, and runs that have ended since are not successful. `give_up`: a run of this
   * rank has failed; tells the others, and waits until their `health` says so, but not for long.
   * This rank's streams and channels are released only when it has returned: else those of other
   * ranks could end with wrong data before they know of the failure. */
  int (*health)(void *user, char *reason, size_t size);
  void (*give_up)(void *user, const char *reason);
  /* Optional: a text that is equal on the ranks of one host, and only there. NULL: TANDEM_NODE,
   * else the host's name. Copied. */
  const char *node;
  /* Optional; any thread, and often. `note_begun`: this rank has begun so many runs; all ranks
   * begin the same ones. `begun_by_all`: how many each rank has begun, as far as this one knows.
   * While a rank has yet to begin a run, the others may wait in it for longer than `timeout_ms`.
   * Without these, a rank that is later than that is an error. */
  void (*note_begun)(void *user, uint64_t runs);
  uint64_t (*begun_by_all)(void *user);
  /* Optional; any thread, without waiting. For messages: names ranks that have begun fewer than
   * `runs` runs or send no heartbeat, in `text`, of at most `size` bytes with its end; else "". */
  void (*late)(void *user, uint64_t runs, char *text, size_t size);
} tandem_launch;

typedef enum tandem_log_level {
  TANDEM_LOG_WARNING = 0, /* results or speed may not be as expected */
  TANDEM_LOG_INFO = 1
} tandem_log_level;

/* What memory is for. */
typedef enum tandem_memory_kind {
  TANDEM_MEMORY_ARENA = 0,     /* intermediate values of a program, and tandem_memory */
  TANDEM_MEMORY_SYMMETRIC = 1, /* peers access it. On GPUs whose ranks are processes: inside of one
                                * allocation by cuMemCreate with a POSIX file descriptor as handle
                                * type, like torch's symmetric memory or ncclMemAlloc. Peers map the
                                * whole allocation. Memory of several is TANDEM_UNSUPPORTED */
  TANDEM_MEMORY_WORKSPACE = 2  /* scratch memory of a stream for matrix libraries */
} tandem_memory_kind;

/* The embedder's allocator of device memory (host memory on device "cpu"), in place of the
 * device's. Any thread; it may not wait for the device. It must not return memory that queued work
 * of the device still uses. The device no longer uses memory that it gets back. `user` must live
 * until the context has ended. */
typedef struct tandem_allocator {
  size_t struct_size;
  /* A multiple of 64; not initialised. NULL: out of memory. */
  void *(*allocate)(void *user, uint64_t bytes, tandem_memory_kind kind);
  void (*deallocate)(void *user, void *memory, uint64_t bytes, tandem_memory_kind kind);
  void *user;
  uint64_t leaves_symmetric; /* not 0: TANDEM_MEMORY_SYMMETRIC is the device's own memory */
} tandem_allocator;

typedef struct tandem_context_options {
  size_t struct_size;
  const char *device;   /* "cpu" (also for NULL), "null", "cuda" (GPU number: local rank mod
                         * GPU count), "cuda:1"; "hip" and "hip:1" likewise */
  const char *channels; /* comma-separated, first choice first: "ucx", "local", "ccl", "peer"; NULL:
                         * none. "node:peer" comes first for ranks of one host, "network:ccl" for
                         * others (docs/operations.md) */
  const tandem_launch *launch;     /* NULL: a world of one rank, or that of local_world */
  tandem_local_world *local_world; /* ranks as threads; needed by channel "local" */
  uint32_t local_world_rank;       /* the k-th contexts of all ranks belong together */
  /* A run is ended if no stream begins another of its commands for so long; a replayed graph, if
   * it takes longer. 0 = 60000 */
  uint32_t timeout_ms;
  uint32_t matmul_threads; /* 0 = 1 */
  uint32_t no_graphs;      /* 1: launch every command by itself, even if the device has graphs */
  uint32_t require_proof;  /* 1: a program without a complete certificate is TANDEM_UNSUPPORTED */
  /* 1: each instance has memory of its own, and runs of different instances that are enqueued on
   * different streams may overlap. 0: instances share it, so their runs follow each other. See
   * docs/embedding.md, "Memory". Same value on all ranks. */
  uint32_t separate_memory;
  /* Receives messages that are no errors, without a line end; NULL drops them. The library never
   * writes to stdout or stderr. Called only by tandem_context_create, tandem_prepare and the call
   * that ends the context, on the calling thread. */
  void (*log)(void *user, tandem_log_level level, const char *message);
  void *log_user;
  const tandem_allocator *allocator; /* NULL: memory of the device */
  /* "2GB/s,20us": channels "local" and "ucx" are as slow as a link of this rate and latency
   * (docs/benchmarking.md, "A shaped link"). NULL: as fast as they can. */
  const char *link;
  /* 1: a program with native code (PTX, ...) is TANDEM_UNSUPPORTED. No verifier can check such
   * code, which runs with the rights of this process. */
  uint64_t no_native;
  /* Keeps the file "<flight_recorder>.rank<rank>" up to date: what this rank is doing, as
   * tandem_context_dump writes it (docs/operations.md, "Hang reports"). NULL:
   * TANDEM_FLIGHT_RECORDER, else no file. TANDEM_IO: the file cannot be written. */
  const char *flight_recorder;
  /* With a flight recorder: a signal upon which it writes its file, SIGUSR1 for example. The
   * handler of the process is replaced, called by the new one, and not restored. 0:
   * TANDEM_FLIGHT_RECORDER_SIGNAL, else none. */
  uint64_t flight_recorder_signal;
} tandem_context_options;

/* A job whose ranks are threads of this process. Thread-safe. `timeout_ms`: a tandem_prepare of
 * which another rank has not come for so long is TANDEM_TIMEOUT; 0 = 60000. (Runs have that of
 * tandem_context_options.) Its contexts keep it alive. */
tandem_code tandem_local_world_create(uint32_t world_size, uint32_t timeout_ms,
                                      tandem_local_world **world);
void tandem_local_world_destroy(tandem_local_world *world);

/* Waits for no other rank; ranks connect in tandem_prepare. Also sets *context on failure (unless
 * out of memory), for tandem_last_error; destroy it. TANDEM_UNSUPPORTED: this build or machine
 * lacks the device or a channel. TANDEM_IO: a library or the network failed. */
tandem_code tandem_context_create(const tandem_context_options *options, tandem_context **context);
/* Its other handles stay valid. The last of them ends the context: it waits for this rank's runs in
 * flight (the watchdog bounds the time), and for no other rank. */
void tandem_context_destroy(tandem_context *context);
/* The message of the last call that failed with this context or a handle made from it; "" if none.
 * If its creation failed, always that reason: later calls are TANDEM_INVALID_ARGUMENT. Valid until
 * the next call of this function in this thread. */
const char *tandem_last_error(const tandem_context *context);
/* The device, the channels and the versions of their libraries: "NVIDIA H200 sm_90, cublasLt
 * 130100; peer, ccl (NCCL 2.27.3)". Valid as long as the context. "" if its creation failed. */
const char *tandem_context_description(tandem_context *context);
/* The device with its number: "cpu", "null", "cuda:1" (the number that CUDA uses in this process).
 * Valid as long as the context. "" if its creation failed. */
const char *tandem_context_device(tandem_context *context);
/* 1: the device has kernels for gated matmuls. 0: it runs their parts one by one, or the creation
 * of the context failed. */
int tandem_context_has_gated_kernels(tandem_context *context);
/* 1: each run is compared with that of the same number on all other ranks before one of them ends,
 * and is an error on all ranks if it is of another program, extent or tandem_run_options.call. So
 * it is for ranks of one host, from the first tandem_prepare on. 0: ranks of other hosts are not
 * compared; what differs there ends with a timeout, or is not found if only `call` differs. */
int tandem_context_compares_runs(tandem_context *context);
/* All ranks are about to do what `call` says, between the same runs, such as to compile a program:
 * compared as runs are, so that a rank that does something else in its place is an error on all.
 * What follows a line break is not compared: it is for the message. */
tandem_code tandem_context_agree(tandem_context *context, const char *call);
/* TANDEM_OK, the code of the failed run after which the context cannot be used, or an error that
 * names a rank that has ended, given up or sends no heartbeat. Replays of graphs that have captured
 * runs report nothing: ask here when one has ended. Does not block. */
tandem_code tandem_context_health(tandem_context *context);

/* A command that has begun and has not ended. */
typedef struct tandem_command_in_flight {
  size_t struct_size;  /* the library's */
  const char *program; /* its function */
  uint64_t run;        /* of its instance, from 0; equal on all ranks */
  uint32_t stream;     /* of the program */
  uint32_t command;    /* index in the rank's list; UINT32_MAX: the barrier before the run */
  int is_certain;      /* 0: the stream replays a graph, and is in this or in another command of the
                        * list; with UINT32_MAX: in none that waits for another rank */
  const char *text;    /* 'command 7 (group: recv from rank 2 "recv #1")' */
} tandem_command_in_flight;

/* What the oldest run of each instance is doing; after a failed run, what it was doing then. For
 * reports about a job that hangs: tandem-check says which command of which rank it waits for.
 * Calls `each` for every such command; the command is valid during that call. Any thread. */
tandem_code tandem_commands_in_flight(tandem_context *context,
                                      void (*each)(void *user,
                                                   const tandem_command_in_flight *command),
                                      void *user);

/* Writes what this rank is doing as a JSON object (docs/operations.md, "Hang reports"): to the file
 * `path` unless it is NULL, and in one call to `write` unless that is NULL. After a failed run:
 * what the rank was doing then. Any thread, also while another one is in a call with the context;
 * not in a callback of the context. TANDEM_IO: the file cannot be written. */
tandem_code tandem_context_dump(tandem_context *context, const char *path,
                                void (*write)(void *user, const char *json, size_t size),
                                void *user);

/* From the files of flight recorders, "<prefix>.rank0" and so on: which rank waits for which, as a
 * JSON object (docs/operations.md, "Hang reports"), in one call to `write`. `num_ranks`: 0: as the
 * files say. `states`: NULL, or for each rank NULL or what is known of its process: "running",
 * "stopped", "ended by signal 9". Any thread. TANDEM_IO: there is no such file. */
tandem_code tandem_hang_report(const char *prefix, uint32_t num_ranks, const char *const *states,
                               void (*write)(void *user, const char *json, size_t size),
                               void *user);

#ifdef __cplusplus
}
#endif

#endif /* TANDEM_C_CONTEXT_H */
