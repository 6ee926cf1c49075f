//===- Link.h - channels as slow as a chosen link ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A *shaped link* delays what ranks send, so that on one host schedules differ as they do on
// a cluster. docs/benchmarking.md has the model; it is that of the simulator's machine files.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LINK_H
#define TANDEM_RUNTIME_LINK_H

#include "tandem/Runtime/Channel.h"

#include <limits>
#include <memory>
#include <string>
#include <string_view>

namespace tandem {

/// The port through which a rank sends.
struct LinkShape {
  double bytesPerSecond = 0;
  double latency = 0; ///< s
  /// The link fails: what is sent after so many bytes never arrives.
  double stopsAfter = std::numeric_limits<double>::infinity();

  /// "2GB/s,20us" or "2GB/s,20us,stop=1MB". Units: B/s, kB/s, MB/s, GB/s (powers of 1000); ns, us,
  /// ms, s; B, kB, MB, GB.
  static Expected<LinkShape> parse(std::string_view text);
};

/// A rank's port. Its channels share it, whatever transports they come from. Thread-safe.
class Link;
std::shared_ptr<Link> makeLink(const LinkShape &shape);

/// `inner` with delays: a transfer is announced to its receiver no sooner than latency + bytes /
/// rate after it was posted. The data of a message arrives with it. A put moves its data at once,
/// and a later signal of its stream announces it. Transfers that are under way at the same time
/// share the rate equally. Messages of a rank to itself are not delayed. Delayed operations sleep
/// on the thread of their stream. `inner` must make HostOperations.
std::unique_ptr<Transport> shapeTransport(std::unique_ptr<Transport> inner,
                                          std::shared_ptr<Link> link);

} // namespace tandem

#endif // TANDEM_RUNTIME_LINK_H
