//===- Wire.h - what ranks say to each other at start -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A client sends a Hello; rank 0 answers with a frame Accepted, and with Welcome once all ranks are
// there. Then, per all-gather: Part from each client, Whole from rank 0. Abort, from rank 0,
// carries the reason as text and ends the bootstrap.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LAUNCH_WIRE_H
#define TANDEM_LAUNCH_WIRE_H

#include "Socket.h"
#include "tandem/Runtime/Rendezvous.h"

#include <vector>

namespace tandem::bootstrap {

inline constexpr uint64_t kHelloMagic = 0x3176'6472'6d64'6e74ull; // "tndmrdv1"
inline constexpr uint32_t kFrameMagic = 0x6d64'6e74u;             // "tndm"

/// Integers are little-endian, as everywhere in Tandem.
struct Hello {
  uint64_t magic = kHelloMagic;
  uint64_t token = 0;
  uint32_t rank = 0;
  uint32_t worldSize = 0;
};

enum class FrameKind : uint32_t { Accepted, Welcome, Part, Whole, Abort };

struct FrameHeader {
  uint32_t magic = kFrameMagic;
  FrameKind kind = FrameKind::Accepted;
  uint64_t sequence = 0;
  uint64_t bytes = 0; ///< that follow
};

/// Longest text that is believed of an Abort frame.
inline constexpr uint64_t kMaxText = 64 * 1024;

/// How much longer others wait than rank 0, which sees all ranks and can say who is missing.
inline constexpr std::chrono::milliseconds kRootFirst{1000};

/// Receives a header and checks it; an Abort frame becomes its error.
Status receiveHeader(const Socket &socket, FrameKind expected, FrameHeader &header,
                     Deadline deadline);
/// Sends an Abort frame and does not wait for long.
void sendAbort(const Socket &socket, const std::string &text);

/// Rank 0: peers[r] is connected to rank r, peers[0] is not open.
Expected<std::vector<Socket>> acceptPeers(const BootstrapEnvironment &environment, int listenFd);
/// Other ranks: the connection to rank 0.
Expected<Socket> connectToRoot(const BootstrapEnvironment &environment);

} // namespace tandem::bootstrap

#endif // TANDEM_LAUNCH_WIRE_H
