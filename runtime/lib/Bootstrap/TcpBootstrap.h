//===- TcpBootstrap.h - all-gather and heartbeat over TCP --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BOOTSTRAP_TCPBOOTSTRAP_H
#define TANDEM_BOOTSTRAP_TCPBOOTSTRAP_H

#include "Wire.h"

#include "tandem/Runtime/NodeMap.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>
#include <poll.h>
#include <thread>

namespace tandem::bootstrap {

using std::chrono::milliseconds;

/// How often a rank sends a heartbeat, at least.
inline constexpr milliseconds kPulse{500};
/// The most that all notices of a failure together take: the caller's operations wait for them.
inline constexpr milliseconds kNotice{200};

/// What a frame Heartbeat says, in place of a sequence number, from the most significant bit:
///
///   | waits: 1 | silent: 1 | begun: 46 | rank: 16 |
///
/// waits: a run of the sender waits until all ranks have begun it, so they answer at once. Of a
/// rank: begun: how many runs it has begun. Of rank 0: how many every other rank but the receiver
/// has begun; rank: the one that has begun fewest, or, if silent, one that sends no heartbeat.
struct Heartbeat {
  static constexpr uint64_t kWaits = uint64_t(1) << 63, kSilent = uint64_t(1) << 62;
  static constexpr uint64_t make(uint64_t begun, uint32_t rank, uint64_t flags) {
    return flags | (begun << 18 >> 2) | (rank & 0xffff);
  }
  static constexpr uint64_t begun(uint64_t word) { return word << 2 >> 18; }
  static constexpr uint32_t rank(uint64_t word) { return word & 0xffff; }
};

/// The bootstrap over TCP: rank 0 has a connection to each other rank. Exchanges run on the
/// caller's thread (TcpBootstrap.cpp). Another thread, the pulse, sends heartbeats, and between
/// exchanges it reads what peers say of themselves (Heartbeat.cpp).
class TcpBootstrap : public Bootstrap {
public:
  TcpBootstrap(const BootstrapEnvironment &env, std::vector<Socket> sockets)
      : env(env), peers(std::move(sockets)), writing(peers.size()), parts(peers.size()),
        lastSeen(peers.size()), heartbeats(peers.size()), waits(peers.size()), left(peers.size()),
        sentHeartbeats(peers.size()), acknowledged(peers.size()) {
    for (uint32_t i = 0; i < peers.size(); ++i)
      noteSeen(i);
  }

  /// Starts the pulse. After an error, of which the other ranks hear, only the destructor may be
  /// called.
  Status start();
  ~TcpBootstrap() override;

  uint32_t rank() const override { return env.rank; }
  uint32_t worldSize() const override { return env.worldSize; }
  uint32_t localRank() const override { return env.localRank; }
  uint32_t localSize() const override { return env.localSize; }
  std::string host() const override {
    return env.node.empty() ? Bootstrap::host() : hostOf(env.node);
  }

  /// What the launcher has not said of this rank's place on its node. Collective.
  Status findPlace();
  Status allGather(const void *mine, size_t bytes, void *all) override;
  Status barrier() override { return allGather(nullptr, 0, nullptr); }
  Status health() override;
  void giveUp(const Status &reason) override;
  void noteBegun(uint64_t runs) override;
  uint64_t begunByAll() override;
  std::string late(uint64_t runs) override;

private:
  void warnOfSecret(const NodeMap &map) const;
  /// Progress of one frame of a peer.
  struct Part {
    FrameHeader header;
    uint64_t received = 0; ///< of header and data
  };
  std::string nameOf(uint32_t rank) const {
    return fmt::format("rank {} ({})", rank, peers[rank].peerName());
  }

  milliseconds patience() const { return env.exchangeTimeout.value_or(env.timeout); }
  /// Between two heartbeats.
  milliseconds interval() const {
    return std::min(kPulse, std::max(patience() / 4, milliseconds(20)));
  }
  /// A rank that has said nothing for so long is named in messages.
  milliseconds reportedSilence() const { return 3 * interval(); }
  void noteSeen(uint32_t i) { lastSeen[i] = Clock::now().time_since_epoch().count(); }
  void noteAllSeen() {
    for (uint32_t i = 0; i < peers.size(); ++i)
      noteSeen(i);
  }
  /// For how long peer `i` has said nothing.
  Clock::duration silence(uint32_t i) const {
    return Clock::now().time_since_epoch() - Clock::duration(lastSeen[i].load());
  }
  /// Peer `i` has sent a heartbeat. What has begun stays so.
  void noteHeartbeat(uint32_t i, uint64_t word) {
    if (Heartbeat::begun(word) >= Heartbeat::begun(heartbeats[i]))
      heartbeats[i] = word;
  }
  void wakePulse();
  /// Whether a run of this rank waits until other ranks have begun it.
  bool awaitsOthers() const {
    return Clock::now().time_since_epoch() - Clock::duration(asked.load()) < kPulse;
  }
  /// It is connected, and may still say something.
  bool isThere(uint32_t i) const { return peers[i].open() && !left[i]; }
  Status failure() {
    std::lock_guard<std::mutex> lock(state);
    return lost;
  }

