/*===- tandem-c/Job.h - the job of a launcher ---------------------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef TANDEM_C_JOB_H
#define TANDEM_C_JOB_H

#include "tandem-c/Context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The job of a launcher that started this process: torchrun, mpirun, srun, tandem-run, or the same
 * environment variables set by hand (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT). */
typedef struct tandem_job tandem_job;
/* Collective: connects to the other ranks over TCP and waits for them, at most
 * TANDEM_LAUNCH_TIMEOUT seconds (60). Without a launcher: a world of one rank. RANK and WORLD_SIZE
 * (above 1) without MASTER_ADDR or MASTER_PORT are TANDEM_INVALID_ARGUMENT, as is a malformed
 * variable. Also sets *job on failure (unless out of memory), for tandem_job_error; destroy it.
 * TANDEM_TIMEOUT: a rank has not come. TANDEM_IO: the network failed. TANDEM_ABORTED: another rank
 * gave up. */
tandem_code tandem_job_join(tandem_job **job);
/* For tandem_context_options.launch. Lives as long as the job. Contexts keep the job's connections.
 * NULL if joining failed. */
const tandem_launch *tandem_job_launch(const tandem_job *job);
/* The message of the last failure of a call or callback; "" if there was none. */
const char *tandem_job_error(const tandem_job *job);
void tandem_job_destroy(tandem_job *job);

/* For tandem_launch.node: a text that is equal on the processes of one host, and only there, by the
 * rule of tandem_job_join (TANDEM_NODE, the launcher's number of it, the host's name), for
 * embedders that exchange it themselves. Writes at most `size` bytes with the end of the text;
 * *node is "" if that is too few (512 are enough for a host's name). */
tandem_code tandem_node(char *node, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* TANDEM_C_JOB_H */
