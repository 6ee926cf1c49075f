//===- Socket.cpp - TCP with deadlines --------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Socket.h"

#include "tandem/Runtime/Rendezvous.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::bootstrap;

namespace {

Status ioError(const char *what, int error) {
  return Status(Code::Io, fmt::format("{}: {}", what, std::strerror(error)));
}

Status peerClosed() { return Status(Code::Aborted, "the connection was closed"); }

Status timedOut() { return Status(Code::Timeout, "timed out"); }

/// Waits until `fd` is ready for `events` or the deadline.
Status waitFor(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    int ready = ::poll(&entry, 1, millisecondsUntil(deadline));
    if (ready > 0)
      return Status::success();
    if (ready < 0 && errno != EINTR)
      return ioError("poll", errno);
    if (Clock::now() >= deadline)
      return timedOut();
  }
}

std::string nameOf(const sockaddr *address, socklen_t length) {
  char host[NI_MAXHOST], service[NI_MAXSERV];
  if (::getnameinfo(address, length, host, sizeof(host), service, sizeof(service),
                    NI_NUMERICHOST | NI_NUMERICSERV))
    return "unknown address";
  // IPv4 address on an IPv6 socket.
  if (const char *mapped = std::strstr(host, "::ffff:"); mapped == host)
    return fmt::format("{}:{}", host + 7, service);
  return fmt::format(std::strchr(host, ':') ? "[{}]:{}" : "{}:{}", host, service);
}

} // namespace

int bootstrap::millisecondsUntil(Deadline deadline, int most) {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, most));
}

Socket::Socket(int fd) : descriptor(fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  int on = 1, idle = 10, interval = 5, count = 3;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // A host that vanishes sends no FIN.
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
  // Ask now: a broken connection has no peer address.
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (!::getpeername(fd, reinterpret_cast<sockaddr *>(&address), &length))
    name = nameOf(reinterpret_cast<sockaddr *>(&address), length);
}

Socket::Socket(Socket &&other) noexcept
    : descriptor(std::exchange(other.descriptor, -1)), name(std::move(other.name)) {}

Socket &Socket::operator=(Socket &&other) noexcept {
  std::swap(descriptor, other.descriptor);
  std::swap(name, other.name);
  return *this;
}

Socket::~Socket() { close(); }

void Socket::close() {
  if (descriptor >= 0)
    ::close(descriptor);
  descriptor = -1;
}

bool Socket::isLocal() const {
  sockaddr_storage ends[2] = {};
  socklen_t lengths[2] = {sizeof(ends[0]), sizeof(ends[1])};
  if (::getsockname(descriptor, reinterpret_cast<sockaddr *>(&ends[0]), &lengths[0]) ||
      ::getpeername(descriptor, reinterpret_cast<sockaddr *>(&ends[1]), &lengths[1]) ||
      ends[0].ss_family != ends[1].ss_family)
    return false;
  // To an address of its own, a host sends from the same one, or over the loopback.
  auto isLoopback = [](uint32_t four) { return ntohl(four) >> 24 == IN_LOOPBACKNET; };
  if (ends[0].ss_family == AF_INET) {
    uint32_t own = reinterpret_cast<sockaddr_in &>(ends[0]).sin_addr.s_addr;
    return own == reinterpret_cast<sockaddr_in &>(ends[1]).sin_addr.s_addr || isLoopback(own);
  }
  const in6_addr &own = reinterpret_cast<sockaddr_in6 &>(ends[0]).sin6_addr;
  const in6_addr &peer = reinterpret_cast<sockaddr_in6 &>(ends[1]).sin6_addr;
  return IN6_ARE_ADDR_EQUAL(&own, &peer) ||
         (IN6_IS_ADDR_V4MAPPED(&own) && isLoopback(own.s6_addr32[3]));
}

Expected<Socket> Socket::connect(const std::string &host, uint16_t port, Deadline deadline) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error)
    return Status(Code::Io, fmt::format("cannot resolve \"{}\": {}", host, ::gai_strerror(error)));
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  Status last(Code::Io, fmt::format("no address of \"{}\"", host));
  for (addrinfo *entry = list; entry; entry = entry->ai_next) {
    int fd = ::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      last = ioError("socket", errno);
      continue;
    }
    Socket socket(fd);
    int failure = 0;
    if (::connect(fd, entry->ai_addr, entry->ai_addrlen) < 0) {
      failure = errno;
      if (failure == EINPROGRESS) {
        last = waitFor(fd, POLLOUT, deadline);
        if (!last.ok())
          continue;
        socklen_t length = sizeof(failure);
        ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &length);
      }
    }
    if (!failure) {
      socket.name = nameOf(entry->ai_addr, entry->ai_addrlen);
      return socket;
    }
    last = ioError("connect", failure);
  }
  return last;
}

Status Socket::send(const void *data, size_t bytes, Deadline deadline) const {
  auto *next = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t n = ::send(descriptor, next, bytes, MSG_NOSIGNAL);
    if (n > 0) {
      next += n;
      bytes -= static_cast<size_t>(n);
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      TANDEM_RETURN_IF_ERROR(waitFor(descriptor, POLLOUT, deadline));
    } else if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
      return peerClosed();
    } else if (n < 0 && errno != EINTR) {
      return ioError("send", errno);
    }
  }
  return Status::success();
}

Expected<size_t> Socket::receiveSome(void *data, size_t bytes) const {
  for (;;) {
    ssize_t n = ::recv(descriptor, data, bytes, 0);
    if (n > 0)
      return static_cast<size_t>(n);
    if (n == 0 || errno == ECONNRESET)
      return peerClosed();
    if (errno == EAGAIN || errno == EWOULDBLOCK)
      return size_t(0);
    if (errno != EINTR)
      return ioError("recv", errno);
  }
}

Status Socket::receive(void *data, size_t bytes, Deadline deadline) const {
  auto *next = static_cast<char *>(data);
  while (bytes > 0) {
    auto n = receiveSome(next, bytes);
    if (!n)
      return n.status();
    if (*n == 0)
      TANDEM_RETURN_IF_ERROR(waitFor(descriptor, POLLIN, deadline));
    next += *n;
    bytes -= *n;
  }
  return Status::success();
}

Status Socket::send(const void *data, size_t bytes, std::chrono::milliseconds patience) const {
  constexpr size_t kPiece = 64 * 1024; // each with a deadline of its own
  for (size_t done = 0; done < bytes; done += kPiece)
    TANDEM_RETURN_IF_ERROR(send(static_cast<const char *>(data) + done,
                                std::min(kPiece, bytes - done), Clock::now() + patience));
  return Status::success();
}
