//===- Socket.h - TCP with deadlines ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BOOTSTRAP_SOCKET_H
#define TANDEM_BOOTSTRAP_SOCKET_H

#include "tandem/Program/Status.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tandem::bootstrap {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// Milliseconds until `deadline` for poll(), from 0 to `most`.
int millisecondsUntil(Deadline deadline, int most = 1000);

/// A connected TCP socket, non-blocking, closed with the object.
class Socket {
public:
  Socket() = default;
  /// Takes ownership of `fd`.
  explicit Socket(int fd);
  Socket(Socket &&other) noexcept;
  Socket &operator=(Socket &&other) noexcept;
  ~Socket();

  bool open() const { return descriptor >= 0; }
  int fd() const { return descriptor; }
  void close();

  /// Connects to one host and port; tries each of its addresses once.
  static Expected<Socket> connect(const std::string &host, uint16_t port, Deadline deadline);

  /// Transfers all bytes, or fails: Timeout at the deadline, Aborted if the peer has closed, Io.
  Status send(const void *data, size_t bytes, Deadline deadline) const;
  Status receive(void *data, size_t bytes, Deadline deadline) const;
  /// The same, as long as something is sent within each `patience`.
  Status send(const void *data, size_t bytes, std::chrono::milliseconds patience) const;
  /// Receives what is available, at most `bytes`; 0: nothing yet.
  Expected<size_t> receiveSome(void *data, size_t bytes) const;
  /// "192.0.2.1:4711".
  const std::string &peerName() const { return name; }
  /// Whether the peer is on this host, as far as addresses tell.
  bool isLocal() const;

private:
  int descriptor = -1;
  std::string name;
};

} // namespace tandem::bootstrap

#endif // TANDEM_BOOTSTRAP_SOCKET_H
