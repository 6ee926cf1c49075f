//===- Listen.cpp - where rank 0 listens ------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Wire.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

using namespace tandem;
using namespace tandem::bootstrap;

namespace {

/// An IPv4 or IPv6 address; the port is set when it is used.
struct Address {
  sockaddr_storage storage{};

  static Address of(const sockaddr *from) {
    Address address;
    std::memcpy(&address.storage, from,
                from->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    return address;
  }
  static Address any(sa_family_t family) {
    Address address;
    address.storage.ss_family = family;
    return address;
  }

  bool isSix() const { return storage.ss_family == AF_INET6; }
  sockaddr_in &four() { return reinterpret_cast<sockaddr_in &>(storage); }
  sockaddr_in6 &six() { return reinterpret_cast<sockaddr_in6 &>(storage); }
  in_port_t &port() { return isSix() ? six().sin6_port : four().sin_port; }
  sockaddr *get() { return reinterpret_cast<sockaddr *>(&storage); }
  socklen_t size() const { return isSix() ? sizeof(sockaddr_in6) : sizeof(sockaddr_in); }
  bool isLoopback() {
    return isSix() ? IN6_IS_ADDR_LOOPBACK(&six().sin6_addr)
                   : ntohl(four().sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
};

/// The addresses of an interface.
std::vector<Address> addressesOf(const std::string &interface) {
  std::vector<Address> found;
  ifaddrs *list = nullptr;
  if (::getifaddrs(&list))
    return found;
  for (int family : {AF_INET, AF_INET6})
    for (ifaddrs *entry = list; entry; entry = entry->ifa_next)
      if (interface == entry->ifa_name && entry->ifa_addr && entry->ifa_addr->sa_family == family)
        found.push_back(Address::of(entry->ifa_addr));
  ::freeifaddrs(list);
  return found;
}

/// The addresses that a host's name or an address in text stands for; none if it is unknown.
std::vector<Address> resolve(const std::string &host) {
  std::vector<Address> found;
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &list))
    return found;
  for (addrinfo *entry = list; entry; entry = entry->ai_next)
    if (entry->ai_family == AF_INET || entry->ai_family == AF_INET6)
      found.push_back(Address::of(entry->ai_addr));
  ::freeaddrinfo(list);
  return found;
}

/// True for spellings of the loopback. Not for a host's own name, which Debian lets resolve to
/// 127.0.1.1.
bool namesLoopback(const std::string &host) {
  return host == "localhost" || host == "::1" || host.compare(0, 4, "127.") == 0;
}

/// The loopback address on which ranks look for rank 0 at `host`. IPv4 where the host has it: other
/// ranks may spell it in another way.
std::string loopbackOf(const std::string &host) {
  if (host.compare(0, 4, "127.") == 0)
    return host;
  std::vector<Address> found = resolve(host);
  bool six = !found.empty() &&
             std::all_of(found.begin(), found.end(), [](const Address &a) { return a.isSix(); });
  return six ? "::1" : "127.0.0.1";
}

/// True if a host is known, and is the loopback only. A host's own name may be, on this host alone.
bool isLoopback(const std::string &host) {
  std::vector<Address> found = resolve(host);
  return !found.empty() &&
         std::all_of(found.begin(), found.end(), [](Address &a) { return a.isLoopback(); });
}

} // namespace

bool tandem::meetsOnLoopback(const BootstrapEnvironment &env) {
  return !env.addresses.empty() &&
         std::all_of(env.addresses.begin(), env.addresses.end(), isLoopback);
}

ListenSocket::ListenSocket(ListenSocket &&other) noexcept
    : socket(std::exchange(other.socket, -1)), number(other.number) {}

ListenSocket &ListenSocket::operator=(ListenSocket &&other) noexcept {
  std::swap(socket, other.socket);
  std::swap(number, other.number);
  return *this;
}

ListenSocket::~ListenSocket() {
  if (socket >= 0)
    ::close(socket);
}

/// A listening socket, or -1 and errno.
static int listenAt(Address &address, uint16_t port) {
  int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return -1;
  int on = 1, off = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.isSix()) // also serves IPv4
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  address.port() = htons(port);
  socklen_t length = sizeof(address.storage);
  if (!::bind(fd, address.get(), address.size()) && !::listen(fd, 1024) &&
      !::getsockname(fd, address.get(), &length))
    return fd;
  int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

Expected<ListenSocket> ListenSocket::open(uint16_t port, const std::string &address) {
  std::vector<Address> candidates = {Address::any(AF_INET6), Address::any(AF_INET)};
  if (!address.empty())
    candidates = addressesOf(address);
  if (candidates.empty())
    candidates = resolve(address);
  std::string where = address.empty() ? "" : fmt::format(" of \"{}\"", address);
  if (candidates.empty())
    return Status(Code::InvalidArgument,
                  fmt::format("cannot listen on port {}{}: no interface, address or host has this "
                              "name",
                              port, where));
  for (Address &candidate : candidates)
    if (int fd = listenAt(candidate, port); fd >= 0)
      return ListenSocket(fd, ntohs(candidate.port()));
    else if (errno == EADDRINUSE) // not on another address: ranks would not find it there
      break;
  return Status(Code::Io,
                fmt::format("cannot listen on port {}{}: {}", port, where, std::strerror(errno)));
}

Expected<ListenSocket> bootstrap::listenAsRoot(const BootstrapEnvironment &env) {
  if (!env.listenAddress.empty())
    return ListenSocket::open(env.port, env.listenAddress);
  if (env.addresses.empty())
    return Status(Code::InvalidArgument, "expected an address of rank 0, found none");
  if (std::all_of(env.addresses.begin(), env.addresses.end(), namesLoopback))
    return ListenSocket::open(env.port, loopbackOf(env.addresses[0]));
  // Ranks of other hosts may find this host by a name that is the loopback here: Debian lets a
  // host's own name resolve to 127.0.1.1.
  bool isOneHost = env.localSizeKnown && env.localSize == env.worldSize;
  for (const std::string &host : env.addresses) {
    std::vector<Address> found = resolve(host);
    if (std::any_of(found.begin(), found.end(), [](Address &a) { return a.isLoopback(); }) &&
        !(isOneHost && isLoopback(host)))
      continue;
    // An address of another host, or one that is translated on the way, cannot be bound.
    if (auto listener = ListenSocket::open(env.port, host))
      return listener;
  }
  return ListenSocket::open(env.port);
}
