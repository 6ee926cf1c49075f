//===- Wire.h - wire format of the TCP bootstrap ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A client sends a Hello; rank 0 answers with a frame Accepted, and with Welcome once all ranks
// have arrived. Each all-gather is a frame Part from every client, then Whole from rank 0. Abort,
// from rank 0, carries the reason as text and ends the bootstrap.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BOOTSTRAP_WIRE_H
#define TANDEM_BOOTSTRAP_WIRE_H

#include "Socket.h"
#include "tandem/Runtime/Rendezvous.h"

#include <vector>

namespace tandem::bootstrap {

inline constexpr uint64_t kHelloMagic = 0x3176'6472'6d64'6e74ull; // "tndmrdv1"
inline constexpr uint32_t kFrameMagic = 0x6d64'6e74u;             // "tndm"

/// All integers are little-endian.
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
  uint64_t bytes = 0; ///< bytes that follow the header
};

/// Longest accepted text of an Abort frame.
inline constexpr uint64_t kMaxText = 64 * 1024;

/// Other ranks wait this much longer than rank 0, which can report the missing ranks.
inline constexpr std::chrono::milliseconds kRootFirst{1000};

/// Receives and checks a header; an Abort frame becomes its error.
Status receiveHeader(const Socket &socket, FrameKind expected, FrameHeader &header,
                     Deadline deadline);
/// Tries briefly to send an Abort frame.
void sendAbort(const Socket &socket, const std::string &text);

/// Rank 0: peers[r] is the connection to rank r; peers[0] is not open.
Expected<std::vector<Socket>> acceptPeers(const BootstrapEnvironment &environment, int listenFd);
/// Other ranks: the connection to rank 0.
Expected<Socket> connectToRoot(const BootstrapEnvironment &environment);

} // namespace tandem::bootstrap

#endif // TANDEM_BOOTSTRAP_WIRE_H
