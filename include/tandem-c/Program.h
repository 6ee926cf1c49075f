/*===- tandem-c/Program.h - programs, their arguments and shards ---------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef TANDEM_C_PROGRAM_H
#define TANDEM_C_PROGRAM_H

#include "tandem-c/Base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Loads and verifies this rank's program of a .tsp file. TANDEM_IO: cannot read the file.
 * TANDEM_INVALID_PROGRAM: malformed. TANDEM_UNSUPPORTED: no complete certificate, and the context
 * requires one. */
tandem_code tandem_program_load_file(tandem_context *context, const char *path,
                                     tandem_program **program);
/* The same, from memory, which it copies. */
tandem_code tandem_program_load_memory(tandem_context *context, const void *bytes, size_t size,
                                       tandem_program **program);
void tandem_program_destroy(tandem_program *program);

/* The largest extent of the dimensions that vary from run to run (docs/families.md); -1: none does.
 */
int64_t tandem_program_bound(const tandem_program *program);
/* The program as runs with that extent see it (tandem_set_extent), 0 to the bound: its arguments
 * and shards are smaller. For queries; prepare `program` itself. Destroy it. */
tandem_code tandem_program_at_extent(const tandem_program *program, int64_t extent,
                                     tandem_program **at);

/* Queries of programs: any thread. Pointers that they return live as long as the program. */
const char *tandem_program_name(const tandem_program *program);
/* Ranks that the program is for; prepare needs a world of this size. Loading fails on a rank that
 * is not one of them. */
uint32_t tandem_program_num_ranks(const tandem_program *program);
uint32_t tandem_program_num_arguments(const tandem_program *program);

/* An argument: inputs first, then results. */
typedef struct tandem_argument {
  size_t struct_size;
  const char *name; /* fusion.name; without one "arg0", ..., and "res0", ... of results */
  int is_result;
  tandem_dtype dtype;
  uint32_t rank; /* dimensions of `shape` */
  const int64_t *shape;
  const char *axes, *mesh; /* text for people: [didx("gpu"), -] and @tp["gpu" = 2] */
  /* Not 0: the value is the sum (partial_op) of num_terms terms of `shape`, of which each rank
   * holds one, as before an all-reduce. */
  int partial;
  tandem_reduction partial_op;
  uint32_t num_terms; /* 1 unless partial */
  /* This rank's part, which tandem_bind expects: */
  int present; /* 0: do not bind it: this rank holds no part of it, or the runtime binds it */
  uint32_t local_rank;
  const int64_t *local_shape;
  uint64_t local_bytes;
} tandem_argument;

tandem_code tandem_program_argument(const tandem_program *program, uint32_t index,
                                    tandem_argument *argument);

/* A rank's part of an argument. Element i of the rank's dense buffer, row-major in `extents`, is
 * element offset + sum(index[d] * strides[d]) of the row-major logical tensor. Example: rows 2 and
 * 3 of a 4x8 tensor are offset 16, extents {2, 8}, strides {8, 1}.
 *
 * If extents have more elements than local_shape, a device's last block is shorter than its others:
 * the buffer is row-major in local_shape, and has the first local_shape[d] indices of each
 * dimension d. Those are made by the innermost extents that no later dimension has and whose
 * product is at least local_shape[d]. Example: rows 0, 1, 2, 6 and 7 of an 8x4 tensor are extents
 * {2, 3, 4}, strides {24, 4, 1}, local_shape {5, 4}. */
typedef struct tandem_shard {
  size_t struct_size;
  int present;    /* 0: the rank holds nothing, and the rest is 0 */
  uint32_t term;  /* of a partial argument: which term; ranks with one term and place hold copies */
  int64_t offset; /* elements */
  uint32_t num_extents;
  const int64_t *extents, *strides; /* elements */
  uint32_t local_rank;              /* the shape that this rank binds */
  const int64_t *local_shape;
} tandem_shard;

/* The part of any rank of the program. The first query of another rank reads its program.
 * TANDEM_UNSUPPORTED: the file does not hold that rank (tandem_compile_options.one_rank).
 * TANDEM_INVALID_PROGRAM: that rank's program is malformed. */
tandem_code tandem_program_shard(const tandem_program *program, uint32_t argument, uint32_t rank,
                                 tandem_shard *shard);

/* Device memory that the program needs on this rank, known before tandem_prepare. The programs of a
 * context share it (unless separate_memory is set): they need the largest number of each kind, not
 * the sum. docs/embedding.md, "Memory", has the exceptions. Arguments are not included:
 * tandem_argument.local_bytes. */
typedef struct tandem_memory_needs {
  size_t struct_size;
  uint64_t arena_bytes;     /* intermediate values */
  uint64_t symmetric_bytes; /* peers access it */
  uint64_t workspace_bytes; /* scratch memory of matrix libraries, for the streams with matmuls */
  uint64_t own_bytes; /* never shared: copies of arguments with a varying extent, and of slices
                       * that UCX cannot access in place */
} tandem_memory_needs;

tandem_code tandem_program_memory(const tandem_program *program, tandem_memory_needs *needs);

#ifdef __cplusplus
}
#endif

#endif /* TANDEM_C_PROGRAM_H */
