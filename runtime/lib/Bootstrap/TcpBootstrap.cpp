//===- TcpBootstrap.cpp - all-gather and heartbeat over TCP --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Wire.h"

#include "tandem/Runtime/NodeMap.h"
#include "tandem/Runtime/StartThread.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
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

/// What an Alive frame says, in place of a sequence number, from the most significant bit:
///
///   | waits: 1 | silent: 1 | begun: 46 | rank: 16 |
///
/// waits: a run of the sender waits until all ranks have begun it, so they answer at once. Of a
/// rank: begun: how many runs it has begun. Of rank 0: how many every other rank but the receiver
/// has begun; rank: the one that has begun fewest, or, if silent, one that shows no life.
struct Word {
  static constexpr uint64_t kWaits = uint64_t(1) << 63, kSilent = uint64_t(1) << 62;
  static constexpr uint64_t make(uint64_t begun, uint32_t rank, uint64_t flags) {
    return flags | (begun << 18 >> 2) | (rank & 0xffff);
  }
  static constexpr uint64_t begun(uint64_t word) { return word << 2 >> 18; }
  static constexpr uint32_t rank(uint64_t word) { return word & 0xffff; }
};

/// Exchanges run on the caller's thread. Another thread, the pulse, sends Alive frames, and between
/// exchanges it reads what peers say of themselves.
class TcpBootstrap : public Bootstrap {
public:
  TcpBootstrap(const BootstrapEnvironment &env, std::vector<Socket> sockets)
      : env(env), peers(std::move(sockets)), writing(peers.size()), parts(peers.size()),
        heard(peers.size()), said(peers.size()), waits(peers.size()), left(peers.size()),
        told(peers.size()), knows(peers.size()) {
    for (uint32_t i = 0; i < peers.size(); ++i)
      noteHeard(i);
  }

