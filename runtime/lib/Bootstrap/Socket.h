//===- Socket.h - TCP with deadlines ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LAUNCH_SOCKET_H
#define TANDEM_LAUNCH_SOCKET_H

#include "tandem/Program/Status.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tandem::bootstrap {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// Milliseconds until `deadline` as poll() takes them: never negative, at most `most`.
int millisecondsUntil(Deadline deadline, int most = 1000);

/// A connected TCP socket, non-blocking, closed with the object.
class Socket {
public:
  Socket() = default;
  /// Takes `fd` over.
  explicit Socket(int fd);
  Socket(Socket &&other) noexcept;
  Socket &operator=(Socket &&other) noexcept;
  ~Socket();

  bool open() const { return descriptor >= 0; }
  int fd() const { return descriptor; }
  void close();

  /// Connects to one host and port; all of its addresses are tried once.
  static Expected<Socket> connect(const std::string &host, uint16_t port, Deadline deadline);

  /// All of it, or an error: Timeout at the deadline, Aborted if the peer has closed, Io.
  Status send(const void *data, size_t bytes, Deadline deadline) const;
  Status receive(void *data, size_t bytes, Deadline deadline) const;
  /// What is there now, at most `bytes`; 0: nothing yet.
  Expected<size_t> receiveSome(void *data, size_t bytes) const;
  /// "192.0.2.1:4711".
  const std::string &peerName() const { return name; }

private:
  int descriptor = -1;
  std::string name;
};

} // namespace tandem::bootstrap

#endif // TANDEM_LAUNCH_SOCKET_H
