/*===- tandem-c/Kernel.h - kernels of the embedder ----------------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

/* What `fusion.call @name` of a program runs: a function or GPU code that is registered under that
 * name. A library of kernels needs no other header, and links nothing.
 *
 * A kernel writes every element of its results. It may depend on its inputs, on the text `config`
 * and on the places of its slice. It computes each index of a parallel dimension alone, so that a
 * result is the same however it is cut into slices. Other memory it touches only as the op's
 * `effects` say: "reads" (memory that only "writes" calls change), "writes" (the calls of a rank
 * run one after another, in the order of the program). Replayed GPU graphs do not call functions
 * again, so such memory lies on the GPU.
 */

#ifndef TANDEM_C_KERNEL_H
#define TANDEM_C_KERNEL_H

#include "tandem-c/Base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  TANDEM_KERNEL_MAX_RANK = 8,     /* dimensions of an operand */
  TANDEM_KERNEL_MAX_OPERANDS = 12 /* results and inputs */
};

/* A part of a tensor. Arrays are per dimension, outermost first. GPU code gets it by value, so its
 * 288 bytes stay as they are. */
typedef struct tandem_kernel_operand {
  size_t struct_size;
  void *data;                              /* the first element; on a GPU, device memory */
  int64_t dtype;                           /* a tandem_dtype */
  int64_t rank;                            /* dimensions */
  int64_t shape[TANDEM_KERNEL_MAX_RANK];   /* of this part */
  int64_t strides[TANDEM_KERNEL_MAX_RANK]; /* in elements; row-major, unless the op is `strided` */
  int64_t offset[TANDEM_KERNEL_MAX_RANK];  /* the part's first index in the whole tensor */
  /* Of the whole tensor. Where it varies, it is the run's, and the part may reach beyond it. */
  int64_t extent[TANDEM_KERNEL_MAX_RANK];
} tandem_kernel_operand;

typedef struct tandem_kernel_call {
  size_t struct_size;
  const char *name;   /* under which the kernel is registered */
  const char *config; /* the op's text; "" if none */
  void *stream;       /* GPU: cudaStream_t or hipStream_t; CPU: NULL */
  size_t num_operands;
  const tandem_kernel_operand *operands; /* the results, then the inputs; valid during the call */
  size_t num_results;
} tandem_kernel_call;

/* Returns 0. Another number fails the run with TANDEM_INTERNAL, and the message shows it. Any
 * thread; calls of several streams and ranks may run at once. CPU: computes, on the thread of the
 * command's stream. GPU: may only enqueue work on `stream`, which may be under capture; the
 * context's GPU is current. Called for each run. Runs that replay a graph share one call if
 * addresses and extents are equal. tandem_prepare also calls it, to try a capture, with other
 * addresses. */
typedef int (*tandem_kernel_function)(void *user, const tandem_kernel_call *call);

/* A context uses what is for its device. */
typedef struct tandem_kernel {
  size_t struct_size;
  const char *name;
  void *user;                          /* for the functions; outlives the context */
  tandem_kernel_function cpu_function; /* NULL: not on CPUs */
  tandem_kernel_function gpu_function; /* NULL: not on GPUs, unless there is an image */
  /* Instead of gpu_function: PTX or a cubin, copied when it is registered, and the name of a kernel
   * in it. The kernel's parameters are the operands, each a tandem_kernel_operand by value. Blocks
   * and grid have one dimension: as many blocks as it takes for the indices of the parallel
   * dimensions of the results' part, all together (row-major). */
  const void *image;
  size_t image_size;
  const char *entry;
  uint32_t threads;           /* of a block, at least 1 */
  uint32_t indices_per_block; /* at least 1. Example: 1 for a norm with a block for each row */
} tandem_kernel;

/* Makes a kernel known to the programs of this context that are prepared later; one of the same
 * name replaces it. Copied, but `user` and the functions outlive the context. tandem_prepare fails
 * on all ranks if a program's kernel is not known on one: TANDEM_UNSUPPORTED there, TANDEM_ABORTED
 * on the others. */
tandem_code tandem_register_kernel(tandem_context *context, const tandem_kernel *kernel);

/* What a shared library of kernels exports for tandem-run --kernels: a list that stays valid. */
#define TANDEM_KERNELS_SYMBOL "tandem_kernels"
typedef const tandem_kernel *(*tandem_kernels_function)(size_t *count);

#ifdef __cplusplus
}
#endif

#endif /* TANDEM_C_KERNEL_H */