  /// Notes the first reason. Rank 0 tells all; another rank tells rank 0, or answers if it
  /// `wasInformed` by rank 0.
  void lose(const Status &reason, bool wasInformed = false);
  /// Tells peer `i` at least if it takes that at once. A thread that is writing to it does so
  /// itself, when it has ended.
  void notify(uint32_t i, FrameKind kind, const std::string &text, Deadline deadline);
  /// After a failure: whether all ranks know of it that can be reached. Rank 0 tells the others.
  void checkAcknowledged();
  /// Rank 0: peer `i` knows of the failure. Others: rank 0 says that all know.
  void noteAcknowledged(uint32_t i);
  void noteLeft(uint32_t i);

  /// The pulse.
  void run();
  /// A process whose parent has ended gets another one.
  void checkLauncher();
  /// Sends heartbeats to all peers, if `isDue`; else only to those that wait for news.
  void sendHeartbeats(bool isDue);
  /// Reads what has come from all peers. `entries`: of poll(), the peers' from 1 on; may be empty.
  void readAll(const std::vector<pollfd> &entries);
  void sendHeartbeat(uint32_t i, uint64_t word);
  void loseEnded(uint32_t i);
  /// Between exchanges: reads what is no part of one. `ended`: the peer sends nothing more.
  void readBetweenExchanges(uint32_t i, bool ended);
  /// Peer `i` has said that the job ends.
  void noteAbort(uint32_t i, const Status &reason);
  /// Looks for aborts and heartbeats behind frames that cannot be taken yet.
  void peekBehind(uint32_t i);
  /// After a failure: reads on, for answers. No exchange comes any more.
  void drain(uint32_t i);

  Status gather(size_t bytes, void *all);
  /// Sends a frame; the peer must go on reading.
  Status give(uint32_t i, const FrameHeader &header, const void *data);
  /// Receives the available bytes of one part.
  Status advance(uint32_t rank, size_t bytes, void *all, bool &done);
  Status check(uint32_t from, FrameHeader &header, FrameKind kind, uint64_t bytes);
  Status contribute(const void *mine, size_t bytes, void *all);

  BootstrapEnvironment env; ///< launcherProcess: the pulse's
  /// Rank 0: one per rank. Others: only the connection to rank 0.
  std::vector<Socket> peers;
  std::vector<std::mutex> writing; ///< per peer: frames are not mixed
  std::mutex reading;              ///< of all peers; guards the fields below
  std::vector<Part> parts;         ///< the frame that is being read, in exchanges and by drain()
  uint64_t sequence = 0;
  /// Of each peer, set by readers and read by all: when something came last; the last heartbeat.
  std::vector<std::atomic<Clock::rep>> lastSeen;
  std::vector<std::atomic<uint64_t>> heartbeats;
  std::vector<std::atomic<char>> waits; ///< what has come is for the next exchange; as `left`
  std::vector<std::atomic<char>> left;  ///< says nothing more; set by readers, read by all
  std::atomic<Clock::rep> lastRead{Clock::now().time_since_epoch().count()}; ///< when, last
  std::atomic<uint64_t> begun{0};                                            ///< runs of this rank
  std::atomic<Clock::rep> asked{0};     ///< when begunByAll() last found that others are late
  std::atomic<uint64_t> awaited{0};     ///< a run waits until all ranks have begun so many; 0: none
  std::vector<uint64_t> sentHeartbeats; ///< the pulse's: the last one to each peer
  std::mutex state;                     ///< guards the fields below
  std::condition_variable nowAllAcknowledged;
  Status lost;
  Deadline lostAt;
  /// Rank 0: who knows of the failure. Others: rank 0 says that all do.
  std::vector<char> acknowledged;
  bool allAcknowledged = false;
  int wake = -1; ///< wakes the pulse
  std::atomic<bool> isEnding{false};
  std::thread pulse;
};

} // namespace tandem::bootstrap

#endif // TANDEM_BOOTSTRAP_TCPBOOTSTRAP_H
