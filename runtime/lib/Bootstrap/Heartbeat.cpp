//===- Heartbeat.cpp - which ranks are alive, and what they run -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TcpBootstrap.h"

#include <cerrno>
#include <cstring>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::bootstrap;

/// Outside of an exchange, a rank that sends no heartbeat for a shorter time than this is not given
/// up.
static constexpr milliseconds kLeastSilence{10000};
/// So many bytes of memory, at most, are for data that a peer has announced and not sent yet.
static constexpr uint64_t kMostAhead = 64 << 20;

Status TcpBootstrap::health() {
  // A process that was stopped may ask before its pulse has read what came meanwhile.
  if (Clock::now().time_since_epoch().count() - lastRead.load() >
      Clock::duration(kPulse).count() * 3 / 2) {
    std::unique_lock<std::mutex> lock(reading, std::try_to_lock);
    if (lock)
      readAll();
  }
  return failure();
}

void TcpBootstrap::giveUp(const Status &reason) {
  lose(reason);
  std::unique_lock<std::mutex> lock(state);
  while (!allAcknowledged) {
    Deadline until = lostAt + env.noticeTimeout;
    // A stopped rank 0 passes nothing on. The others then end when they miss its heartbeats,
    // which they have seen until about as late as this rank.
    Deadline last{Clock::duration(peers[0].lastSeen)};
    if (env.rank != 0 && peers[0].isThere() && last < lostAt + kNotice)
      until = std::max(until, last + std::max(patience(), kLeastSilence) + 2 * kPulse);
    if (Clock::now() >= until)
      return;
    nowAllAcknowledged.wait_until(lock, std::min(until, Clock::now() + kNotice / 2));
  }
}

void TcpBootstrap::noteBegun(uint64_t runs) {
  // Several contexts may use this: of the one with most runs.
  uint64_t known = begun;
  while (known < runs && !begun.compare_exchange_weak(known, runs)) {
  }
  if (known < runs && known < awaited) // others wait for it
    wakePulse();
}

uint64_t TcpBootstrap::begunByAll() {
  uint64_t least = kUnknown;
  for (const Peer &peer : peers)
    if (peer.isThere())
      least = std::min(least, Heartbeat::begun(peer.heartbeat));
  if (least < begun) {
    asked = Clock::now().time_since_epoch().count();
    wakePulse();
  }
  return std::min<uint64_t>(least, begun);
}

std::string TcpBootstrap::late(uint64_t runs) {
  std::string names;
  auto add = [&](uint32_t rank, const char *what) {
    names += fmt::format("{}rank {} {}", names.empty() ? "" : ", ", rank, what);
  };
  constexpr size_t kMost = 120; // bytes, of names
  for (uint32_t i = 0; i < peers.size() && names.size() < kMost; ++i) {
    const Peer &peer = peers[i];
    if (!peer.isThere())
      continue;
    uint64_t word = peer.heartbeat;
    if (silence(peer) > reportedSilence())
      add(i, fmt::format("has sent no heartbeat for {:.1f} s",
                         std::chrono::duration<double>(silence(peer)).count())
                 .c_str());
    else if (word & Heartbeat::kSilent)
      add(Heartbeat::rank(word), "sends no heartbeat");
    else if (Heartbeat::begun(word) < runs)
      add(env.rank == 0 ? i : Heartbeat::rank(word), "has not begun it");
  }
  return names;
}

void TcpBootstrap::lose(const Status &reason, bool wasInformed) {
  {
    std::lock_guard<std::mutex> lock(state);
    if (!lost.ok())
      return;
    lost = reason;
    lostAt = Clock::now();
  }
  Deadline deadline = Clock::now() + kNotice;
  for (uint32_t i = 0; i < peers.size(); ++i)
    if (peers[i].isThere())
      notify(i, wasInformed ? FrameKind::AbortAck : FrameKind::Abort, reason.message(), deadline);
  checkAcknowledged();
}

void TcpBootstrap::notify(uint32_t i, FrameKind kind, const std::string &text, Deadline deadline) {
  std::unique_lock<std::mutex> lock(peers[i].writing, std::defer_lock);
  while (!lock.try_lock()) {
    if (Clock::now() >= deadline)
      return;
    std::this_thread::sleep_for(milliseconds(1));
  }
  sendText(peers[i].socket, kind, kind == FrameKind::AbortAck ? "" : text, deadline);
}

