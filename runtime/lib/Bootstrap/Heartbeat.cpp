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

Status TcpBootstrap::health() {
  // A process that was stopped may ask before its pulse has read what came meanwhile.
  if (Clock::now().time_since_epoch().count() - lastRead.load() >
      Clock::duration(kPulse).count() * 3 / 2) {
    std::unique_lock<std::mutex> lock(reading, std::try_to_lock);
    if (lock)
      readAll({});
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
    Deadline last{Clock::duration(lastSeen[0])};
    if (env.rank != 0 && isThere(0) && last < lostAt + kNotice)
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
  for (uint32_t i = 0; i < peers.size(); ++i)
    if (isThere(i))
      least = std::min(least, Heartbeat::begun(heartbeats[i]));
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
    if (!isThere(i))
      continue;
    uint64_t word = heartbeats[i];
    if (silence(i) > reportedSilence())
      add(i, fmt::format("has sent no heartbeat for {:.1f} s",
                         std::chrono::duration<double>(silence(i)).count())
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
    if (isThere(i))
      notify(i, wasInformed ? FrameKind::AbortAck : FrameKind::Abort, reason.message(), deadline);
  checkAcknowledged();
}

void TcpBootstrap::notify(uint32_t i, FrameKind kind, const std::string &text, Deadline deadline) {
  std::unique_lock<std::mutex> lock(writing[i], std::defer_lock);
  while (!lock.try_lock()) {
    if (Clock::now() >= deadline)
      return;
    std::this_thread::sleep_for(milliseconds(1));
  }
  sendText(peers[i], kind, kind == FrameKind::AbortAck ? "" : text, deadline);
}

void TcpBootstrap::checkAcknowledged() {
  {
    std::lock_guard<std::mutex> lock(state);
    if (lost.ok() || allAcknowledged)
      return;
    for (uint32_t i = 0; i < peers.size(); ++i)
      if (isThere(i) && !acknowledged[i])
        return;
    allAcknowledged = true;
    nowAllAcknowledged.notify_all();
  }
  Deadline deadline = Clock::now() + kNotice;
  for (uint32_t i = 0; i < peers.size() && env.rank == 0; ++i)
    if (isThere(i))
      notify(i, FrameKind::AbortAck, "", deadline);
}

void TcpBootstrap::noteAcknowledged(uint32_t i) {
  {
    std::lock_guard<std::mutex> lock(state);
    acknowledged[i] = 1;
  }
  checkAcknowledged();
}

void TcpBootstrap::noteLeft(uint32_t i) {
  left[i] = 1;
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
      readAll(entries);
      lock.unlock();
    } else { // an exchange notices by itself
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
    if (!isThere(i))
      continue;
    uint64_t word = heartbeats[i];
    isAwaited |= (word & Heartbeat::kWaits) != 0;
    most = std::max(most, Heartbeat::begun(word));
    std::pair<uint64_t, uint32_t> theirs{Heartbeat::begun(word), i};
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
    uint64_t word = Heartbeat::make(begun, env.rank, waitsHere ? Heartbeat::kWaits : 0);
    if (env.rank == 0) {
      bool isSilent = quietest.second != 0 && quietest.second != i;
      auto [runs, rank] = least.second == i ? second : least;
      word = Heartbeat::make(runs, isSilent ? quietest.second : rank,
                             (isAwaited ? Heartbeat::kWaits : 0) |
                                 (isSilent ? Heartbeat::kSilent : 0));
    }
    if (isDue || word != sentHeartbeats[i])
      sendHeartbeat(i, word);
  }
}

void TcpBootstrap::readAll(const std::vector<pollfd> &entries) {
  for (uint32_t i = 0; i < peers.size(); ++i) {
    bool ended = !entries.empty() && (entries[1 + i].revents & ~POLLIN);
    if (isThere(i) && failure().ok())
      readBetweenExchanges(i, ended);
    if (isThere(i) && !failure().ok())
      drain(i);
  }
  lastRead = Clock::now().time_since_epoch().count();
}

void TcpBootstrap::sendHeartbeat(uint32_t i, uint64_t word) {
  // Being written to shows life, too.
  std::unique_lock<std::mutex> lock(writing[i], std::try_to_lock);
  FrameHeader alive;
  alive.kind = FrameKind::Heartbeat;
  alive.sequence = word;
  int queued = 0;
  // A peer that reads nothing for hours must not find only these, and a frame is never cut.
  if (lock && (::ioctl(peers[i].fd(), SIOCOUTQ, &queued) || queued < 4096)) {
    peers[i].send(&alive, sizeof(alive), Clock::now() + milliseconds(200)).ignore();
    sentHeartbeats[i] = word;
  }
}

void TcpBootstrap::loseEnded(uint32_t i) {
  left[i] = 1; // it says nothing more
  lose(Status(Code::Aborted, fmt::format("lost rank {}: its process has ended", i)));
}

void TcpBootstrap::readBetweenExchanges(uint32_t i, bool ended) {
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
      if (Heartbeat::begun(heartbeats[i]) >= awaited)
        most = std::max(most, kLeastSilence);
      if (silence(i) > most)
        lose(Status(Code::Timeout, fmt::format("lost rank {}: it has sent no heartbeat for {} s", i,
                                               most.count() / 1000.0)));
      return;
    }
    noteSeen(i);
    if (header.magic == kFrameMagic && header.kind == FrameKind::Bye)
      return noteLeft(i);
    if (header.magic == kFrameMagic &&
        (header.kind == FrameKind::Abort || header.kind == FrameKind::AbortAck)) {
      Status reason = receiveHeader(peers[i], header.kind, header, Clock::now() + kNotice);
      if (reason.ok())
        reason = Status(Code::Aborted, fmt::format("rank {} has given up", i));
      return noteAbort(i, reason);
    }
    if (header.magic != kFrameMagic || header.kind != FrameKind::Heartbeat) {
      waits[i] = 1;
      // It does not await the end of the next exchange, of which this is, if it has ended, or
      // given up since.
      if (ended)
        loseEnded(i);
      else
        peekBehind(i);
      return;
    }
    peers[i].receive(&header, sizeof(header), Clock::now()).ignore();
    noteHeartbeat(i, header.sequence);
  }
}

void TcpBootstrap::noteAbort(uint32_t i, const Status &reason) {
  lose(reason, env.rank != 0);
  if (env.rank == 0)
    noteAcknowledged(i);
}

void TcpBootstrap::peekBehind(uint32_t i) {
  std::vector<char> seen(kMaxText);
  ssize_t n = ::recv(peers[i].fd(), seen.data(), seen.size(), MSG_PEEK | MSG_DONTWAIT);
  auto most = static_cast<uint64_t>(std::max<ssize_t>(n, 0));
  FrameHeader header;
  for (uint64_t at = 0; at + sizeof(header) <= most; at += sizeof(header) + header.bytes) {
    std::memcpy(&header, seen.data() + at, sizeof(header));
    if (header.magic != kFrameMagic || header.bytes > most - at - sizeof(header))
      return;
    if (header.kind == FrameKind::Heartbeat)
      noteHeartbeat(i, header.sequence);
    if (header.kind == FrameKind::Abort)
      return lose(
          Status(Code::Aborted, std::string(seen.data() + at + sizeof(header), header.bytes)));
  }
}

void TcpBootstrap::drain(uint32_t i) {
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
      noteSeen(i);
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
      notify(0, FrameKind::AbortAck, "", Clock::now() + kNotice);
    if (header.kind == FrameKind::AbortAck || (header.kind == FrameKind::Abort && env.rank == 0))
      noteAcknowledged(i);
  }
}
