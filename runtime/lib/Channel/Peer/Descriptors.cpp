//===- Descriptors.cpp - file descriptors from process to process ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Descriptors.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace tandem::peer {

using Clock = std::chrono::steady_clock;

namespace {

Status failed(const char *what) {
  return Status(Code::Io, fmt::format("{}: {}", what, std::strerror(errno)));
}

/// The abstract address (not a file) of this name.
socklen_t fill(sockaddr_un &address, const std::string &name) {
  std::memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

Status waitUntilReadable(int fd, const core::SharedStep &step) {
  constexpr int kPause = 20; // ms
  while (true) {
    TANDEM_RETURN_IF_ERROR(step.goOn());
    pollfd entry{fd, POLLIN, 0};
    int ready = ::poll(&entry, 1, kPause);
    if (ready > 0)
      return Status();
    if (ready < 0 && errno != EINTR)
      return failed("poll");
  }
}

/// A message of one byte with space for a descriptor, aligned as required.
struct Message {
  Message() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  Message(const Message &) = delete; // contains pointers to itself
  Message &operator=(const Message &) = delete;

  char byte = 1;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
};

Status sendDescriptor(int socket, int fd) {
  Message message;
  cmsghdr *header = CMSG_FIRSTHDR(&message.header);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return ::sendmsg(socket, &message.header, MSG_NOSIGNAL) == 1 ? Status() : failed("sendmsg");
}

bool sameUser(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == ::geteuid();
}

} // namespace

Descriptor &Descriptor::operator=(Descriptor &&other) noexcept {
  std::swap(fd, other.fd);
  return *this;
}

Descriptor::~Descriptor() {
  if (fd >= 0)
    ::close(fd);
}

Expected<DescriptorServer> DescriptorServer::open() {
  static std::atomic<unsigned> number{0};
  DescriptorServer server;
  server.name = fmt::format("tandem-peer-{}-{}-{}", ::getpid(), ++number,
                            Clock::now().time_since_epoch().count());
  server.socket = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address;
  socklen_t size = fill(address, server.name);
  if (server.socket.get() < 0 ||
      ::bind(server.socket.get(), reinterpret_cast<sockaddr *>(&address), size) != 0 ||
      ::listen(server.socket.get(), 1024) != 0)
    return failed("a socket for handles");
  return server;
}

Status DescriptorServer::send(int fd, size_t count, const core::SharedStep &step) {
  for (size_t given = 0; given < count;) {
    TANDEM_RETURN_IF_ERROR(waitUntilReadable(socket.get(), step));
    Descriptor client(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client.get() < 0)
      return failed("accept");
    if (!sameUser(client.get()))
      continue; // not one of this job
    // A client that has left reports its own error.
    if (Status status = sendDescriptor(client.get(), fd);
        !status.ok() && errno != EPIPE && errno != ECONNRESET)
      return status;
    ++given;
  }
  return Status();
}

Expected<Descriptor> requestDescriptor(const std::string &address) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un at;
  socklen_t size = fill(at, address);
  if (socket.get() < 0 || ::connect(socket.get(), reinterpret_cast<sockaddr *>(&at), size) != 0)
    return failed("connect");
  return socket;
}

Expected<Descriptor> receiveDescriptor(const Descriptor &request, const core::SharedStep &step) {
  TANDEM_RETURN_IF_ERROR(waitUntilReadable(request.get(), step));
  Message message;
  ssize_t size = ::recvmsg(request.get(), &message.header, MSG_CMSG_CLOEXEC);
  cmsghdr *header = CMSG_FIRSTHDR(&message.header);
  if (size != 1 || !header || header->cmsg_type != SCM_RIGHTS)
    return Status(Code::Aborted, step.name() + ": its rank ended before it sent a handle");
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return Descriptor(fd);
}

} // namespace tandem::peer
