//===- TcpBootstrap.cpp - all-gather and heartbeat over TCP --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Wire.h"

#include "tandem/Runtime/NodeMap.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace tandem;
using namespace tandem::bootstrap;
using std::chrono::milliseconds;

namespace {

/// How often a rank shows that it lives, at least.
constexpr milliseconds kPulse{500};
/// Outside of an exchange, a rank that shows no life for a shorter time than this is not given up.
constexpr milliseconds kLeastSilence{10000};
/// The most that all notices of a failure together take: the caller's operations wait for them.
constexpr milliseconds kNotice{200};
/// A rank that lives but does not come is waited for so many timeouts.
constexpr int kMostTimeouts = 60;

/// Exchanges run on the caller's thread. Another thread, the pulse, sends Alive frames, and between
/// exchanges it reads what peers say of themselves.
class TcpBootstrap : public Bootstrap {
public:
  TcpBootstrap(const BootstrapEnvironment &env, std::vector<Socket> sockets)
      : env(env), peers(std::move(sockets)), writing(peers.size()),
        heard(peers.size(), Clock::now()), left(peers.size()), stop(::eventfd(0, EFD_CLOEXEC)) {
    pulse = std::thread([this] { run(); });
  }

  ~TcpBootstrap() override {
    uint64_t one = 1;
    if (::write(stop, &one, sizeof(one)) < 0)
      std::terminate(); // of a descriptor of our own
    pulse.join();
    ::close(stop);
    for (uint32_t i = 0; i < peers.size(); ++i)
      if (peers[i].open())
        sendText(peers[i], FrameKind::Bye, "", Clock::now());
  }

  uint32_t rank() const override { return env.rank; }
  uint32_t worldSize() const override { return env.worldSize; }
  uint32_t localRank() const override { return env.localRank; }
  uint32_t localSize() const override { return env.localSize; }
  std::string host() const override {
    return env.node.empty() ? Bootstrap::host() : hostOf(env.node);
  }

