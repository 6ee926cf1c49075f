/*===- tandem-c/Base.h - codes and types of the runtime's C API ----------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

/* Rules for all functions of the runtime.
 *
 * Errors: functions that can fail return a tandem_code. Then tandem_last_error(context) returns the
 *   message. Every function may return TANDEM_INVALID_ARGUMENT (a null handle or pointer, a bad
 *   value), TANDEM_OUT_OF_MEMORY and TANDEM_INTERNAL; its comment lists further codes. No exception
 *   leaves the library.
 * Structs: each begins with struct_size, which the caller sets to sizeof. In arrays of structs,
 * every element has it. The library reads and writes no more than that. Fields beyond an older
 * caller's size count as 0. A newer caller may not set fields that the library does not know.
 * Threads: a context and everything made from it are for one thread at a time, unless stated
 *   otherwise. Destroy functions may be called by any thread at any time, as finalizers do.
 * Lifetimes: handles may be destroyed in any order, and a null handle is ignored. A handle keeps
 *   alive what it needs: an instance works after its program and its context were destroyed.
 * Callbacks: a function of yours that the library calls may ask about its context, but not use it:
 *   runs, waits, tandem_prepare and the like are TANDEM_INVALID_ARGUMENT there. What it destroys
 *   ends later: after the call that led to it or, if a thread of the library calls the function, on
 *   another thread. What it throws (C++) is an error of the call that led to it, else of the next
 *   call that is not a query.
 * fork: a child has none of the runtime's threads. There, calls with a context or what was made
 *   from it are TANDEM_INVALID_ARGUMENT, and destroying does nothing. It can make its own context.
 */

#ifndef TANDEM_C_BASE_H
#define TANDEM_C_BASE_H

#include "tandem-c/Version.h"

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
  TANDEM_I1 = 7,       /* one byte, 0 or 1 */
  TANDEM_I16 = 8,      /* not reduced */
  TANDEM_F8E4M3FN = 9, /* not reduced */
  TANDEM_F8E5M2 = 10   /* not reduced */
};

/* How the terms of a partial argument are combined. */
typedef int tandem_reduction;
enum { TANDEM_SUM = 0, TANDEM_MAX = 1, TANDEM_MIN = 2 };

typedef struct tandem_context tandem_context;
typedef struct tandem_program tandem_program;
typedef struct tandem_instance tandem_instance;
typedef struct tandem_stream tandem_stream;
typedef struct tandem_memory tandem_memory;
typedef struct tandem_local_world tandem_local_world;

/* TANDEM_VERSION and TANDEM_VERSION_STRING of the library. Any thread. */
uint32_t tandem_runtime_version(void);
const char *tandem_runtime_version_string(void);
/* "timeout". */
const char *tandem_code_name(tandem_code code);

#ifdef __cplusplus
}
#endif

#endif /* TANDEM_C_BASE_H */
