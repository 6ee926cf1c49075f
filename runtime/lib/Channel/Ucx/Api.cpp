//===- Api.cpp - UCX by symbol table ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Api.h"

#include "../../Core/SharedLibrary.h"

#include <fmt/format.h>

using namespace tandem;
using namespace tandem::ucx;

static Expected<Api> load() {
  TANDEM_ASSIGN_OR_RETURN(
      SharedLibrary library,
      SharedLibrary::open("TANDEM_UCX_LIBRARY", {"libucp.so.0"}, "channel ucx: UCX"));
  Api api;
  TANDEM_UCP_FUNCTIONS(TANDEM_FIND_FUNCTION)
  unsigned major = 0, minor = 0, release = 0;
  api.ucp_get_version(&major, &minor, &release);
  if (major != 1 || minor < 12)
    return Status(Code::Unsupported, fmt::format("channel ucx: expected UCX 1.12 or later, found "
                                                 "{}.{}.{}",
                                                 major, minor, release));
  return api;
}

Expected<const Api *> Api::get() {
  static const Expected<Api> api = load();
  if (!api)
    return api.status();
  return &*api;
}

Status Api::status(ucs_status_t status, const char *what) const {
  if (status == UCS_OK)
    return Status::success();
  Code code = status == UCS_ERR_NO_MEMORY ? Code::OutOfMemory : Code::Io;
  return Status(code, fmt::format("{}: {}", what, ucs_status_string(status)));
}
