//===- Rendezvous.cpp - ranks find each other -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Wire.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <set>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace tandem;
using namespace tandem::bootstrap;
using std::chrono::milliseconds;

namespace {

/// A connection that has not sent its Hello yet.
struct Stranger {
  Socket socket;
  Challenge challenge;
  Hello hello;
  size_t received = 0;
  Deadline deadline;
};

/// A stranger is dropped after this time without a Hello, or when there are more than
/// kMaxStrangers and it is the oldest: connections that say nothing keep no rank out.
constexpr milliseconds kStrangerPatience{5000};
constexpr size_t kMaxStrangers = 256;
/// How long rank 0 of a job that cannot begin waits for ranks, to tell them why.
constexpr milliseconds kFarewell{3000};

constexpr const char *kOtherSecret = "it belongs to another job, or has another TANDEM_SECRET";

/// What the launcher has said: that a rank has ended. Empty: nothing.
std::string launcherNotice(const BootstrapEnvironment &env) {
  char text[256];
  ssize_t n = env.launcherFd < 0 ? 0 : ::pread(env.launcherFd, text, sizeof(text), 0);
  return n > 0 ? std::string(text, static_cast<size_t>(n)) : std::string();
}

/// Rank 0's side of the rendezvous.
class Reception {
public:
  Reception(const BootstrapEnvironment &env, int listenFd)
      : env(env), listenFd(listenFd), deadline(Clock::now() + env.timeout), peers(env.worldSize) {}

  Expected<std::vector<Socket>> run() {
    // A connection may be gone between poll and accept.
    ::fcntl(listenFd, F_SETFL, ::fcntl(listenFd, F_GETFL) | O_NONBLOCK);
    Status result = connect();
    if (result.ok())
      result = welcome();
    if (result.ok())
      return std::move(peers);
    for (Socket &peer : peers)
      if (peer.open())
        sendAbort(peer, result.message());
    if (result.code() == Code::InvalidArgument)
      tellLater(result);
    return result;
  }

private:
  Status connect() {
    while (!complete()) {
      if (Clock::now() >= deadline)
        return Status(Code::Timeout, fmt::format("rank 0: waited {} s for {}{}",
                                                 env.timeout.count() / 1000.0, missing(), refused));
      if (std::string notice = launcherNotice(env); !notice.empty())
        return Status(Code::Aborted, "rank 0: " + notice);
      std::vector<pollfd> entries{{listenFd, POLLIN, 0}};
      for (const Stranger &stranger : strangers)
        entries.push_back({stranger.socket.fd(), POLLIN, 0});
      // A rank that has arrived may end while others are still missing, and be started again.
      for (const Socket &peer : peers)
        entries.push_back({peer.open() ? peer.fd() : -1, POLLIN, 0});
      if (::poll(entries.data(), entries.size(), millisecondsUntil(deadline, 200)) < 0)
        continue;
      for (uint32_t rank = 1; rank < env.worldSize; ++rank)
        if (entries[1 + strangers.size() + rank].revents)
          dropIfEnded(rank);
      TANDEM_RETURN_IF_ERROR(hear());
      if (entries[0].revents & POLLIN)
        acceptOne();
    }
    return Status::success();
  }

  /// Ranks that have yet to come learn why the job ends, not that nothing listens.
  void tellLater(const Status &reason) {
    ending = reason;
    deadline = std::min(deadline, Clock::now() + kFarewell);
    for (uint32_t rank = 1; rank < env.worldSize; ++rank)
      if (peers[rank].open())
        told.insert(rank);
    while (told.size() + 1 < env.worldSize && Clock::now() < deadline) {
      std::vector<pollfd> entries{{listenFd, POLLIN, 0}};
      for (const Stranger &stranger : strangers)
        entries.push_back({stranger.socket.fd(), POLLIN, 0});
      if (::poll(entries.data(), entries.size(), millisecondsUntil(deadline, 200)) < 0)
        continue;
      hear().ignore();
      if (entries[0].revents & POLLIN)
        acceptOne();
    }
  }

