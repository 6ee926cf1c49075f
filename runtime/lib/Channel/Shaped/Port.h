//===- Port.h - transfers that share a port ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHANNEL_SHAPED_PORT_H
#define TANDEM_CHANNEL_SHAPED_PORT_H

#include <cstdint>
#include <vector>

namespace tandem::shaped {

/// When transfers through one port end, if those under way at the same time share its rate equally.
/// Pure arithmetic: it reads no clock. Seconds; calls must not go back in time.
class Port {
public:
  using Transfer = uint64_t;

  explicit Port(double bytesPerSecond) : rate(bytesPerSecond) {}

  /// `bytes` that reach the port at `start`, which is `now` or later.
  Transfer begin(double bytes, double start, double now);
  /// When the transfer ends if no other begins; at most `now`: it has ended.
  double endOf(Transfer transfer, double now);

private:
  struct Member {
    Transfer transfer;
    double start, remaining;
  };
  /// Moves bytes until `until`, or until `stopAfter` has ended; returns the time reached.
  static double advance(std::vector<Member> &members, double rate, double from, double until,
                        Transfer stopAfter);

  double rate, last = 0;
  Transfer next = 1;
  std::vector<Member> members;
  std::vector<Member> future; ///< scratch of endOf
};

} // namespace tandem::shaped

#endif // TANDEM_CHANNEL_SHAPED_PORT_H
