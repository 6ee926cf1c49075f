//===- LinkImpl.h - a rank's port, for threads ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHANNEL_SHAPED_LINKIMPL_H
#define TANDEM_CHANNEL_SHAPED_LINKIMPL_H

#include "Port.h"
#include "tandem/Runtime/Link.h"

#include <condition_variable>
#include <mutex>

namespace tandem {

class Link {
public:
  explicit Link(const LinkShape &shape) : shape(shape), port(shape.bytesPerSecond) {}

  /// Posts a transfer now, after `steps` latencies.
  shaped::Port::Transfer post(double bytes, double steps = 1);
  /// Sleeps until the transfer has ended, or `aborted` is an error; returns `aborted`.
  Status await(shaped::Port::Transfer transfer, const Status &aborted);
  /// Sets `aborted`, which await() reads, and wakes all waiting threads. The first reason stays.
  void abort(Status &aborted, const Status &reason);

  const LinkShape shape;

private:
  std::mutex mutex; ///< also guards what abort() sets
  std::condition_variable changed;
  shaped::Port port;
  double sent = 0; ///< bytes of all transfers
};

} // namespace tandem

#endif // TANDEM_CHANNEL_SHAPED_LINKIMPL_H
