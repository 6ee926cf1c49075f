//===- Descriptors.h - file descriptors from process to process ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHANNEL_PEER_DESCRIPTORS_H
#define TANDEM_CHANNEL_PEER_DESCRIPTORS_H

#include "Core/SharedStep.h"

#include <string>
#include <vector>

namespace tandem::peer {

/// A file descriptor, closed with its owner.
class Descriptor {
public:
  explicit Descriptor(int fd = -1) : fd(fd) {}
  Descriptor(Descriptor &&other) noexcept : fd(other.fd) { other.fd = -1; }
  Descriptor &operator=(Descriptor &&other) noexcept;
  ~Descriptor();
  int get() const { return fd; }

private:
  int fd;
};

/// Sends descriptors to other processes of the same host and user, over an abstract Unix socket.
class DescriptorServer {
public:
  static Expected<DescriptorServer> open();
  /// The address for the clients.
  const std::string &address() const { return name; }
  /// Sends `fd` to `count` clients and waits for them, as `step` lets it. Clients still waiting
  /// when the server is destroyed get an error.
  Status send(int fd, size_t count, const core::SharedStep &step);

private:
  Descriptor socket;
  std::string name;
};

/// Sends a request to the server at `address`, which must be open; does not wait.
Expected<Descriptor> requestDescriptor(const std::string &address);
/// Waits for the answer, as `step` lets it. Aborted if the server has gone.
Expected<Descriptor> receiveDescriptor(const Descriptor &request, const core::SharedStep &step);

} // namespace tandem::peer

#endif // TANDEM_CHANNEL_PEER_DESCRIPTORS_H