  /// Whether all ranks are here, and none has ended meanwhile.
  bool complete() {
    for (uint32_t rank = 1; rank < env.worldSize && arrived + 1 == env.worldSize; ++rank)
      dropIfEnded(rank);
    return arrived + 1 == env.worldSize;
  }

  void dropIfEnded(uint32_t rank) {
    if (!hasEnded(peers[rank]))
      return;
    noteEnd(rank, peers[rank]);
    peers[rank].close();
    --arrived;
  }

  void noteEnd(uint32_t rank, const Socket &peer) {
    refused =
        fmt::format("; rank {} ({}) ended before all ranks had connected", rank, peer.peerName());
  }

  /// Of a client that has sent its Hello: until Welcome it has nothing more to say.
  static bool hasEnded(const Socket &peer) {
    char byte;
    auto n = peer.receiveSome(&byte, 1);
    return !n || *n > 0;
  }

  void acceptOne() {
    int fd = ::accept4(listenFd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    bool full = fd < 0 && (errno == EMFILE || errno == ENFILE);
    if (!strangers.empty() && (full || strangers.size() >= kMaxStrangers))
      strangers.erase(strangers.begin());
    if (full)
      std::this_thread::sleep_for(milliseconds(1)); // the connection still waits
    if (fd < 0)
      return;
    Stranger stranger;
    stranger.socket = Socket(fd);
    stranger.challenge.nonce = makeNonce();
    stranger.deadline = Clock::now() + kStrangerPatience;
    // It fits into an empty socket buffer: this does not wait.
    if (stranger.socket.send(&stranger.challenge, sizeof(Challenge), Clock::now()).ok())
      strangers.push_back(std::move(stranger));
  }

  Status hear() {
    for (size_t i = 0; i < strangers.size();) {
      Stranger &stranger = strangers[i];
      auto n =
          stranger.socket.receiveSome(reinterpret_cast<char *>(&stranger.hello) + stranger.received,
                                      sizeof(Hello) - stranger.received);
      if (n)
        stranger.received += *n;
      bool complete = stranger.received == sizeof(Hello);
      bool drop = !n || (!complete && Clock::now() >= stranger.deadline);
      if (complete) {
        const Hello &hello = stranger.hello;
        if (hello.magic != kHelloMagic) {
          refused = fmt::format("; {} is no rank of this version", stranger.socket.peerName());
        } else if (!equal(hello.proof, proofOfClient(env, stranger.challenge.nonce, hello))) {
          refused = fmt::format("; rank {} at {} was refused: {}", hello.rank,
                                stranger.socket.peerName(), kOtherSecret);
          // A new connection takes it at once.
          sendText(stranger.socket, FrameKind::Refused, kOtherSecret, Clock::now());
        } else {
          TANDEM_RETURN_IF_ERROR(admit(stranger));
        }
        drop = true;
      }
      if (drop)
        strangers.erase(strangers.begin() + static_cast<long>(i));
      else
        ++i;
    }
    return Status::success();
  }

  Status admit(Stranger &stranger) {
    const Hello &hello = stranger.hello;
    if (hasEnded(stranger.socket)) {
      noteEnd(hello.rank, stranger.socket);
      return Status::success();
    }
    std::string problem;
    if (!ending.ok())
      problem = ending.message();
    else if (hello.version != kProtocolVersion)
      problem = fmt::format("speaks version {} of the protocol, rank 0 version {}: all ranks need "
                            "the same version of Tandem",
                            hello.version, kProtocolVersion);
    else if (hello.worldSize != env.worldSize)
      problem = fmt::format("expects {} ranks, rank 0 expects {}", hello.worldSize, env.worldSize);
    else if (hello.rank == 0 || hello.rank >= env.worldSize)
      problem = fmt::format("is not a rank from 1 to {}", env.worldSize - 1);
    else if (peers[hello.rank].open() && !hasEnded(peers[hello.rank]))
      problem = fmt::format("is already connected ({})", peers[hello.rank].peerName());
    // A client believes an Abort only after the proof.
    FrameHeader accepted;
    Proof proof = proofOfRoot(env, stranger.challenge.nonce, hello);
    accepted.bytes = sizeof(proof);
    std::string answer(reinterpret_cast<const char *>(&accepted), sizeof(accepted));
    answer.append(reinterpret_cast<const char *>(proof.data()), proof.size());
    bool sent = stranger.socket.send(answer.data(), answer.size(), deadline).ok();
    if (!problem.empty() && hello.rank > 0 && hello.rank < env.worldSize)
      told.insert(hello.rank);
    if (!ending.ok()) {
      sendAbort(stranger.socket, problem);
      return Status::success();
    }
    if (!problem.empty()) {
      Status error(Code::InvalidArgument,
                   fmt::format("rank {} ({}) {}", hello.rank, stranger.socket.peerName(), problem));
      sendAbort(stranger.socket, error.message());
      return error;
    }
    if (!sent) {
      noteEnd(hello.rank, stranger.socket);
      return Status::success();
    }
    if (!peers[hello.rank].open()) // else it takes the place of its own connection that has ended
      ++arrived;
    peers[hello.rank] = std::move(stranger.socket);
    return Status::success();
  }

  Status welcome() {
    FrameHeader header;
    header.kind = FrameKind::Welcome;
    for (uint32_t rank = 1; rank < env.worldSize; ++rank)
      TANDEM_RETURN_IF_ERROR(peers[rank]
                                 .send(&header, sizeof(header), deadline)
                                 .withPrefix(fmt::format("rank 0, to rank {}: ", rank)));
    return Status::success();
  }

  std::string missing() const {
    std::string text;
    unsigned count = 0;
    for (uint32_t rank = 1; rank < env.worldSize; ++rank)
      if (!peers[rank].open() && ++count <= 8)
        text += (text.empty() ? "" : ", ") + std::to_string(rank);
    return fmt::format("rank{} {}{} to connect", count > 1 ? "s" : "", text,
                       count > 8 ? fmt::format(" and {} more", count - 8) : "");
  }

  const BootstrapEnvironment &env;
  int listenFd;
  Deadline deadline;
  std::vector<Socket> peers;
  std::vector<Stranger> strangers;
  uint32_t arrived = 0;
  std::string refused;     ///< the last connection that could have been a rank
  Status ending;           ///< why the job ends: no rank is admitted any more
  std::set<uint32_t> told; ///< who knows
};

/// A text of a peer that has proved nothing yet.
std::string printable(std::string text) {
  text.resize(std::min<size_t>(text.size(), 256));
  for (char &c : text)
    if (c < ' ' || c > '~')
      c = '?';
  return text;
}

/// One attempt at one address, until rank 0 has accepted this rank. A listener that does not prove
/// that it is rank 0 ends this attempt only.
Expected<Socket> introduce(const BootstrapEnvironment &env, const std::string &host,
                           Deadline deadline) {
  Deadline patience = std::min(deadline, Clock::now() + kStrangerPatience);
  auto socket = Socket::connect(host, env.port, patience);
  if (!socket)
    return socket.status();
  Challenge challenge;
  TANDEM_RETURN_IF_ERROR(socket->receive(&challenge, sizeof(challenge), patience));
  if (challenge.magic != kHelloMagic)
    return Status(Code::Io, "no rank of this version listens there");
  Hello hello;
  hello.rank = env.rank;
  hello.worldSize = env.worldSize;
  hello.nonce = makeNonce();
  hello.proof = proofOfClient(env, challenge.nonce, hello);
  TANDEM_RETURN_IF_ERROR(socket->send(&hello, sizeof(hello), patience));
  FrameHeader header;
  // It is a rank 0, which answers when it comes to it: a second Hello would not be faster.
  if (Status answer = receiveHeader(*socket, FrameKind::Accepted, header, deadline); !answer.ok())
    return Status(answer.code(), printable(answer.message()));
  Proof proof;
  if (header.bytes != sizeof(proof))
    return Status(Code::Io, "no rank of this version listens there");
  TANDEM_RETURN_IF_ERROR(socket->receive(proof.data(), proof.size(), deadline));
  if (!equal(proof, proofOfRoot(env, challenge.nonce, hello)))
    return Status(Code::InvalidArgument, kOtherSecret);
  return socket;
}

} // namespace

Expected<std::vector<Socket>> bootstrap::acceptPeers(const BootstrapEnvironment &env,
                                                     int listenFd) {
  return Reception(env, listenFd).run();
}

Expected<Socket> bootstrap::connectToRoot(const BootstrapEnvironment &env) {
  Deadline deadline = Clock::now() + env.timeout;
  milliseconds pause{10};
  Status last;
  Status answer; ///< the last one of a rank 0 that refused: it may end before this rank
  for (;;) {
    for (const std::string &host : env.addresses) {
      auto socket = introduce(env, host, deadline);
      std::string where = fmt::format("rank {}, to rank 0 at {}:{}: ", env.rank, host, env.port);
      if (socket) {
        FrameHeader header;
        TANDEM_RETURN_IF_ERROR(
            receiveHeader(*socket, FrameKind::Welcome, header, deadline + kRootFirst)
                .withPrefix(fmt::format("rank {}, waiting for all ranks: ", env.rank)));
        return socket;
      }
      last = socket.status().withPrefix(where);
      bool isRefusal = last.code() == Code::InvalidArgument;
      // A refusal says why. Later the connection is closed, too, when that rank 0 ends.
      if (isRefusal || (last.code() == Code::Aborted && answer.code() != Code::InvalidArgument))
        answer = last;
    }
    if (std::string notice = launcherNotice(env); !notice.empty())
      return Status(Code::Aborted, fmt::format("rank {}: {}", env.rank, notice));
    if (Clock::now() + pause >= deadline)
      return Status(Code::Timeout,
                    fmt::format("{}; tried for {} s", (answer.ok() ? last : answer).message(),
                                env.timeout.count() / 1000.0));
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, milliseconds(200));
  }
}

