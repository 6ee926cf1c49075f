/*===- tandem-c/Device.h - streams and memory of a context's device ------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef TANDEM_C_DEVICE_H
#define TANDEM_C_DEVICE_H

#include "tandem-c/Base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A new stream. */
tandem_code tandem_stream_create(tandem_context *context, tandem_stream **stream);
/* The caller's stream: a cudaStream_t (CUstream) or hipStream_t of the context's GPU. 0 is the
 * legacy default stream, which is also torch's default. Runs are ordered with its other work
 * without waits of the host. The caller keeps it alive until the runs on it have ended.
 * TANDEM_UNSUPPORTED: the device is not a GPU; there, use tandem_stream_create and
 * tandem_stream_synchronize. */
tandem_code tandem_stream_wrap(tandem_context *context, void *native, tandem_stream **stream);
/* Blocks until the work enqueued on it is done. Error codes: those of a failed run. */
tandem_code tandem_stream_synchronize(tandem_stream *stream);
/* Runs that are enqueued on it go on. */
void tandem_stream_destroy(tandem_stream *stream);

/* Zeroed memory of the context's device, for callers without an allocator. (Device "cpu" accepts
 * any host memory.) Its last run must have ended when it is destroyed. */
tandem_code tandem_memory_create(tandem_context *context, uint64_t bytes, tandem_memory **memory);
void tandem_memory_destroy(tandem_memory *memory);
/* The address for tandem_bind. */
void *tandem_memory_data(tandem_memory *memory);
/* Blocking copies of `bytes` bytes at `offset` from and to host memory. Not ordered with any
 * stream: wait for runs first. */
tandem_code tandem_memory_write(tandem_memory *memory, uint64_t offset, const void *from,
                                uint64_t bytes);
tandem_code tandem_memory_read(tandem_memory *memory, uint64_t offset, void *to, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* TANDEM_C_DEVICE_H */