  /// Starts the pulse. After an error, of which the other ranks hear, only the destructor may be
  /// called.
  Status start() {
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

  ~TcpBootstrap() override {
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

  Status allGather(const void *mine, size_t bytes, void *all) override {
    std::lock_guard<std::mutex> lock(reading);
    TANDEM_RETURN_IF_ERROR(failure());
    if (bytes)
      std::memcpy(static_cast<char *>(all) + env.rank * bytes, mine, bytes);
    ++sequence;
    Status result = env.rank == 0 ? gather(bytes, all) : contribute(mine, bytes, all);
    if (result.ok()) {
      hearAll();
    } else {
      bool wasTold = env.rank != 0 && result.code() == Code::Aborted;
      lose(result.withPrefix(fmt::format("rank {}, exchange {} over tcp: ", env.rank, sequence)),
           wasTold);
    }
    return failure();
  }

  Status barrier() override { return allGather(nullptr, 0, nullptr); }

  Status health() override {
    // A process that was stopped may ask before its pulse has read what came meanwhile.
    if (Clock::now().time_since_epoch().count() - looked.load() >
        Clock::duration(kPulse).count() * 3 / 2) {
      std::unique_lock<std::mutex> lock(reading, std::try_to_lock);
      if (lock)
        look({});
    }
    return failure();
  }

  void giveUp(const Status &reason) override {
    lose(reason);
    std::unique_lock<std::mutex> lock(state);
    while (!allKnow) {
      Deadline until = lostAt + env.noticeTimeout;
      // A stopped rank 0 passes nothing on. The others then end when they miss its signs of life,
      // which they have seen until about as late as this rank.
      Deadline last{Clock::duration(heard[0])};
      if (env.rank != 0 && isThere(0) && last < lostAt + kNotice)
        until = std::max(until, last + std::max(patience(), kLeastSilence) + 2 * kPulse);
      if (Clock::now() >= until)
        return;
      nowAllKnow.wait_until(lock, std::min(until, Clock::now() + kNotice / 2));
    }
  }

  void noteBegun(uint64_t runs) override {
    // Several contexts may use this: of the one with most runs.
    uint64_t known = begun;
    while (known < runs && !begun.compare_exchange_weak(known, runs)) {
    }
    if (known < runs && known < awaited) // others wait for it
      wakePulse();
  }

  uint64_t begunByAll() override {
    uint64_t least = kUnknown;
    for (uint32_t i = 0; i < peers.size(); ++i)
      if (isThere(i))
        least = std::min(least, Word::begun(said[i]));
    if (least < begun) {
      asked = Clock::now().time_since_epoch().count();
      wakePulse();
    }
    return std::min<uint64_t>(least, begun);
  }

  std::string late(uint64_t runs) override {
    std::string names;
    auto add = [&](uint32_t rank, const char *what) {
      names += fmt::format("{}rank {} {}", names.empty() ? "" : ", ", rank, what);
    };
    constexpr size_t kMost = 120; // bytes, of names
    for (uint32_t i = 0; i < peers.size() && names.size() < kMost; ++i) {
      if (!isThere(i))
        continue;
      uint64_t word = said[i];
      if (silence(i) > quiet())
        add(i, fmt::format("has shown no life for {:.1f} s",
                           std::chrono::duration<double>(silence(i)).count())
                   .c_str());
      else if (word & Word::kSilent)
        add(Word::rank(word), "shows no life");
      else if (Word::begun(word) < runs)
        add(env.rank == 0 ? i : Word::rank(word), "has not begun it");
    }
    return names;
  }

private:
  void warnOfSecret(const NodeMap &map) const {
    if (env.rank != 0 || env.secretGiven || !env.warn || map.numNodes() < 2)
      return;
    // Several nodes may be one host.
    if (std::any_of(peers.begin(), peers.end(),
                    [](const Socket &peer) { return peer.open() && !peer.isLocal(); }))
      env.warn("the ranks are on several hosts, and the job's secret is a public name: set "
               "TANDEM_SECRET_FILE or TANDEM_SECRET to keep strangers out");
  }

  /// Progress of one frame of a peer.
  struct Part {
    FrameHeader header;
    uint64_t received = 0; ///< of header and data
  };

  std::string nameOf(uint32_t rank) const {
    return fmt::format("rank {} ({})", rank, peers[rank].peerName());
  }

  milliseconds patience() const { return env.exchangeTimeout.value_or(env.timeout); }
  /// Between two signs of life.
  milliseconds interval() const {
    return std::min(kPulse, std::max(patience() / 4, milliseconds(20)));
  }
  /// A rank that has said nothing for so long is named in messages.
  milliseconds quiet() const { return 3 * interval(); }

  void noteHeard(uint32_t i) { heard[i] = Clock::now().time_since_epoch().count(); }
  void hearAll() {
    for (uint32_t i = 0; i < peers.size(); ++i)
      noteHeard(i);
  }
  /// For how long peer `i` has said nothing.
  Clock::duration silence(uint32_t i) const {
    return Clock::now().time_since_epoch() - Clock::duration(heard[i].load());
  }
  /// Peer `i` has sent Alive. What has begun stays so.
  void noteSaid(uint32_t i, uint64_t word) {
    if (Word::begun(word) >= Word::begun(said[i]))
      said[i] = word;
  }

  void wakePulse() {
    uint64_t one = 1;
    if (::write(wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
      std::terminate(); // of a descriptor of our own
  }
  /// Whether a run of this rank waits until other ranks have begun it.
  bool asksNow() const {
    return Clock::now().time_since_epoch() - Clock::duration(asked.load()) < kPulse;
  }
  /// It is connected, and may still say something.
  bool isThere(uint32_t i) const { return peers[i].open() && !left[i]; }

  Status failure() {
    std::lock_guard<std::mutex> lock(state);
    return lost;
  }

  /// Notes the first reason. Rank 0 tells all; another rank tells rank 0, or answers if it
  /// `wasTold` by rank 0.
  void lose(const Status &reason, bool wasTold = false) {
    {
      std::lock_guard<std::mutex> lock(state);
      if (!lost.ok())
        return;
      lost = reason;
      lostAt = Clock::now();
    }
    Deadline deadline = Clock::now() + kNotice;
    for (uint32_t i = 0; i < peers.size(); ++i)
      if (isThere(i))
        notify(i, wasTold ? FrameKind::Heard : FrameKind::Abort, reason.message(), deadline);
    countThoseWhoKnow();
  }

  /// Tells peer `i` at least if it takes that at once. A thread that is writing to it does so
  /// itself, when it has ended.
  void notify(uint32_t i, FrameKind kind, const std::string &text, Deadline deadline) {
    std::unique_lock<std::mutex> lock(writing[i], std::defer_lock);
    while (!lock.try_lock()) {
      if (Clock::now() >= deadline)
        return;
      std::this_thread::sleep_for(milliseconds(1));
    }
    sendText(peers[i], kind, kind == FrameKind::Heard ? "" : text, deadline);
  }

  /// After a failure: whether all ranks know of it that can be reached. Rank 0 tells the others.
  void countThoseWhoKnow() {
    {
      std::lock_guard<std::mutex> lock(state);
      if (lost.ok() || allKnow)
        return;
      for (uint32_t i = 0; i < peers.size(); ++i)
        if (isThere(i) && !knows[i])
          return;
      allKnow = true;
      nowAllKnow.notify_all();
    }
    Deadline deadline = Clock::now() + kNotice;
    for (uint32_t i = 0; i < peers.size() && env.rank == 0; ++i)
      if (isThere(i))
        notify(i, FrameKind::Heard, "", deadline);
  }

  /// Rank 0: peer `i` knows of the failure. Others: rank 0 says that all know.
  void noteKnows(uint32_t i) {
    {
      std::lock_guard<std::mutex> lock(state);
      knows[i] = 1;
    }
    countThoseWhoKnow();
  }

  void noteLeft(uint32_t i) {
    left[i] = 1;
    countThoseWhoKnow();
  }

  /// The pulse.
  void run() {
    Deadline next = Clock::now() + interval();
    for (;;) {
      // Wake up when a peer sends something or closes its connection. A peer that has sent its part
      // of an exchange, which this rank has not begun, is looked at every kNotice / 4.
      std::vector<pollfd> entries{{wake, POLLIN, 0}};
      Deadline until = next;
      for (uint32_t i = 0; i < peers.size(); ++i) {
        auto events = static_cast<short>(waits[i] ? POLLRDHUP : POLLRDHUP | POLLIN);
        entries.push_back({isThere(i) ? peers[i].fd() : -1, events, 0});
        if (waits[i])
          until = std::min(until, Clock::now() + kNotice / 4);
      }
      ::poll(entries.data(), entries.size(), millisecondsUntil(until));
      uint64_t unused;
      if (entries[0].revents && ::read(wake, &unused, sizeof(unused)) > 0 && isEnding)
        return;
      std::unique_lock<std::mutex> lock(reading, std::try_to_lock);
      if (lock) {
        look(entries);
        lock.unlock();
      } else { // an exchange notices by itself
        std::this_thread::sleep_for(milliseconds(20));
      }
      bool isDue = Clock::now() >= next;
      if (isDue)
        checkLauncher();
      tellBegun(isDue);
      if (isDue)
        next = Clock::now() + interval();
    }
  }

  /// A process whose parent has ended gets another one.
  void checkLauncher() {
    if (env.launcherProcess < 0 || ::getppid() == env.launcherProcess)
      return;
    lose(Status(Code::Aborted,
                fmt::format("rank {}: its parent, process {} ({} or a wrapper), has ended",
                            env.rank, env.launcherProcess, toString(env.launcher))));
    env.launcherProcess = -1;
  }

  /// Shows life to all peers, if `isDue`; else only to those that wait for news.
  void tellBegun(bool isDue) {
    bool waitsHere = asksNow();
    uint64_t most = begun;
    bool isAwaited = waitsHere;
    // Rank 0 tells each peer the least of the others.
    std::pair<uint64_t, uint32_t> least{begun, env.rank}, second{~uint64_t(0), env.rank};
    std::pair<Clock::duration, uint32_t> quietest{quiet(), 0};
    for (uint32_t i = 0; i < peers.size(); ++i) {
      if (!isThere(i))
        continue;
      uint64_t word = said[i];
      isAwaited |= (word & Word::kWaits) != 0;
      most = std::max(most, Word::begun(word));
      std::pair<uint64_t, uint32_t> theirs{Word::begun(word), i};
      second = std::min(second, std::max(least, theirs));
      least = std::min(least, theirs);
      quietest = std::max(quietest, {silence(i), i});
    }
    awaited = isAwaited ? most : 0;
    if (!isDue && !isAwaited)
      return;
    for (uint32_t i = 0; i < peers.size(); ++i) {
      if (!isThere(i))
        continue;
      uint64_t word = Word::make(begun, env.rank, waitsHere ? Word::kWaits : 0);
      if (env.rank == 0) {
        bool isSilent = quietest.second != 0 && quietest.second != i;
        auto [runs, rank] = least.second == i ? second : least;
        word = Word::make(runs, isSilent ? quietest.second : rank,
                          (isAwaited ? Word::kWaits : 0) | (isSilent ? Word::kSilent : 0));
      }
      if (isDue || word != told[i])
        showLife(i, word);
    }
  }

  /// Reads what has come from all peers. `entries`: of poll(), the peers' from 1 on; may be empty.
  void look(const std::vector<pollfd> &entries) {
    for (uint32_t i = 0; i < peers.size(); ++i) {
      bool ended = !entries.empty() && (entries[1 + i].revents & ~POLLIN);
      if (isThere(i) && failure().ok())
        listen(i, ended);
      if (isThere(i) && !failure().ok())
        drain(i);
    }
    looked = Clock::now().time_since_epoch().count();
  }

  void showLife(uint32_t i, uint64_t word) {
    // Being written to shows life, too.
    std::unique_lock<std::mutex> lock(writing[i], std::try_to_lock);
    FrameHeader alive;
    alive.kind = FrameKind::Alive;
    alive.sequence = word;
    int queued = 0;
    // A peer that reads nothing for hours must not find only these, and a frame is never cut.
    if (lock && (::ioctl(peers[i].fd(), SIOCOUTQ, &queued) || queued < 4096)) {
      peers[i].send(&alive, sizeof(alive), Clock::now() + milliseconds(200)).ignore();
      told[i] = word;
    }
  }

  void loseEnded(uint32_t i) {
    left[i] = 1; // it says nothing more
    lose(Status(Code::Aborted, fmt::format("lost rank {}: its process has ended", i)));
  }

  /// Between exchanges: reads what is no part of one. `ended`: the peer sends nothing more.
  void listen(uint32_t i, bool ended) {
    waits[i] = 0;
    for (;;) {
      FrameHeader header;
      ssize_t n = ::recv(peers[i].fd(), &header, sizeof(header), MSG_PEEK | MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno == ECONNRESET))
        return loseEnded(i);
      if (n < ssize_t(sizeof(header))) {
        if (ended)
          return loseEnded(i);
        waits[i] = n > 0; // for the rest of it
        // A run that waits for it ends after the timeout.
        milliseconds most = patience();
        if (Word::begun(said[i]) >= awaited)
          most = std::max(most, kLeastSilence);
        if (silence(i) > most)
          lose(Status(Code::Timeout, fmt::format("lost rank {}: it has shown no life for {} s", i,
                                                 most.count() / 1000.0)));
        return;
      }
      noteHeard(i);
      if (header.magic == kFrameMagic && header.kind == FrameKind::Bye)
        return noteLeft(i);
      if (header.magic == kFrameMagic &&
          (header.kind == FrameKind::Abort || header.kind == FrameKind::Heard)) {
        Status reason = receiveHeader(peers[i], header.kind, header, Clock::now() + kNotice);
        if (reason.ok())
          reason = Status(Code::Aborted, fmt::format("rank {} has given up", i));
        return isTold(i, reason);
      }
      if (header.magic != kFrameMagic || header.kind != FrameKind::Alive) {
        waits[i] = 1;
        // It does not await the end of the next exchange, of which this is, if it has ended, or
        // given up since.
        if (ended)
          loseEnded(i);
        else
          listenBehind(i);
        return;
      }
      peers[i].receive(&header, sizeof(header), Clock::now()).ignore();
      noteSaid(i, header.sequence);
    }
  }

  /// Peer `i` has said that the job ends.
  void isTold(uint32_t i, const Status &reason) {
    lose(reason, env.rank != 0);
    if (env.rank == 0)
      noteKnows(i);
  }

  /// Looks for Abort and Alive behind frames that cannot be taken yet.
  void listenBehind(uint32_t i) {
    std::vector<char> seen(kMaxText);
    ssize_t n = ::recv(peers[i].fd(), seen.data(), seen.size(), MSG_PEEK | MSG_DONTWAIT);
    auto most = static_cast<uint64_t>(std::max<ssize_t>(n, 0));
    FrameHeader header;
    for (uint64_t at = 0; at + sizeof(header) <= most; at += sizeof(header) + header.bytes) {
      std::memcpy(&header, seen.data() + at, sizeof(header));
      if (header.magic != kFrameMagic || header.bytes > most - at - sizeof(header))
        return;
      if (header.kind == FrameKind::Alive)
        noteSaid(i, header.sequence);
      if (header.kind == FrameKind::Abort)
        return lose(
            Status(Code::Aborted, std::string(seen.data() + at + sizeof(header), header.bytes)));
    }
  }

  /// After a failure: reads on, for answers. No exchange comes any more.
  void drain(uint32_t i) {
    waits[i] = 0;
    Part &part = parts[i];
    char unused[4096];
    for (;;) {
      bool isHeader = part.received < sizeof(FrameHeader);
      char *to = isHeader ? reinterpret_cast<char *>(&part.header) + part.received : unused;
      uint64_t want = isHeader ? sizeof(FrameHeader) - part.received
                               : part.header.bytes + sizeof(FrameHeader) - part.received;
      if (want > 0) {
        auto n = peers[i].receiveSome(to, isHeader ? want : std::min(want, sizeof(unused)));
        if (!n)
          return noteLeft(i);
        if (*n == 0)
          return;
        noteHeard(i);
        part.received += *n;
      }
      if (part.received < sizeof(FrameHeader))
        continue;
      if (part.header.magic != kFrameMagic)
        return noteLeft(i); // it was cut
      // Of what takes part in an exchange only the data, elsewhere the header tells how much comes.
      if (part.received < sizeof(FrameHeader) + part.header.bytes)
        continue;
      FrameHeader header = part.header;
      part.received = 0;
      if (header.kind == FrameKind::Bye)
        return noteLeft(i);
      if (header.kind == FrameKind::Abort && env.rank != 0)
        notify(0, FrameKind::Heard, "", Clock::now() + kNotice);
      if (header.kind == FrameKind::Heard || (header.kind == FrameKind::Abort && env.rank == 0))
        noteKnows(i);
    }
  }

  Status gather(size_t bytes, void *all) {
    Deadline most = Clock::now() + kMostTimeouts * patience();
    hearAll();
    std::vector<char> done(env.worldSize);
    uint32_t missing = env.worldSize - 1;
    std::vector<pollfd> entries(env.worldSize);
    // Read from all peers at once, so a dead rank is noticed while others are slow.
    while (missing > 0) {
      TANDEM_RETURN_IF_ERROR(failure()); // another thread may have given up
      for (uint32_t rank = 1; rank < env.worldSize; ++rank)
        if (!done[rank] && (Clock::now() >= most || silence(rank) >= patience()))
          return Status(Code::Timeout,
                        fmt::format("waited {} s for {}{}", patience().count() / 1000.0,
                                    nameOf(rank), missing > 1 ? " and others" : ""));
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
            listen(rank, entries[rank].revents & ~POLLIN);
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

  /// Sends a frame; the peer must go on reading.
  Status give(uint32_t i, const FrameHeader &header, const void *data) {
    std::lock_guard<std::mutex> lock(writing[i]);
    TANDEM_RETURN_IF_ERROR(peers[i].send(&header, sizeof(header), patience()));
    TANDEM_RETURN_IF_ERROR(peers[i].send(data, header.bytes, patience()));
    if (Status known = failure(); !known.ok()) // notify() may not have waited for this
      sendText(peers[i], FrameKind::Abort, known.message(), Clock::now() + kNotice);
    return Status::success();
  }

  /// Receives the available bytes of one part.
  Status advance(uint32_t rank, size_t bytes, void *all, bool &done) {
    Part &part = parts[rank];
    for (;;) {
      char *to;
      uint64_t want;
      if (part.received < sizeof(FrameHeader)) {
        to = reinterpret_cast<char *>(&part.header) + part.received;
        want = sizeof(FrameHeader) - part.received;
      } else if (part.header.magic == kFrameMagic && part.header.kind == FrameKind::Alive) {
        part.received = 0;
        noteSaid(rank, part.header.sequence);
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
      noteHeard(rank);
      part.received += *n;
    }
  }

  Status check(uint32_t from, FrameHeader &header, FrameKind kind, uint64_t bytes) {
    Status status = checkHeader(peers[from], kind, header, Clock::now() + milliseconds(200));
    if (!status.ok() && header.magic == kFrameMagic && header.kind == FrameKind::Abort) {
      parts[from].received = 0; // all of it was read
      if (env.rank == 0)
        noteKnows(from);
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

  Status contribute(const void *mine, size_t bytes, void *all) {
    Deadline most = Clock::now() + kMostTimeouts * patience();
    FrameHeader header;
    header.kind = FrameKind::Part;
    header.sequence = sequence;
    header.bytes = bytes;
    // Rank 0 may be in a run, and reads nothing behind a large part.
    FrameHeader alive;
    alive.kind = FrameKind::Alive;
    alive.sequence = Word::make(begun, env.rank, 0);
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
      if (!received.ok() || whole.magic != kFrameMagic || whole.kind != FrameKind::Alive)
        break;
      noteHeard(0);
      noteSaid(0, whole.sequence);
    }
    if (received.ok())
      received = check(0, whole, FrameKind::Whole, bytes * env.worldSize);
    if (received.ok())
      received = peers[0].receive(all, whole.bytes, patience());
    return received.withPrefix(nameOf(0) + ": ");
  }

  BootstrapEnvironment env; ///< launcherProcess: the pulse's
  /// Rank 0: one per rank. Others: only the connection to rank 0.
  std::vector<Socket> peers;
  std::vector<std::mutex> writing; ///< per peer: frames are not mixed
  std::mutex reading;              ///< of all peers; guards the fields below
  std::vector<Part> parts;         ///< the frame that is being read, in exchanges and by drain()
  uint64_t sequence = 0;
  /// Of each peer, set by readers and read by all: when something came last; the last Alive.
  std::vector<std::atomic<Clock::rep>> heard;
  std::vector<std::atomic<uint64_t>> said;
  std::vector<std::atomic<char>> waits; ///< what has come is for the next exchange; as `left`
  std::vector<std::atomic<char>> left;  ///< says nothing more; set by readers, read by all
  std::atomic<Clock::rep> looked{Clock::now().time_since_epoch().count()}; ///< when, last
  std::atomic<uint64_t> begun{0};                                          ///< runs of this rank
  std::atomic<Clock::rep> asked{0}; ///< when begunByAll() last found that others are late
  std::atomic<uint64_t> awaited{0}; ///< a run waits until all ranks have begun so many; 0: none
  std::vector<uint64_t> told;       ///< the pulse's: the last Alive to each peer
  std::mutex state;                 ///< guards the fields below
  std::condition_variable nowAllKnow;
  Status lost;
  Deadline lostAt;
  std::vector<char> knows; ///< rank 0: who knows of the failure; others: rank 0 says that all do
  bool allKnow = false;
  int wake = -1; ///< wakes the pulse
  std::atomic<bool> isEnding{false};
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
