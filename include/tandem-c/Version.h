/*===- tandem-c/Version.h - the version of the headers -------------------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

/* Compare it with that of the library: tandem_runtime_version(), tandem_compiler_version(). Before
 * 1.0 each minor version has an ABI of its own.
 */

#ifndef TANDEM_C_VERSION_H
#define TANDEM_C_VERSION_H

#define TANDEM_VERSION_MAJOR 0
#define TANDEM_VERSION_MINOR 2
#define TANDEM_VERSION_PATCH 0

/* 200 for 0.2.0. */
#define TANDEM_VERSION                                                                             \
  (TANDEM_VERSION_MAJOR * 10000 + TANDEM_VERSION_MINOR * 100 + TANDEM_VERSION_PATCH)

#define TANDEM_TEXT_OF_(x) #x
#define TANDEM_TEXT_(x) TANDEM_TEXT_OF_(x)
/* "0.2.0". */
#define TANDEM_VERSION_STRING                                                                      \
  TANDEM_TEXT_(TANDEM_VERSION_MAJOR)                                                               \
  "." TANDEM_TEXT_(TANDEM_VERSION_MINOR) "." TANDEM_TEXT_(TANDEM_VERSION_PATCH)

#define TANDEM_NAMESPACE_OF_(major, minor) v##major##_##minor
#define TANDEM_NAMESPACE_(major, minor) TANDEM_NAMESPACE_OF_(major, minor)
/* v0_2: the inline namespace of the headers in C++, so that two versions keep apart in a process.
 */
#define TANDEM_VERSION_NAMESPACE TANDEM_NAMESPACE_(TANDEM_VERSION_MAJOR, TANDEM_VERSION_MINOR)

#endif /* TANDEM_C_VERSION_H */