Status bootstrap::receiveHeader(const Socket &socket, FrameKind expected, FrameHeader &header,
                                Deadline deadline) {
  TANDEM_RETURN_IF_ERROR(socket.receive(&header, sizeof(header), deadline));
  if (header.magic != kFrameMagic)
    return Status(Code::Io, "the peer is not a rank of this job");
  if (header.kind == FrameKind::Abort || header.kind == FrameKind::Refused) {
    std::string text(std::min(header.bytes, kMaxText), '\0');
    TANDEM_RETURN_IF_ERROR(socket.receive(text.data(), text.size(), deadline));
    return Status(header.kind == FrameKind::Abort ? Code::Aborted : Code::InvalidArgument, text);
  }
  if (header.kind == FrameKind::Bye)
    return Status(Code::Aborted, "it has left the job");
  if (header.kind != expected)
    return Status(Code::Internal, kOutOfStep);
  return Status::success();
}

void bootstrap::sendText(const Socket &socket, FrameKind kind, const std::string &text,
                         Deadline deadline) {
  FrameHeader header;
  header.kind = kind;
  header.bytes = std::min<uint64_t>(text.size(), kMaxText);
  std::string frame(reinterpret_cast<const char *>(&header), sizeof(header));
  frame.append(text, 0, header.bytes);
  socket.send(frame.data(), frame.size(), deadline).ignore();
}

void bootstrap::sendAbort(const Socket &socket, const std::string &text) {
  sendText(socket, FrameKind::Abort, text, Clock::now() + milliseconds(200));
}

static Proof proofOf(const BootstrapEnvironment &env, const char *who, const Nonce &challenge,
                     const Hello &hello) {
  std::string message = fmt::format("tandem bootstrap 3 {} {} {} {} {} ", who, hello.rank,
                                    hello.worldSize, hello.version, hello.reserved);
  for (const Nonce &nonce : {challenge, hello.nonce})
    message.append(reinterpret_cast<const char *>(nonce.data()), nonce.size());
  return hmac(env.secret, message);
}

Proof bootstrap::proofOfClient(const BootstrapEnvironment &env, const Nonce &challenge,
                               const Hello &hello) {
  return proofOf(env, "client", challenge, hello);
}

Proof bootstrap::proofOfRoot(const BootstrapEnvironment &env, const Nonce &challenge,
                             const Hello &hello) {
  return proofOf(env, "root", challenge, hello);
}
