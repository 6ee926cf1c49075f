/*===- tandem-c/Instance.h - prepare, bind, run --------------------------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef TANDEM_C_INSTANCE_H
#define TANDEM_C_INSTANCE_H

#include "tandem-c/Base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Collective over the world, in the same order on all ranks: allocates memory, opens channels,
 * prepares operations. TANDEM_UNSUPPORTED: the device or the channels cannot run the program.
 * TANDEM_IO, TANDEM_TIMEOUT: the bootstrap failed. TANDEM_ABORTED: another rank failed. Code of
 * tandem_context_health: an earlier run failed. */
tandem_code tandem_prepare(tandem_context *context, const tandem_program *program,
                           tandem_instance **instance);
/* Local: waits for no rank. See docs/embedding.md, "Lifetimes". */
void tandem_instance_destroy(tandem_instance *instance);

/* Binds argument `index` to dense device memory of `bytes` bytes; dtype and shape must be
 * this rank's. The caller keeps ownership; the memory must outlive the runs that follow. Results
 * may not overlap other arguments when a run is enqueued; before that they may. */
tandem_code tandem_bind(tandem_instance *instance, uint32_t index, void *data, uint64_t bytes,
                        tandem_dtype dtype, uint32_t rank, const int64_t *shape);

/* The same for tensors of DLPack, the exchange format of torch, JAX, NumPy and CuPy: the device,
 * the dtype, the shape and dense strides are checked. The caller keeps ownership, and keeps the
 * tensor. `dl_tensor` is a const DLTensor *, for example &managed->dl_tensor. (This header does not
 * include dlpack.h, which gives the struct no tag.) */
tandem_code tandem_bind_dlpack(tandem_instance *instance, uint32_t index, const void *dl_tensor);
/* Also checks DLPack's version, and that a result is not read-only. */
struct DLManagedTensorVersioned;
tandem_code tandem_bind_dlpack_versioned(tandem_instance *instance, uint32_t index,
                                         const struct DLManagedTensorVersioned *managed);

/* The extent of the varying dimensions in later runs, equal on all ranks; at first the bound. Then
 * bind all arguments with a varying dimension, to memory of the shapes that
 * tandem_program_at_extent states. Runs in flight are not affected. */
tandem_code tandem_set_extent(tandem_instance *instance, int64_t extent);

/* Errors of the functions below: TANDEM_INVALID_ARGUMENT leaves everything as it was. Other codes
 * are those of a failed run, TANDEM_TIMEOUT or TANDEM_ABORTED or the device's, which end the use of
 * the context. A run fails asynchronously: the next call that the context's handles get reports it.
 */

typedef struct tandem_run_options {
  size_t struct_size;
  /* Runs after its earlier work; later work of the stream runs after the run. NULL: the context's
   * own stream. It may be destroyed before the run ends. */
  tandem_stream *stream;
  /* One address per argument, bound in one step like tandem_bind, with dense memory of this rank's
   * dtype and shape. Not read where the rank holds no part. NULL: the arguments as they are bound.
   */
  void *const *data;
  const uint64_t *bytes; /* sizes of the memory at `data`; NULL: not checked */
  /* In place of `data`: a const DLTensor * per argument, as for tandem_bind_dlpack. */
  const void *const *dl_tensors;
  /* What else all ranks must agree on about this run, as text: numbers of tokens that share a
   * program by padding, say. NULL: nothing. See tandem_context_compares_runs. */
  const char *call;
} tandem_run_options;

/* Binds and enqueues a run. NULL options: the defaults. Up to 16 runs are in flight, 2 on GPUs
 * where they are no graphs; one more waits for the oldest. So memory of a run may be reused on the
 * host only after tandem_wait, or in the order of the run's stream. Waits for all runs in flight
 * before it creates a graph: in each of the first two runs, and for addresses that cannot be
 * patched in. Over channels whose data host threads move (ucx, local), a run on a wrapped stream
 * returns when the whole run is in that stream. If the caller is capturing the stream, the run
 * becomes part of its graph: on all ranks, between the same runs. TANDEM_UNSUPPORTED: then the
 * program runs without a graph, is traced, or has an extent that varies; nothing has changed. */
tandem_code tandem_enqueue(tandem_instance *instance, const tandem_run_options *options);
/* Waits for all enqueued runs: their results are complete on this rank. */
tandem_code tandem_wait(tandem_instance *instance);
/* Without waiting: *done is 1 if all enqueued runs have ended on this rank, else 0. The code of a
 * run that has failed. */
tandem_code tandem_query(tandem_instance *instance, int *done);
/* Enqueues a run with the arguments as they are bound, and waits. */
tandem_code tandem_run(tandem_instance *instance);

/* Records the begin and end of commands in later runs (on = 1); first waits for earlier runs.
 * Traced runs use no graphs. Same value on all ranks. TANDEM_UNSUPPORTED: the device cannot. */
tandem_code tandem_trace(tandem_instance *instance, int on);
/* When the commands of the last run, once complete, ran: command i of the `count` of this rank
 * began at times[2 * i] and ended at times[2 * i + 1], in nanoseconds of the host's monotonic
 * clock. Zeros for records and waits; messages have their group's times. Valid until the next
 * tandem_trace. */
tandem_code tandem_command_times(const tandem_instance *instance, const int64_t **times,
                                 uint32_t *count);

#ifdef __cplusplus
}
#endif

#endif /* TANDEM_C_INSTANCE_H */
