//===- TcpBootstrap.cpp - all-gather over TCP ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Wire.h"

#include <cstring>
#include <fmt/format.h>
#include <poll.h>

using namespace tandem;
using namespace tandem::bootstrap;

namespace {

class TcpBootstrap : public Bootstrap {
public:
  TcpBootstrap(const BootstrapEnvironment &env, std::vector<Socket> peers)
      : env(env), peers(std::move(peers)) {}

  uint32_t rank() const override { return env.rank; }
  uint32_t worldSize() const override { return env.worldSize; }
  uint32_t localRank() const override { return env.localRank; }
  uint32_t localSize() const override { return env.localSize; }

  Status allGather(const void *mine, size_t bytes, void *all) override {
    if (!failure.ok())
      return failure;
    if (bytes)
      std::memcpy(static_cast<char *>(all) + env.rank * bytes, mine, bytes);
    ++sequence;
    failure = env.rank == 0 ? gather(bytes, all) : contribute(mine, bytes, all);
    failure =
        failure.withPrefix(fmt::format("rank {}, exchange {} over tcp: ", env.rank, sequence));
    if (!failure.ok() && env.rank == 0)
      for (Socket &peer : peers)
        if (peer.open())
          sendAbort(peer, failure.message());
    return failure;
  }

  Status barrier() override { return allGather(nullptr, 0, nullptr); }

private:
  /// Progress of one peer's part.
  struct Part {
    FrameHeader header;
    uint64_t received = 0; ///< of header and data
  };

  std::string nameOf(uint32_t rank) const {
    return fmt::format("rank {} ({})", rank, peers[rank].peerName());
  }

  Status gather(size_t bytes, void *all) {
    Deadline deadline = Clock::now() + env.timeout;
    std::vector<Part> parts(env.worldSize);
    std::vector<uint32_t> waiting;
    for (uint32_t rank = 1; rank < env.worldSize; ++rank)
      waiting.push_back(rank);
    std::vector<pollfd> entries;
    // Read from all peers at once, so a dead rank is noticed while others are slow.
    while (!waiting.empty()) {
      if (Clock::now() >= deadline)
        return Status(Code::Timeout,
                      fmt::format("waited {} s for {}{}", env.timeout.count() / 1000.0,
                                  nameOf(waiting.front()),
                                  waiting.size() > 1 ? " and others" : ""));
      entries.clear();
      for (uint32_t rank : waiting)
        entries.push_back({peers[rank].fd(), POLLIN, 0});
      if (::poll(entries.data(), entries.size(), millisecondsUntil(deadline)) < 0)
        continue;
      std::vector<uint32_t> left;
      for (size_t i = 0; i < waiting.size(); ++i) {
        uint32_t rank = waiting[i];
        bool done = false;
        if (entries[i].revents)
          TANDEM_RETURN_IF_ERROR(
              advance(rank, parts[rank], bytes, all, done).withPrefix(nameOf(rank) + ": "));
        if (!done)
          left.push_back(rank);
      }
      waiting.swap(left);
    }
    FrameHeader header;
    header.kind = FrameKind::Whole;
    header.sequence = sequence;
    header.bytes = bytes * env.worldSize;
    for (uint32_t rank = 1; rank < env.worldSize; ++rank) {
      Status sent = peers[rank].send(&header, sizeof(header), deadline);
      if (sent.ok())
        sent = peers[rank].send(all, header.bytes, deadline);
      TANDEM_RETURN_IF_ERROR(sent.withPrefix(nameOf(rank) + ": "));
    }
    return Status::success();
  }

  /// Receives the available bytes of one part.
  Status advance(uint32_t rank, Part &part, size_t bytes, void *all, bool &done) {
    for (;;) {
      char *to;
      uint64_t want;
      if (part.received < sizeof(FrameHeader)) {
        to = reinterpret_cast<char *>(&part.header) + part.received;
        want = sizeof(FrameHeader) - part.received;
      } else {
        if (part.received == sizeof(FrameHeader))
          TANDEM_RETURN_IF_ERROR(check(part.header, FrameKind::Part, bytes));
        uint64_t offset = part.received - sizeof(FrameHeader);
        to = static_cast<char *>(all) + rank * bytes + offset;
        want = bytes - offset;
        done = want == 0;
        if (done)
          return Status::success();
      }
      auto n = peers[rank].receiveSome(to, want);
      if (!n)
        return n.status();
      if (*n == 0)
        return Status::success();
      part.received += *n;
    }
  }

  Status check(const FrameHeader &header, FrameKind kind, uint64_t bytes) const {
    if (header.magic != kFrameMagic || header.kind != kind || header.sequence != sequence)
      return Status(Code::Internal,
                    fmt::format("out of step: expected exchange {}, found {}; bootstrap calls must "
                                "come in the same order on every rank",
                                sequence, header.sequence));
    if (header.bytes != bytes)
      return Status(Code::Internal, fmt::format("gave {} bytes, expected {}", header.bytes, bytes));
    return Status::success();
  }

  Status contribute(const void *mine, size_t bytes, void *all) {
    Deadline deadline = Clock::now() + env.timeout + kRootFirst;
    FrameHeader header;
    header.kind = FrameKind::Part;
    header.sequence = sequence;
    header.bytes = bytes;
    Status sent = peers[0].send(&header, sizeof(header), deadline);
    if (sent.ok())
      sent = peers[0].send(mine, bytes, deadline);
    // A broken connection may still hold rank 0's reason: read it before giving up.
    if (!sent.ok() && sent.code() != Code::Aborted)
      return sent.withPrefix(nameOf(0) + ": ");
    FrameHeader whole;
    Status received = receiveHeader(peers[0], FrameKind::Whole, whole, deadline);
    if (received.ok())
      received = check(whole, FrameKind::Whole, bytes * env.worldSize);
    if (received.ok())
      received = peers[0].receive(all, whole.bytes, deadline);
    return received.withPrefix(nameOf(0) + ": ");
  }

  BootstrapEnvironment env;
  /// Rank 0: one per rank. Others: only the connection to rank 0.
  std::vector<Socket> peers;
  uint64_t sequence = 0;
  Status failure;
};

} // namespace

Expected<std::unique_ptr<Bootstrap>> tandem::createTcpBootstrap(const BootstrapEnvironment &env) {
  if (env.worldSize == 1)
    return createSelfBootstrap();
  std::vector<Socket> peers;
  if (env.rank == 0) {
    int fd = env.listenFd;
    std::optional<ListenSocket> own;
    if (fd < 0) {
      auto listener = ListenSocket::open(env.port);
      if (!listener)
        return listener.status().withPrefix("rank 0: ");
      own.emplace(std::move(*listener));
      fd = own->fd();
    }
    auto accepted = acceptPeers(env, fd);
    if (!accepted)
      return accepted.status();
    peers = std::move(*accepted);
  } else {
    auto root = connectToRoot(env);
    if (!root)
      return root.status();
    peers.push_back(std::move(*root));
  }
  return std::unique_ptr<Bootstrap>(new TcpBootstrap(env, std::move(peers)));
}

Expected<std::unique_ptr<Bootstrap>> tandem::createBootstrapFromEnvironment() {
  auto env = readBootstrapEnvironment();
  if (!env)
    return env.status();
  return createTcpBootstrap(*env);
}
