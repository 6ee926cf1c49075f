//===- ToolMain.cpp - what every tool does around its work ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToolMain.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <new>
#include <unistd.h>

using namespace tandem;

/// Opens what is closed among 0, 1 and 2: a read of 0 and a write to 1 fail, 2 is dropped.
static void openStandardStreams() {
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", fd == 1 ? O_RDONLY : O_WRONLY) < 0)
      ::_exit(126);
}

int run::runTool(const char *tool, int failure, const std::function<int()> &body) {
  openStandardStreams();
  int code = failure;
  try {
    code = body();
  } catch (const std::bad_alloc &) {
    std::fprintf(stderr, "%s: out of memory\n", tool);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s: %s\n", tool, error.what());
  }
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout))
    return code;
  std::fprintf(stderr, "%s: cannot write to the standard output%s%s\n", tool, errno ? ": " : "",
               errno ? std::strerror(errno) : "");
  return code ? code : failure;
}
