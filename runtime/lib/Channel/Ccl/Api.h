//===- Api.h - NCCL and RCCL by symbol table --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHANNEL_CCL_API_H
#define TANDEM_CHANNEL_CCL_API_H

#include "Device/Gpu/ChannelInterface.h"

#include "tandem/Program/Status.h"

// All three declare the same functions and structures, under the same names.
#if TANDEM_NCCL_IS_RCCL
#include <rccl/rccl.h>
#elif TANDEM_CCL_DECLARATIONS
#include "Declarations.h"
#else
#include <nccl.h>
#endif

namespace tandem::ccl {

#if TANDEM_NCCL_IS_RCCL
using NativeStream = hipStream_t;
#elif TANDEM_CCL_DECLARATIONS
using NativeStream = void *;
#else
using NativeStream = cudaStream_t; ///< for RCCL, a hipStream_t: a pointer too
#endif

/// The functions of libnccl.so.2 and librccl.so.1 that the channel uses.
#define TANDEM_NCCL_FUNCTIONS(X)                                                                   \
  X(ncclGetVersion)                                                                                \
  X(ncclGetUniqueId)                                                                               \
  X(ncclGetErrorString)                                                                            \
  X(ncclGetLastError)                                                                              \
  X(ncclCommInitRankConfig)                                                                        \
  X(ncclCommFinalize)                                                                              \
  X(ncclCommDestroy)                                                                               \
  X(ncclCommAbort)                                                                                 \
  X(ncclCommGetAsyncError)                                                                         \
  X(ncclGroupStart)                                                                                \
  X(ncclGroupEnd)                                                                                  \
  X(ncclAllGather)                                                                                 \
  X(ncclAllReduce)                                                                                 \
  X(ncclReduceScatter)                                                                             \
  X(ncclBroadcast)                                                                                 \
  X(ncclReduce)                                                                                    \
  X(ncclSend)                                                                                      \
  X(ncclRecv)

/// Pointers to these functions under their own names: `api.ncclSend(...)`.
struct Api {
#define X(name) decltype(&::name) name = nullptr;
  TANDEM_NCCL_FUNCTIONS(X)
#undef X
  decltype(&::ncclCommSplit) ncclCommSplit = nullptr; ///< null if missing
  /// Runs use a blocking child of a non-blocking communicator (see Communicator); equal on all
  /// ranks of a group.
  bool splits = false;

  std::string title; ///< "NCCL", "RCCL"

  /// Opens libnccl.so.2 (or the library in TANDEM_NCCL_LIBRARY) for CUDA, librccl.so.1 (or that in
  /// TANDEM_RCCL_LIBRARY) for HIP, once per process. Unsupported, with the loader's message, if it
  /// is missing or older than 2.18.
  static Expected<const Api *> get(const gpu::Vendor &vendor);

  /// "<what>: <the library's text> (<its last words>)"; success and "in progress" are no errors.
  Status status(ncclResult_t result, const char *what) const;
};

} // namespace tandem::ccl

#endif // TANDEM_CHANNEL_CCL_API_H
