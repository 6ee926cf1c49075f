//===- TcpBootstrap.cpp - exchanges over TCP ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TcpBootstrap.h"

#include "tandem/Runtime/StartThread.h"

#include <cerrno>
#include <cstring>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::bootstrap;

/// A rank that lives but does not come is waited for so many timeouts.
static constexpr int kMostTimeouts = 60;

Status TcpBootstrap::start() {
  Status started;
  wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0)
    started = Status(Code::Io, fmt::format("cannot make a descriptor for the heartbeat: {}",
                                           std::strerror(errno)));
  else
    started = startThread(pulse, "the heartbeat", [this] { run(); });
  if (started.ok())
    return started;
  lose(started.withPrefix(fmt::format("rank {}: ", env.rank)));
  return failure();
}

TcpBootstrap::~TcpBootstrap() {
  isEnding = true;
  if (pulse.joinable()) {
    wakePulse();
    pulse.join();
  }
  if (wake >= 0)
    ::close(wake);
  for (Peer &peer : peers)
    if (peer.socket.open())
      sendText(peer.socket, FrameKind::Bye, "", Clock::now());
}

Status TcpBootstrap::findPlace() {
  TANDEM_ASSIGN_OR_RETURN(NodeMap map, findNodes(*this));
  warnOfSecret(map);
  uint32_t ranks = map.localSize(env.rank);
  if (!env.localRankKnown)
    env.localRank = map.localRank(env.rank);
  // Places may be numbers of GPUs, of which this job does not have all.
  if (!env.localSizeKnown)
    env.localSize = std::max(ranks, env.localRank + 1);
  else if (!env.localRankKnown && ranks > env.localSize)
    return Status(Code::InvalidArgument,
                  fmt::format("rank {}: expected at most {} ranks on its node, as the launcher "
                              "says, found {}",
                              env.rank, env.localSize, ranks));
  return Status::success();
}

Status TcpBootstrap::allGather(const void *mine, size_t bytes, void *all) {
  std::lock_guard<std::mutex> lock(reading);
  TANDEM_RETURN_IF_ERROR(failure());
  if (bytes)
    std::memcpy(static_cast<char *>(all) + env.rank * bytes, mine, bytes);
  ++sequence;
  noteAllSeen();
  Status result = env.rank == 0 ? gather(bytes, all) : contribute(mine, bytes, all);
  if (result.ok()) {
    noteAllSeen();
  } else {
    bool wasInformed = env.rank != 0 && result.code() == Code::Aborted;
    lose(result.withPrefix(fmt::format("rank {}, exchange {} over tcp: ", env.rank, sequence)),
         wasInformed);
  }
  return failure();
}

void TcpBootstrap::warnOfSecret(const NodeMap &map) const {
  if (env.rank != 0 || env.secretGiven || !env.warn || map.numNodes() < 2)
    return;
  // Several nodes may be one host.
  if (std::any_of(peers.begin(), peers.end(),
                  [](const Peer &peer) { return peer.socket.open() && !peer.socket.isLocal(); }))
    env.warn("the ranks are on several hosts, and the job's secret is a public name: set "
             "TANDEM_SECRET_FILE or TANDEM_SECRET to keep strangers out");
}

Status TcpBootstrap::gather(size_t bytes, void *all) {
  TANDEM_RETURN_IF_ERROR(receiveParts(patience(), bytes, static_cast<char *>(all)));
  FrameHeader header;
  header.kind = FrameKind::Whole;
  header.sequence = sequence;
  header.bytes = bytes * env.worldSize;
  for (uint32_t rank = 1; rank < env.worldSize; ++rank)
    TANDEM_RETURN_IF_ERROR(give(rank, header, all).withPrefix(nameOf(rank) + ": "));
  return Status::success();
}

Status TcpBootstrap::contribute(const void *mine, size_t bytes, void *all) {
  FrameHeader header;
  header.kind = FrameKind::Part;
  header.sequence = sequence;
  header.bytes = bytes;
  // Rank 0 may be in a run that waits until this rank has begun it.
  FrameHeader alive;
  alive.kind = FrameKind::Heartbeat;
  alive.sequence = Heartbeat::make(begun, env.rank, 0);
  Status sent = give(0, alive, nullptr);
  if (sent.ok())
    sent = give(0, header, mine);
  // A broken connection may still hold rank 0's reason: read it before giving up.
  if (!sent.ok() && sent.code() != Code::Aborted)
    return sent.withPrefix(nameOf(0) + ": ");
  return receiveParts(patience() + kRootFirst, bytes * env.worldSize, static_cast<char *>(all));
}

