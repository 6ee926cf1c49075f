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
  for (uint32_t i = 0; i < peers.size(); ++i)
    if (peers[i].open())
      sendText(peers[i], FrameKind::Bye, "", Clock::now());
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
                  [](const Socket &peer) { return peer.open() && !peer.isLocal(); }))
    env.warn("the ranks are on several hosts, and the job's secret is a public name: set "
             "TANDEM_SECRET_FILE or TANDEM_SECRET to keep strangers out");
}

Status TcpBootstrap::gather(size_t bytes, void *all) {
  Deadline most = Clock::now() + kMostTimeouts * patience();
  noteAllSeen();
  std::vector<char> done(env.worldSize);
  uint32_t missing = env.worldSize - 1;
  std::vector<pollfd> entries(env.worldSize);
  // Read from all peers at once, so a dead rank is noticed while others are slow.
  while (missing > 0) {
    TANDEM_RETURN_IF_ERROR(failure()); // another thread may have given up
    for (uint32_t rank = 1; rank < env.worldSize; ++rank)
      if (!done[rank] && (Clock::now() >= most || silence(rank) >= patience()))
        return Status(Code::Timeout,
                      fmt::format("waited {} s for {}{}", patience().count() / 1000.0, nameOf(rank),
                                  missing > 1 ? " and others" : ""));
    for (uint32_t rank = 1; rank < env.worldSize; ++rank)
      entries[rank] = {isThere(rank) ? peers[rank].fd() : -1, POLLIN | POLLRDHUP, 0};
    entries[0] = {-1, 0, 0};
    if (::poll(entries.data(), entries.size(), 50) < 0)
      continue;
    for (uint32_t rank = 1; rank < env.worldSize; ++rank) {
      if (!entries[rank].revents && !left[rank])
        continue;
      if (done[rank]) { // it may end, or give up, while it waits for the others
        if (!left[rank])
          readBetweenExchanges(rank, entries[rank].revents & ~POLLIN);
        continue;
      }
      bool isDone = false;
      TANDEM_RETURN_IF_ERROR(advance(rank, bytes, all, isDone).withPrefix(nameOf(rank) + ": "));
      done[rank] = isDone;
      missing -= isDone;
    }
  }
  TANDEM_RETURN_IF_ERROR(failure());
  FrameHeader header;
  header.kind = FrameKind::Whole;
  header.sequence = sequence;
  header.bytes = bytes * env.worldSize;
  for (uint32_t rank = 1; rank < env.worldSize; ++rank)
    TANDEM_RETURN_IF_ERROR(give(rank, header, all).withPrefix(nameOf(rank) + ": "));
  return Status::success();
}

Status TcpBootstrap::give(uint32_t i, const FrameHeader &header, const void *data) {
  std::lock_guard<std::mutex> lock(writing[i]);
  TANDEM_RETURN_IF_ERROR(peers[i].send(&header, sizeof(header), patience()));
  TANDEM_RETURN_IF_ERROR(peers[i].send(data, header.bytes, patience()));
  if (Status known = failure(); !known.ok()) // notify() may not have waited for this
    sendText(peers[i], FrameKind::Abort, known.message(), Clock::now() + kNotice);
  return Status::success();
}

Status TcpBootstrap::advance(uint32_t rank, size_t bytes, void *all, bool &done) {
  Part &part = parts[rank];
  for (;;) {
    char *to;
    uint64_t want;
    if (part.received < sizeof(FrameHeader)) {
      to = reinterpret_cast<char *>(&part.header) + part.received;
      want = sizeof(FrameHeader) - part.received;
    } else if (part.header.magic == kFrameMagic && part.header.kind == FrameKind::Heartbeat) {
      part.received = 0;
      noteHeartbeat(rank, part.header.sequence);
      continue;
    } else {
      if (part.received == sizeof(FrameHeader))
        TANDEM_RETURN_IF_ERROR(check(rank, part.header, FrameKind::Part, bytes));
      uint64_t offset = part.received - sizeof(FrameHeader);
      to = static_cast<char *>(all) + rank * bytes + offset;
      want = bytes - offset;
      done = want == 0;
      if (done) {
        part.received = 0;
        return Status::success();
      }
    }
    auto n = peers[rank].receiveSome(to, want);
    if (!n)
      return n.status();
    if (*n == 0)
      return Status::success();
    noteSeen(rank);
    part.received += *n;
  }
}

Status TcpBootstrap::check(uint32_t from, FrameHeader &header, FrameKind kind, uint64_t bytes) {
  Status status = checkHeader(peers[from], kind, header, Clock::now() + milliseconds(200));
  if (!status.ok() && header.magic == kFrameMagic && header.kind == FrameKind::Abort) {
    parts[from].received = 0; // all of it was read
    if (env.rank == 0)
      noteAcknowledged(from);
  }
  TANDEM_RETURN_IF_ERROR(status);
  if (header.sequence != sequence)
    return Status(Code::Internal,
                  fmt::format("out of step: expected exchange {}, found {}; bootstrap calls must "
                              "come in the same order on every rank",
                              sequence, header.sequence));
  if (header.bytes != bytes)
    return Status(Code::Internal, fmt::format("gave {} bytes, expected {}", header.bytes, bytes));
  return Status::success();
}

Status TcpBootstrap::contribute(const void *mine, size_t bytes, void *all) {
  Deadline most = Clock::now() + kMostTimeouts * patience();
  FrameHeader header;
  header.kind = FrameKind::Part;
  header.sequence = sequence;
  header.bytes = bytes;
  // Rank 0 may be in a run, and reads nothing behind a large part.
  FrameHeader alive;
  alive.kind = FrameKind::Heartbeat;
  alive.sequence = Heartbeat::make(begun, env.rank, 0);
  Status sent = give(0, alive, nullptr);
  if (sent.ok())
    sent = give(0, header, mine);
  // A broken connection may still hold rank 0's reason: read it before giving up.
  if (!sent.ok() && sent.code() != Code::Aborted)
    return sent.withPrefix(nameOf(0) + ": ");
  FrameHeader whole;
  Status received;
  for (;;) {
    received = peers[0].receive(&whole, sizeof(whole),
                                std::min(most, Clock::now() + patience() + kRootFirst));
    if (!received.ok() || whole.magic != kFrameMagic || whole.kind != FrameKind::Heartbeat)
      break;
    noteSeen(0);
    noteHeartbeat(0, whole.sequence);
  }
  if (received.ok())
    received = check(0, whole, FrameKind::Whole, bytes * env.worldSize);
  if (received.ok())
    received = peers[0].receive(all, whole.bytes, patience());
  return received.withPrefix(nameOf(0) + ": ");
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
