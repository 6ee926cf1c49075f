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
#include <optional>
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
/// exchanges it reads what peers say (Heartbeat.cpp).
class TcpBootstrap : public Bootstrap {
public:
  TcpBootstrap(const BootstrapEnvironment &env, std::vector<Socket> sockets)
      : env(env), peers(sockets.size()) {
    for (uint32_t i = 0; i < peers.size(); ++i)
      peers[i].socket = std::move(sockets[i]);
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
  struct Frame {
    FrameHeader header;
    std::string data;
    bool isInPlace = false; ///< the data are at Peer::target
  };
  /// The other end of a connection.
  struct Peer {
    Socket socket;      ///< not open: rank 0 itself
    std::mutex writing; ///< frames are not mixed
    // Guarded by `reading`: the frame that is being read, with so many bytes of header and data;
    // what it has sent for an exchange, which is one frame at a time; and where the data of such a
    // frame go while this rank is in the exchange, if they are as many as expected.
    Frame next;
    uint64_t received = 0;
    std::optional<Frame> part;
    char *target = nullptr;
    uint64_t targetBytes = 0;
    // Set by readers and read by all.
    std::atomic<Clock::rep> lastSeen{Clock::now().time_since_epoch().count()};
    std::atomic<uint64_t> heartbeat{0}; ///< the last one
    std::atomic<bool> left{false};      ///< says nothing more
    uint64_t sentHeartbeat = 0;         ///< the pulse's
    /// Guarded by `state`. At rank 0: it knows of the failure. At others: it says that all do.
    bool acknowledged = false;

    /// It is connected, and may still say something.
    bool isThere() const { return socket.open() && !left; }
  };

  void warnOfSecret(const NodeMap &map) const;
  std::string nameOf(uint32_t rank) const {
    return fmt::format("rank {} ({})", rank, peers[rank].socket.peerName());
  }

  milliseconds patience() const { return env.exchangeTimeout.value_or(env.timeout); }
  /// Between two heartbeats.
  milliseconds interval() const {
    return std::min(kPulse, std::max(patience() / 4, milliseconds(20)));
  }
  /// A rank that has said nothing for so long is named in messages.
  milliseconds reportedSilence() const { return 3 * interval(); }
  void noteAllSeen() {
    for (Peer &peer : peers)
      peer.lastSeen = Clock::now().time_since_epoch().count();
  }
  /// For how long a peer has said nothing.
  static Clock::duration silence(const Peer &peer) {
    return Clock::now().time_since_epoch() - Clock::duration(peer.lastSeen.load());
  }
  void wakePulse();
  /// Whether a run of this rank waits until other ranks have begun it.
  bool awaitsOthers() const {
    return Clock::now().time_since_epoch() - Clock::duration(asked.load()) < kPulse;
  }
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
  void sendHeartbeat(Peer &peer, uint64_t word);
  /// Reads what has come from all peers, and loses those that are silent for too long. Like all
  /// functions below that take frames, under the mutex `reading`.
  void readAll();
  void read(uint32_t i);
  /// The data of a frame that is being read go to Peer::target, if they are of the exchange.
  void placeData(Peer &peer);
  void take(uint32_t i, Frame &&frame);
  void loseIfSilent(uint32_t i);

  Status gather(size_t bytes, void *all);
  Status contribute(const void *mine, size_t bytes, void *all);
  /// Sends a frame; the peer must go on reading.
  Status give(uint32_t i, const FrameHeader &header, const void *data);
  /// Receives the frame of the exchange, `bytes` of data, from each peer: from peer i to `to` +
  /// i * `bytes`. Each may be silent for `limit`.
  Status receiveParts(milliseconds limit, uint64_t bytes, char *to);
  Status awaitParts(milliseconds limit);
  Status takePart(uint32_t i, uint64_t bytes, char *to);

  BootstrapEnvironment env; ///< launcherProcess: the pulse's
  /// Rank 0: one per rank. Others: only the connection to rank 0.
  std::vector<Peer> peers;
  std::mutex reading;    ///< of all peers; held by exchanges
  uint64_t sequence = 0; ///< guarded by `reading`
  std::atomic<Clock::rep> lastRead{Clock::now().time_since_epoch().count()}; ///< when, last
  std::atomic<uint64_t> begun{0};                                            ///< runs of this rank
  std::atomic<Clock::rep> asked{0}; ///< when begunByAll() last found that others are late
  std::atomic<uint64_t> awaited{0}; ///< a run waits until all ranks have begun so many; 0: none
  std::mutex state;                 ///< guards the fields below
  std::condition_variable nowAllAcknowledged;
  Status lost;
  Deadline lostAt;
  bool allAcknowledged = false;
  int wake = -1; ///< wakes the pulse
  std::atomic<bool> isEnding{false};
  std::thread pulse;
};

} // namespace tandem::bootstrap

#endif // TANDEM_BOOTSTRAP_TCPBOOTSTRAP_H
