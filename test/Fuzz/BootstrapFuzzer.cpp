//===- BootstrapFuzzer.cpp - any bytes to rank 0 of a job -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Wire.h"
#include "tandem/Runtime/Rendezvous.h"

#include <arpa/inet.h>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace tandem;
using namespace tandem::bootstrap;

static int connectTo(uint16_t port) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)))
    std::abort();
  return fd;
}

static void sendAll(int fd, const void *data, size_t size) {
  if (::send(fd, data, size, MSG_NOSIGNAL) < 0)
    return; // rank 0 has closed the connection
}

/// An odd first byte: a stranger sends the rest while the ranks meet, and must not disturb them.
/// Even: rank 1 sends it after it has been admitted, and the exchange must end.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  bool isStranger = data[0] % 2;
  ++data;
  --size;
  auto listener = ListenSocket::open(0, "127.0.0.1");
  if (!listener)
    std::abort();
  BootstrapEnvironment env;
  env.worldSize = env.localSize = 2;
  env.addresses = {"127.0.0.1"};
  env.port = listener->port();
  env.secret = "a secret";
  env.timeout = std::chrono::seconds(20);
  BootstrapEnvironment root = env;
  root.listenFd = listener->fd();
  env.rank = env.localRank = 1;

  int stranger = isStranger ? connectTo(env.port) : -1;
  if (isStranger)
    sendAll(stranger, data, size);
  std::thread peer([&] {
    if (!isStranger) {
      auto socket = connectToRoot(env);
      if (!socket)
        std::abort();
      sendAll(socket->fd(), data, size);
      return;
    }
    auto bootstrap = createTcpBootstrap(env);
    if (!bootstrap || !(*bootstrap)->barrier().ok())
      std::abort();
  });
  auto bootstrap = createTcpBootstrap(root);
  if (!bootstrap)
    std::abort();
  uint64_t mine = 1, all[2] = {};
  if (isStranger) {
    if (!(*bootstrap)->barrier().ok())
      std::abort();
  } else {
    (*bootstrap)->allGather(&mine, sizeof mine, all).ignore();
    allGatherStrings(**bootstrap, "text").status().ignore();
  }
  peer.join();
  if (stranger >= 0)
    ::close(stranger);
  return 0;
}
