//===- Rendezvous.h - ranks find each other over TCP ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_RENDEZVOUS_H
#define TANDEM_RUNTIME_RENDEZVOUS_H

#include "tandem/Runtime/Bootstrap.h"
#include "tandem/Runtime/Environment.h"

namespace tandem {

/// A listening TCP socket. Closed with the object.
class ListenSocket {
public:
  /// `port` 0: any free port. `address`: an address of this host, a name that resolves to one, or
  /// an interface ("eth0"); empty: all interfaces, IPv6 and IPv4.
  static Expected<ListenSocket> open(uint16_t port, const std::string &address = "");
  ListenSocket(ListenSocket &&other) noexcept;
  ListenSocket &operator=(ListenSocket &&other) noexcept;
  ~ListenSocket();
  uint16_t port() const { return number; }
  int fd() const { return socket; }

private:
  ListenSocket(int socket, uint16_t number) : socket(socket), number(number) {}
  int socket = -1;
  uint16_t number = 0;
};

/// A bootstrap over TCP: rank 0 listens (on `environment.listenFd`, else on `environment.port`),
/// the others connect, and every exchange is a star around rank 0. Blocks until all ranks are
/// there. Connections that do not prove to have the job's secret are dropped. A rank outside the
/// world, a rank that connects twice, and a different world size are errors on both sides. Every
/// wait is bounded by `environment.timeout`; errors name the ranks and addresses that were waited
/// for. If a rank ends, the ranks that wait for it get an error, and rank 0 forwards the reason. A
/// world of one needs no network.
Expected<std::unique_ptr<Bootstrap>> createTcpBootstrap(const BootstrapEnvironment &environment);
/// The same; then this rank's place on its node is known, whether the launcher has said it or not.
/// What tools do with an environment.
Expected<std::unique_ptr<Bootstrap>> joinJob(const BootstrapEnvironment &environment);

/// Whether `environment.addresses` are the loopback only, as this host resolves them. If that holds
/// on all ranks that have met, they share a network interface, so they are on one host.
bool meetsOnLoopback(const BootstrapEnvironment &environment);

/// Reads the environment, finds rank 0, connects: what tools do at start.
Expected<std::unique_ptr<Bootstrap>> createBootstrapFromEnvironment();

} // namespace tandem

#endif // TANDEM_RUNTIME_RENDEZVOUS_H