  /// What the launcher has not said of this rank's place on its node. Collective.
  Status findPlace() {
    TANDEM_ASSIGN_OR_RETURN(NodeMap map, findNodes(*this));
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

  Status allGather(const void *mine, size_t bytes, void *all) override {
    std::lock_guard<std::mutex> lock(reading);
    if (Status known = health(); !known.ok())
      return known;
    if (bytes)
      std::memcpy(static_cast<char *>(all) + env.rank * bytes, mine, bytes);
    ++sequence;
    Status result = env.rank == 0 ? gather(bytes, all) : contribute(mine, bytes, all);
    std::fill(heard.begin(), heard.end(), Clock::now());
    if (!result.ok())
      lose(result.withPrefix(fmt::format("rank {}, exchange {} over tcp: ", env.rank, sequence)));
    return health();
  }

  Status barrier() override { return allGather(nullptr, 0, nullptr); }

  Status health() override {
    std::lock_guard<std::mutex> lock(state);
    return lost;
  }

  void giveUp(const Status &reason) override {
    if (env.rank == 0)
      return lose(reason);
    {
      std::lock_guard<std::mutex> lock(state);
      if (!lost.ok())
        return;
      lost = reason;
    }
    notify(0, reason, Clock::now() + kNotice);
  }

private:
  /// Progress of one peer's part.
  struct Part {
    FrameHeader header;
    uint64_t received = 0; ///< of header and data
  };

  std::string nameOf(uint32_t rank) const {
    return fmt::format("rank {} ({})", rank, peers[rank].peerName());
  }

  milliseconds patience() const { return env.exchangeTimeout.value_or(env.timeout); }

  /// Notes the first reason; rank 0 forwards it.
  void lose(const Status &reason) {
    {
      std::lock_guard<std::mutex> lock(state);
      if (!lost.ok())
        return;
      lost = reason;
    }
    Deadline deadline = Clock::now() + kNotice;
    for (uint32_t i = 0; i < peers.size() && env.rank == 0; ++i)
      if (peers[i].open() && !left[i])
        notify(i, reason, deadline);
  }

  /// Tells peer `i` at least if it takes that at once. A thread that is writing to it does so
  /// itself, when it has ended.
  void notify(uint32_t i, const Status &reason, Deadline deadline) {
    std::unique_lock<std::mutex> lock(writing[i], std::defer_lock);
    while (!lock.try_lock()) {
      if (Clock::now() >= deadline)
        return;
      std::this_thread::sleep_for(milliseconds(1));
    }
    sendText(peers[i], FrameKind::Abort, reason.message(), deadline);
  }

  /// The pulse.
  void run() {
    milliseconds interval = std::min(kPulse, std::max(patience() / 4, milliseconds(20)));
    Deadline next = Clock::now() + interval;
    for (;;) {
      // A peer's end is noticed at once.
      std::vector<pollfd> entries{{stop, POLLIN, 0}};
      bool healthy = health().ok();
      for (uint32_t i = 0; i < peers.size(); ++i)
        entries.push_back(
            {healthy && peers[i].open() && !left[i] ? peers[i].fd() : -1, POLLRDHUP, 0});
      ::poll(entries.data(), entries.size(), millisecondsUntil(next));
      if (entries[0].revents)
        return;
      if (Clock::now() >= next) {
        for (uint32_t i = 0; i < peers.size(); ++i)
          if (peers[i].open() && !left[i])
            showLife(i);
        next = Clock::now() + interval;
      }
      std::unique_lock<std::mutex> lock(reading, std::try_to_lock);
      if (!lock) { // an exchange notices by itself
        std::this_thread::sleep_for(milliseconds(20));
        continue;
      }
      for (uint32_t i = 0; i < peers.size(); ++i)
        if (peers[i].open() && !left[i] && health().ok())
          listen(i, entries[1 + i].revents != 0);
    }
  }

  void showLife(uint32_t i) {
    // Being written to shows life, too.
    std::unique_lock<std::mutex> lock(writing[i], std::try_to_lock);
    FrameHeader alive;
    alive.kind = FrameKind::Alive;
    int queued = 0;
    // A peer that reads nothing for hours must not find only these, and a frame is never cut.
    if (lock && (::ioctl(peers[i].fd(), SIOCOUTQ, &queued) || queued < 4096))
      peers[i].send(&alive, sizeof(alive), Clock::now() + milliseconds(200)).ignore();
  }

  /// Between exchanges: reads what is no part of one. `ended`: the peer sends nothing more.
  void listen(uint32_t i, bool ended) {
    auto loseEnded = [&] {
      lose(Status(Code::Aborted, fmt::format("lost rank {}: its process has ended", i)));
    };
    for (;;) {
      FrameHeader header;
      ssize_t n = ::recv(peers[i].fd(), &header, sizeof(header), MSG_PEEK | MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno == ECONNRESET))
        return loseEnded();
      if (n < ssize_t(sizeof(header))) {
        if (ended)
          return loseEnded();
        if (Clock::now() - heard[i] > std::max(patience(), kLeastSilence))
          lose(Status(Code::Timeout,
                      fmt::format("lost rank {}: it has shown no life for {} s", i,
                                  std::max(patience(), kLeastSilence).count() / 1000.0)));
        return;
      }
      heard[i] = Clock::now();
      if (header.magic == kFrameMagic && header.kind == FrameKind::Bye) {
        left[i] = 1;
        return;
      }
      if (header.magic == kFrameMagic && header.kind == FrameKind::Abort)
        return lose(
            receiveHeader(peers[i], FrameKind::Abort, header, Clock::now() + milliseconds(200)));
      if (header.magic != kFrameMagic || header.kind != FrameKind::Alive) {
        if (ended) // it does not await the end of the next exchange, of which this is
          loseEnded();
        return;
      }
      peers[i].receive(&header, sizeof(header), Clock::now()).ignore();
    }
  }

