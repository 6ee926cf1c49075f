/*===- tandem-c/Runtime.h - the runtime's C API --------------------------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

/* Runs stream programs on one rank: create a context, load a program, prepare an instance, bind
 * memory, run. Base.h has the rules that hold for all functions.
 */

#ifndef TANDEM_C_RUNTIME_H
#define TANDEM_C_RUNTIME_H

#include "tandem-c/Context.h"
#include "tandem-c/Device.h"
#include "tandem-c/Instance.h"
#include "tandem-c/Job.h"
#include "tandem-c/Kernel.h"
#include "tandem-c/Program.h"

#endif /* TANDEM_C_RUNTIME_H */
