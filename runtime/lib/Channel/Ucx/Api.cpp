//===- Api.cpp - UCX by symbol table ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Api.h"

#include <cstdlib>
#include <dlfcn.h>
#include <fmt/format.h>

using namespace tandem;
using namespace tandem::ucx;

static Expected<Api> load() {
  const char *given = std::getenv("TANDEM_UCX_LIBRARY");
  const char *library = given && *given ? given : "libucp.so.0";
  void *handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return Status(Code::Unsupported,
                  fmt::format("channel ucx: UCX is not installed: {}", ::dlerror()));
  Api api;
#define X(name)                                                                                    \
  api.name = reinterpret_cast<decltype(api.name)>(::dlsym(handle, #name));                         \
  if (!api.name)                                                                                   \
    return Status(Code::Unsupported, fmt::format("channel ucx: {} has no {}", library, #name));
  TANDEM_UCP_FUNCTIONS(X)
#undef X
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
