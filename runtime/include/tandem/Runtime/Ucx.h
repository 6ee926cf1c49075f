//===- Ucx.h - processes that communicate over UCX ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_UCX_H
#define TANDEM_RUNTIME_UCX_H

#include "tandem/Runtime/Channel.h"

#include <chrono>

namespace tandem {

struct UcxOptions {
  /// How long a thread polls before it sleeps. Negative: 20 us where this process may use at least
  /// as many cores as there are ranks on the node, else 0.
  std::chrono::microseconds spin{-1};
  /// How long a transport waits, when it is destroyed, until its peers have received what it sent.
  /// Their threads of communication answer; their callers need not do anything.
  std::chrono::milliseconds closeTimeout{5000};
  /// How long a call of UCX may take when a channel or the transport ends. Then it is left to its
  /// thread, with a warning.
  std::chrono::milliseconds patience{5000};
  /// Use the network also between ranks of this host.
  bool networkOnly = false;
  /// Let UCX access memory of GPUs, if it was built for that; else it is copied through host
  /// memory.
  bool gpuDirect = true;
};

/// The options from the environment: TANDEM_UCX_SPIN (microseconds), TANDEM_UCX_NETWORK_ONLY (1),
/// TANDEM_UCX_GPU_DIRECT (0).
/// UCX reads its own UCX_* variables.
UcxOptions ucxOptionsFromEnvironment();

/// The transport "ucx": two-sided and one-sided, for host memory; two-sided for memory of GPUs, if
/// UCX says that it moves that; no collectives (the compiler expands them). Opens libucp.so.0 (or
/// TANDEM_UCX_LIBRARY) at run time; Unsupported, with the loader's message, if it is missing. One
/// thread drives all communication of the transport, concurrently with compute. If a peer dies,
/// every waiting operation ends with an error that names both ranks, and the transport stops.
/// Several contexts may share a process.
Expected<std::unique_ptr<Transport>>
createUcxTransport(const UcxOptions &options = ucxOptionsFromEnvironment());

} // namespace tandem

#endif // TANDEM_RUNTIME_UCX_H
