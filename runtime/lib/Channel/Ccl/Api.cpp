//===- Api.cpp - NCCL by symbol table ---------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Api.h"

#include <cstdlib>
#include <dlfcn.h>
#include <fmt/format.h>

namespace tandem::ccl {

namespace {

Expected<Api> load() {
  const char *given = std::getenv("TANDEM_NCCL_LIBRARY");
  const char *library = given && *given ? given : "libnccl.so.2";
  // Connections made when a message first needs them would wait for the peer inside the call that
  // enqueues, where ranks need not come in one order. Read when the library makes its first
  // communicator; a value of the user's stays.
  ::setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  void *handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return Status(Code::Unsupported,
                  fmt::format("channel ccl: NCCL is not installed: {}", ::dlerror()));
  Api api;
#define X(name)                                                                                    \
  api.name = reinterpret_cast<decltype(api.name)>(::dlsym(handle, #name));                         \
  if (!api.name)                                                                                   \
    return Status(Code::Unsupported, fmt::format("channel ccl: {} has no {}", library, #name));
  TANDEM_NCCL_FUNCTIONS(X)
#undef X
  int version = 0;
  TANDEM_RETURN_IF_ERROR(api.status(api.ncclGetVersion(&version), "ncclGetVersion"));
  if (version < 21800)
    return Status(Code::Unsupported,
                  fmt::format("channel ccl: expected NCCL 2.18 or later, found {}.{}.{}",
                              version / 10000, version % 10000 / 100, version % 100));
  return api;
}

} // namespace

Expected<const Api *> Api::get() {
  static const Expected<Api> api = load();
  if (!api)
    return api.status();
  return &*api;
}

Status Api::status(ncclResult_t result, const char *what) const {
  if (result == ncclSuccess || result == ncclInProgress)
    return Status();
  const char *last = ncclGetLastError(nullptr);
  std::string more = last && *last ? fmt::format(" ({})", last) : "";
  while (!more.empty() && more[more.size() - 2] == '\n')
    more.erase(more.size() - 2, 1);
  return Status(result == ncclInvalidUsage ? Code::Unsupported : Code::Io,
                fmt::format("{}: {}{}", what, ncclGetErrorString(result), more));
}

} // namespace tandem::ccl