void TcpBootstrap::checkAcknowledged() {
  {
    std::lock_guard<std::mutex> lock(state);
    if (lost.ok() || allAcknowledged)
      return;
    for (const Peer &peer : peers)
      if (peer.isThere() && !peer.acknowledged)
        return;
    allAcknowledged = true;
    nowAllAcknowledged.notify_all();
  }
  Deadline deadline = Clock::now() + kNotice;
  for (uint32_t i = 0; i < peers.size() && env.rank == 0; ++i)
    if (peers[i].isThere())
      notify(i, FrameKind::AbortAck, "", deadline);
}

void TcpBootstrap::noteAcknowledged(uint32_t i) {
  {
    std::lock_guard<std::mutex> lock(state);
    peers[i].acknowledged = true;
  }
  checkAcknowledged();
}

void TcpBootstrap::noteLeft(uint32_t i) {
  peers[i].left = true;
  checkAcknowledged();
}

void TcpBootstrap::wakePulse() {
  uint64_t one = 1;
  if (::write(wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
    std::terminate(); // of a descriptor of our own
}

void TcpBootstrap::run() {
  Deadline next = Clock::now() + interval();
  for (;;) {
    // Wake up when a peer sends something or closes its connection.
    std::vector<pollfd> entries{{wake, POLLIN, 0}};
    for (const Peer &peer : peers)
      entries.push_back({peer.isThere() ? peer.socket.fd() : -1, POLLIN | POLLRDHUP, 0});
    ::poll(entries.data(), entries.size(), millisecondsUntil(next));
    uint64_t unused;
    if (entries[0].revents && ::read(wake, &unused, sizeof(unused)) > 0 && isEnding)
      return;
    std::unique_lock<std::mutex> lock(reading, std::try_to_lock);
    if (lock) {
      readAll();
      lock.unlock();
    } else { // an exchange reads
      std::this_thread::sleep_for(milliseconds(20));
    }
    bool isDue = Clock::now() >= next;
    if (isDue)
      checkLauncher();
    sendHeartbeats(isDue);
    if (isDue)
      next = Clock::now() + interval();
  }
}

void TcpBootstrap::checkLauncher() {
  if (env.launcherProcess < 0 || ::getppid() == env.launcherProcess)
    return;
  lose(Status(Code::Aborted,
              fmt::format("rank {}: its parent, process {} ({} or a wrapper), has ended", env.rank,
                          env.launcherProcess, toString(env.launcher))));
  env.launcherProcess = -1;
}

void TcpBootstrap::sendHeartbeats(bool isDue) {
  bool waitsHere = awaitsOthers();
  uint64_t most = begun;
  bool isAwaited = waitsHere;
  // Rank 0 tells each peer the least of the others.
  std::pair<uint64_t, uint32_t> least{begun, env.rank}, second{~uint64_t(0), env.rank};
  std::pair<Clock::duration, uint32_t> quietest{reportedSilence(), 0};
  for (uint32_t i = 0; i < peers.size(); ++i) {
    const Peer &peer = peers[i];
    if (!peer.isThere())
      continue;
    uint64_t word = peer.heartbeat;
    isAwaited |= (word & Heartbeat::kWaits) != 0;
    most = std::max(most, Heartbeat::begun(word));
    std::pair<uint64_t, uint32_t> theirs{Heartbeat::begun(word), i};
    second = std::min(second, std::max(least, theirs));
    least = std::min(least, theirs);
    quietest = std::max(quietest, {silence(peer), i});
  }
  awaited = isAwaited ? most : 0;
  if (!isDue && !isAwaited)
    return;
  for (uint32_t i = 0; i < peers.size(); ++i) {
    if (!peers[i].isThere())
      continue;
    uint64_t word = Heartbeat::make(begun, env.rank, waitsHere ? Heartbeat::kWaits : 0);
    if (env.rank == 0) {
      bool isSilent = quietest.second != 0 && quietest.second != i;
      auto [runs, rank] = least.second == i ? second : least;
      word = Heartbeat::make(runs, isSilent ? quietest.second : rank,
                             (isAwaited ? Heartbeat::kWaits : 0) |
                                 (isSilent ? Heartbeat::kSilent : 0));
    }
    if (isDue || word != peers[i].sentHeartbeat)
      sendHeartbeat(peers[i], word);
  }
}

void TcpBootstrap::sendHeartbeat(Peer &peer, uint64_t word) {
  // Being written to is a sign of life, too.
  std::unique_lock<std::mutex> lock(peer.writing, std::try_to_lock);
  FrameHeader alive;
  alive.kind = FrameKind::Heartbeat;
  alive.sequence = word;
  int queued = 0;
  // A peer that reads nothing for hours must not find only these, and a frame is never cut.
  if (lock && (::ioctl(peer.socket.fd(), SIOCOUTQ, &queued) || queued < 4096)) {
    peer.socket.send(&alive, sizeof(alive), Clock::now() + milliseconds(200)).ignore();
    peer.sentHeartbeat = word;
  }
}

void TcpBootstrap::readAll() {
  for (uint32_t i = 0; i < peers.size(); ++i) {
    read(i);
    loseIfSilent(i);
  }
  lastRead = Clock::now().time_since_epoch().count();
}

void TcpBootstrap::loseIfSilent(uint32_t i) {
  // A run that waits for it ends after the timeout.
  milliseconds most = patience();
  if (Heartbeat::begun(peers[i].heartbeat) >= awaited)
    most = std::max(most, kLeastSilence);
  if (peers[i].isThere() && silence(peers[i]) > most)
    lose(Status(Code::Timeout, fmt::format("lost rank {}: it has sent no heartbeat for {} s", i,
                                           most.count() / 1000.0)));
}

void TcpBootstrap::read(uint32_t i) {
  Peer &peer = peers[i];
  Frame &frame = peer.next;
  while (peer.isThere()) {
    bool isHeader = peer.received < sizeof(FrameHeader);
    uint64_t done = isHeader ? peer.received : peer.received - sizeof(FrameHeader);
    uint64_t end = isHeader ? sizeof(FrameHeader) : frame.header.bytes;
    char *to = isHeader ? reinterpret_cast<char *>(&frame.header) : peer.target;
    if (!isHeader && !frame.isInPlace) {
      if (frame.data.size() <= done)
        frame.data.resize(std::min(end, done + kMostAhead));
      end = frame.data.size();
      to = frame.data.data();
    }
    auto n = peer.socket.receiveSome(to + done, end - done);
    if (!n) {
      peer.left = true;
      lose(Status(Code::Aborted, fmt::format("lost rank {}: its process has ended", i)));
      return checkAcknowledged();
    }
    if (*n == 0)
      return;
    peer.lastSeen = Clock::now().time_since_epoch().count();
    peer.received += *n;
    if (peer.received < sizeof(FrameHeader))
      continue;
    if (frame.header.magic != kFrameMagic) { // after a failure: a frame that was cut
      lose(Status(Code::Io, fmt::format("rank {}: the peer is not a rank of this job", i)));
      return noteLeft(i);
    }
    if (isHeader)
      placeData(peer);
    if (peer.received - sizeof(FrameHeader) == frame.header.bytes) {
      peer.received = 0;
      bool hadPart = peer.part.has_value();
      take(i, std::exchange(frame, Frame()));
      if (peer.part &&
          !hadPart) // it may end an exchange, of which a failure that follows is no part
        return;
    }
  }
}

void TcpBootstrap::placeData(Peer &peer) {
  Frame &frame = peer.next;
  bool isPart = frame.header.kind == FrameKind::Part || frame.header.kind == FrameKind::Whole;
  frame.isInPlace = peer.received >= sizeof(FrameHeader) && isPart && !peer.part && peer.target &&
                    frame.header.bytes == peer.targetBytes;
  if (frame.isInPlace && !frame.data.empty())
    std::copy_n(frame.data.data(), peer.received - sizeof(FrameHeader), peer.target);
}

void TcpBootstrap::take(uint32_t i, Frame &&frame) {
  bool isLost = !failure().ok();
  switch (frame.header.kind) {
  case FrameKind::Heartbeat:
    if (Heartbeat::begun(frame.header.sequence) >= Heartbeat::begun(peers[i].heartbeat))
      peers[i].heartbeat = frame.header.sequence; // what has begun stays so
    return;
  case FrameKind::Bye:
    return noteLeft(i);
  case FrameKind::Abort:
    lose(Status(Code::Aborted, frame.data.substr(0, kMaxText)), env.rank != 0);
    if (env.rank == 0)
      noteAcknowledged(i);
    else if (isLost)
      notify(0, FrameKind::AbortAck, "", Clock::now() + kNotice);
    return;
  case FrameKind::AbortAck:
    lose(Status(Code::Aborted, fmt::format("rank {} has given up", i)), env.rank != 0);
    return noteAcknowledged(i);
  case FrameKind::Part:
  case FrameKind::Whole:
    if (peers[i].part)
      break;
    peers[i].part = std::move(frame);
    return;
  case FrameKind::Accepted:
  case FrameKind::Welcome:
  case FrameKind::Refused:
    break;
  }
  lose(Status(Code::Internal, fmt::format("rank {}: {}", i, kOutOfStep)));
}
