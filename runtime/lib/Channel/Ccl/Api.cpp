//===- Api.cpp - NCCL and RCCL by symbol table ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Api.h"

#include "../../Core/SharedLibrary.h"

#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <string_view>

namespace tandem::ccl {

namespace {

/// From this version on, NCCL's source fulfils Communicator's assumptions.
constexpr int kSplitsFrom = 22700;

/// Whether the channel decides about blocking calls and shared resources: NCCL prefers environment
/// variables over its caller's settings.
bool mayChoose() {
  auto value = [](const char *name) {
    const char *text = std::getenv(name);
    return std::string_view(text ? text : "");
  };
  std::string_view share = value("NCCL_COMM_SPLIT_SHARE_RESOURCES");
  return value("NCCL_COMM_BLOCKING").empty() && (share.empty() || share == "1");
}

struct Library {
  const char *device, *title, *variable, *name, *wanted;
  /// Blocking children of non-blocking communicators may be used from this version on; 0: never.
  int splitsFrom;
};

constexpr Library kLibraries[] = {
    {"cuda", "NCCL", "TANDEM_NCCL_LIBRARY", "libnccl.so.2", "channel ccl: NCCL", kSplitsFrom},
    // Its source has not been checked for what Communicator relies on.
    {"hip", "RCCL", "TANDEM_RCCL_LIBRARY", "librccl.so.1", "channel ccl: RCCL", 0},
};

Expected<Api> load(const Library &which) {
  // Lazy connections would wait for the peer inside the enqueuing call, where ranks may have
  // different orders. NCCL reads this when it creates its first communicator; a user's value stays.
  ::setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  TANDEM_ASSIGN_OR_RETURN(SharedLibrary library,
                          SharedLibrary::open(which.variable, {which.name}, which.wanted));
  Api api;
  api.title = which.title;
  TANDEM_NCCL_FUNCTIONS(TANDEM_FIND_FUNCTION)
  int version = 0;
  TANDEM_RETURN_IF_ERROR(api.status(api.ncclGetVersion(&version), "ncclGetVersion"));
  if (version < 21800)
    return Status(Code::Unsupported,
                  fmt::format("channel ccl: expected {} 2.18 or later, found {}.{}.{}", which.title,
                              version / 10000, version % 10000 / 100, version % 100));
  library.find(api.ncclCommSplit, "ncclCommSplit").ignore();
  api.splits = api.ncclCommSplit && which.splitsFrom && version >= which.splitsFrom && mayChoose();
  return api;
}

} // namespace

Expected<const Api *> Api::get(const gpu::Vendor &vendor) {
  // Never destroyed: a thread that a hanging call keeps may use them until the process ends.
  static std::mutex &mutex = *new std::mutex;
  static auto &opened = *new std::map<std::string_view, Expected<Api>>;
  std::lock_guard<std::mutex> lock(mutex);
  auto found = opened.find(vendor.device);
  for (const Library &library : kLibraries)
    if (found == opened.end() && library.device == std::string_view(vendor.device))
      found = opened.emplace(vendor.device, load(library)).first;
  if (found == opened.end())
    return Status(Code::Unsupported,
                  fmt::format("channel ccl: no library for device {}", vendor.device));
  if (!found->second)
    return found->second.status();
  return &*found->second;
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
