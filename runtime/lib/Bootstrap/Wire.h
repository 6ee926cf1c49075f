//===- Wire.h - wire format of the TCP bootstrap ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rank 0 sends a Challenge to each connection; a client answers with a Hello, whose proof shows
// that it has the job's secret. Rank 0 answers with a frame Accepted, which holds its own proof, or
// with Refused and a text; and with Welcome once all ranks have arrived. Each all-gather is a frame
// Part from every client, then Whole from rank 0. Abort carries the reason as text and ends the
// bootstrap; a client believes it only after Accepted. A rank answers an Abort with AbortAck;
// rank 0 sends AbortAck to all once every rank that it can reach knows of the failure. Between
// these, both sides send Heartbeat to show that they live and how many runs ranks have begun, and
// Bye before they close the connection without a failure.
//
// The layouts of Challenge, Hello, Accepted and Abort are the same in all versions from 3 on: ranks
// of different versions recognise each other, prove themselves, and end with a clear error.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BOOTSTRAP_WIRE_H
#define TANDEM_BOOTSTRAP_WIRE_H

#include "Proof.h"
#include "Socket.h"
#include "tandem/Runtime/Rendezvous.h"

#include <vector>

namespace tandem::bootstrap {

inline constexpr uint64_t kHelloMagic = 0x3376'6472'6d64'6e74ull; // "tndmrdv3"
inline constexpr uint32_t kFrameMagic = 0x6d64'6e74u;             // "tndm"

/// All integers are little-endian.
struct Challenge {
  uint64_t magic = kHelloMagic;
  Nonce nonce{};
};

struct Hello {
  uint64_t magic = kHelloMagic;
  uint32_t rank = 0;
  uint32_t worldSize = 0;
  uint32_t version = kProtocolVersion;
  uint32_t reserved = 0;
  Nonce nonce{};
  Proof proof{};
};

/// The proofs of a client and of rank 0 in one handshake.
Proof proofOfClient(const BootstrapEnvironment &environment, const Nonce &challenge,
                    const Hello &hello);
Proof proofOfRoot(const BootstrapEnvironment &environment, const Nonce &challenge,
                  const Hello &hello);

enum class FrameKind : uint32_t {
  Accepted,
  Welcome,
  Part,
  Whole,
  Abort,
  Refused,
  Heartbeat,
  Bye,
  AbortAck
};

struct FrameHeader {
  uint32_t magic = kFrameMagic;
  FrameKind kind = FrameKind::Accepted;
  uint64_t sequence = 0;
  uint64_t bytes = 0; ///< bytes that follow the header
};

/// Longest accepted text of an Abort frame.
inline constexpr uint64_t kMaxText = 64 * 1024;

/// Other ranks wait this much longer than rank 0, which can report the missing ranks.
inline constexpr std::chrono::milliseconds kRootFirst{1000};

/// Receives and checks a header; an Abort frame becomes its error, a Refused frame one of code
/// InvalidArgument.
Status receiveHeader(const Socket &socket, FrameKind expected, FrameHeader &header,
                     Deadline deadline);
inline constexpr const char *kOutOfStep = "ranks disagree on what is exchanged: bootstrap calls "
                                          "must come in the same order on every rank";
/// Tries to send a frame with a text, at least once.
void sendText(const Socket &socket, FrameKind kind, const std::string &text, Deadline deadline);
/// The same, briefly, of an Abort frame.
void sendAbort(const Socket &socket, const std::string &text);

/// Rank 0's listening socket, on BootstrapEnvironment::listenAddress.
Expected<ListenSocket> listenAsRoot(const BootstrapEnvironment &environment);
/// Rank 0: peers[r] is the connection to rank r; peers[0] is not open.
Expected<std::vector<Socket>> acceptPeers(const BootstrapEnvironment &environment, int listenFd);
/// Other ranks: the connection to rank 0.
Expected<Socket> connectToRoot(const BootstrapEnvironment &environment);

} // namespace tandem::bootstrap

#endif // TANDEM_BOOTSTRAP_WIRE_H