Status TcpBootstrap::give(uint32_t i, const FrameHeader &header, const void *data) {
  Peer &peer = peers[i];
  std::lock_guard<std::mutex> lock(peer.writing);
  TANDEM_RETURN_IF_ERROR(peer.socket.send(&header, sizeof(header), patience()));
  TANDEM_RETURN_IF_ERROR(peer.socket.send(data, header.bytes, patience()));
  if (Status known = failure(); !known.ok()) // notify() may not have waited for this
    sendText(peer.socket, FrameKind::Abort, known.message(), Clock::now() + kNotice);
  return Status::success();
}

Status TcpBootstrap::receiveParts(milliseconds limit, uint64_t bytes, char *to) {
  for (uint32_t i = 0; i < peers.size(); ++i) {
    peers[i].target = bytes ? to + i * bytes : nullptr;
    peers[i].targetBytes = bytes;
    placeData(peers[i]);
  }
  Status status = awaitParts(limit);
  for (Peer &peer : peers) {
    peer.target = nullptr;
    peer.next.isInPlace = false; // of a frame that an error has cut, whose data are of no use
  }
  for (uint32_t i = 0; i < peers.size() && status.ok(); ++i)
    if (peers[i].part)
      status = takePart(i, bytes, to + i * bytes);
  return status;
}

Status TcpBootstrap::awaitParts(milliseconds limit) {
  Deadline most = Clock::now() + kMostTimeouts * patience();
  std::vector<pollfd> entries(peers.size());
  for (;;) {
    TANDEM_RETURN_IF_ERROR(failure()); // another thread may have given up
    uint32_t missing = 0;
    Status late;
    for (uint32_t i = 0; i < peers.size(); ++i) {
      const Peer &peer = peers[i];
      entries[i] = {peer.isThere() ? peer.socket.fd() : -1, POLLIN | POLLRDHUP, 0};
      if (!peer.socket.open() || peer.part)
        continue;
      ++missing;
      if (peer.left)
        return Status(Code::Aborted, nameOf(i) + ": it has left the job");
      if (late.ok() && (Clock::now() >= most || silence(peer) >= limit))
        late = Status(Code::Timeout,
                      fmt::format("waited {} s for {}", limit.count() / 1000.0, nameOf(i)));
    }
    if (!late.ok())
      return missing > 1 ? Status(late.code(), late.message() + " and others") : late;
    if (missing == 0)
      return Status::success();
    // Read from all peers at once: those that have sent their part may end, or give up.
    if (::poll(entries.data(), entries.size(), 50) < 0)
      continue;
    for (uint32_t i = 0; i < peers.size(); ++i) {
      if (entries[i].revents)
        read(i);
      if (peers[i].part)
        loseIfSilent(i);
    }
  }
}

Status TcpBootstrap::takePart(uint32_t i, uint64_t bytes, char *to) {
  Frame part = std::move(*peers[i].part);
  peers[i].part.reset();
  if (part.header.sequence != sequence)
    return Status(Code::Internal,
                  fmt::format("{}: out of step: expected exchange {}, found {}; bootstrap calls "
                              "must come in the same order on every rank",
                              nameOf(i), sequence, part.header.sequence));
  if (part.header.bytes != bytes)
    return Status(Code::Internal, fmt::format("{}: gave {} bytes, expected {}", nameOf(i),
                                              part.header.bytes, bytes));
  if (bytes && !part.isInPlace)
    std::memcpy(to, part.data.data(), bytes);
  return Status::success();
}

static Expected<std::unique_ptr<TcpBootstrap>> connect(const BootstrapEnvironment &env) {
  std::vector<Socket> peers;
  if (env.rank == 0) {
    int fd = env.listenFd;
    std::optional<ListenSocket> own;
    if (fd < 0) {
      auto listener = listenAsRoot(env);
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
  auto made = std::make_unique<TcpBootstrap>(env, std::move(peers));
  TANDEM_RETURN_IF_ERROR(made->start());
  return made;
}

Expected<std::unique_ptr<Bootstrap>> tandem::createTcpBootstrap(const BootstrapEnvironment &env) {
  if (env.worldSize == 1)
    return createSelfBootstrap();
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Bootstrap> made, connect(env));
  return made;
}

Expected<std::unique_ptr<Bootstrap>> tandem::joinJob(const BootstrapEnvironment &env) {
  if (env.worldSize == 1)
    return createSelfBootstrap();
  TANDEM_ASSIGN_OR_RETURN(auto made, connect(env));
  TANDEM_RETURN_IF_ERROR(made->findPlace());
  return std::unique_ptr<Bootstrap>(std::move(made));
}

Expected<std::unique_ptr<Bootstrap>> tandem::createBootstrapFromEnvironment() {
  auto env = readBootstrapEnvironment();
  if (!env)
    return env.status();
  return joinJob(*env);
}
