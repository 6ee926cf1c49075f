//===- ToolMain.cpp - what every tool does around its work ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToolMain.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <new>
#include <string>
#include <system_error>
#include <unistd.h>

using namespace tandem;

/// Opens what is closed among 0, 1 and 2: a read of 0 and a write to 1 fail, 2 is dropped.
static void openStandardStreams() {
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", fd == 1 ? O_RDONLY : O_WRONLY) < 0)
      ::_exit(126);
}

Status run::caughtException() {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    return Status(Code::OutOfMemory, "out of memory");
  } catch (const std::system_error &error) {
    bool isThread = error.code() == std::errc::resource_unavailable_try_again;
    return Status(Code::Internal,
                  std::string(isThread ? "cannot start a thread: " : "") + error.what());
  } catch (const std::exception &error) {
    return Status(Code::Internal, error.what());
  }
}

int run::runTool(const char *tool, int failure, const std::function<int()> &body) {
  openStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN); // a write that fails is an error
  int code = failure;
  try {
    code = body();
  } catch (const std::exception &) {
    std::fprintf(stderr, "%s: %s\n", tool, escapeControls(caughtException().message()).c_str());
  }
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout))
    return code;
  std::fprintf(stderr, "%s: cannot write to the standard output%s%s\n", tool, errno ? ": " : "",
               errno ? std::strerror(errno) : "");
  return code ? code : failure;
}