  Status gather(size_t bytes, void *all) {
    Deadline most = Clock::now() + kMostTimeouts * patience();
    std::fill(heard.begin(), heard.end(), Clock::now());
    std::vector<Part> parts(env.worldSize);
    std::vector<uint32_t> waiting;
    for (uint32_t rank = 1; rank < env.worldSize; ++rank)
      waiting.push_back(rank);
    std::vector<pollfd> entries;
    // Read from all peers at once, so a dead rank is noticed while others are slow.
    while (!waiting.empty()) {
      for (uint32_t rank : waiting)
        if (Clock::now() >= std::min(most, heard[rank] + patience()))
          return Status(Code::Timeout,
                        fmt::format("waited {} s for {}{}", patience().count() / 1000.0,
                                    nameOf(rank), waiting.size() > 1 ? " and others" : ""));
      entries.clear();
      for (uint32_t rank : waiting)
        entries.push_back({peers[rank].fd(), POLLIN, 0});
      if (::poll(entries.data(), entries.size(), 50) < 0)
        continue;
      std::vector<uint32_t> others;
      for (size_t i = 0; i < waiting.size(); ++i) {
        uint32_t rank = waiting[i];
        bool done = false;
        if (entries[i].revents)
          TANDEM_RETURN_IF_ERROR(
              advance(rank, parts[rank], bytes, all, done).withPrefix(nameOf(rank) + ": "));
        if (!done)
          others.push_back(rank);
      }
      waiting.swap(others);
    }
    FrameHeader header;
    header.kind = FrameKind::Whole;
    header.sequence = sequence;
    header.bytes = bytes * env.worldSize;
    for (uint32_t rank = 1; rank < env.worldSize; ++rank)
      TANDEM_RETURN_IF_ERROR(give(rank, header, all).withPrefix(nameOf(rank) + ": "));
    return Status::success();
  }

  /// Sends a frame; the peer must go on reading.
  Status give(uint32_t i, const FrameHeader &header, const void *data) {
    std::lock_guard<std::mutex> lock(writing[i]);
    TANDEM_RETURN_IF_ERROR(peers[i].send(&header, sizeof(header), patience()));
    TANDEM_RETURN_IF_ERROR(peers[i].send(data, header.bytes, patience()));
    if (Status known = health(); !known.ok()) // notify() may not have waited for this
      sendText(peers[i], FrameKind::Abort, known.message(), Clock::now() + kNotice);
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
      } else if (part.header.magic == kFrameMagic && part.header.kind == FrameKind::Alive) {
        part.received = 0;
        continue;
      } else {
        if (part.received == sizeof(FrameHeader))
          TANDEM_RETURN_IF_ERROR(check(rank, part.header, FrameKind::Part, bytes));
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
      heard[rank] = Clock::now();
      part.received += *n;
    }
  }

  Status check(uint32_t from, FrameHeader &header, FrameKind kind, uint64_t bytes) const {
    TANDEM_RETURN_IF_ERROR(
        checkHeader(peers[from], kind, header, Clock::now() + milliseconds(200)));
    if (header.sequence != sequence)
      return Status(Code::Internal,
                    fmt::format("out of step: expected exchange {}, found {}; bootstrap calls must "
                                "come in the same order on every rank",
                                sequence, header.sequence));
    if (header.bytes != bytes)
      return Status(Code::Internal, fmt::format("gave {} bytes, expected {}", header.bytes, bytes));
    return Status::success();
  }

  Status contribute(const void *mine, size_t bytes, void *all) {
    Deadline most = Clock::now() + kMostTimeouts * patience();
    FrameHeader header;
    header.kind = FrameKind::Part;
    header.sequence = sequence;
    header.bytes = bytes;
    Status sent = give(0, header, mine);
    // A broken connection may still hold rank 0's reason: read it before giving up.
    if (!sent.ok() && sent.code() != Code::Aborted)
      return sent.withPrefix(nameOf(0) + ": ");
    FrameHeader whole;
    Status received;
    do
      received = peers[0].receive(&whole, sizeof(whole),
                                  std::min(most, Clock::now() + patience() + kRootFirst));
    while (received.ok() && whole.magic == kFrameMagic && whole.kind == FrameKind::Alive);
    if (received.ok())
      received = check(0, whole, FrameKind::Whole, bytes * env.worldSize);
    if (received.ok())
      received = peers[0].receive(all, whole.bytes, patience());
    return received.withPrefix(nameOf(0) + ": ");
  }

  BootstrapEnvironment env;
  /// Rank 0: one per rank. Others: only the connection to rank 0.
  std::vector<Socket> peers;
  std::vector<std::mutex> writing; ///< per peer: frames are not mixed
  std::mutex reading;              ///< of all peers; guards the two fields below
  std::vector<Deadline> heard;     ///< when something came last
  uint64_t sequence = 0;
  std::vector<std::atomic<char>> left; ///< has said Bye; set by the pulse, read by all
  std::mutex state;                    ///< guards `lost`
  Status lost;
  int stop; ///< ends the pulse
  std::thread pulse;
};

} // namespace

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
  return std::make_unique<TcpBootstrap>(env, std::move(peers));
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
