//===- Local.h - ranks as threads of one process ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LOCAL_H
#define TANDEM_RUNTIME_LOCAL_H

#include "tandem/Runtime/Channel.h"

#include <chrono>

namespace tandem {

/// A job whose ranks are threads of this process. Each thread gets a bootstrap and a transport;
/// both keep the world alive. A rank that gives up (Bootstrap::giveUp) ends the world for all
/// ranks. A rank whose bootstrap is destroyed has left: the others' collective calls that need it
/// fail and say so.
class LocalWorld : public std::enable_shared_from_this<LocalWorld> {
public:
  /// `timeout` bounds each wait in the bootstrap's all-gather and barrier.
  static std::shared_ptr<LocalWorld> create(uint32_t worldSize, std::chrono::milliseconds timeout);
  virtual ~LocalWorld();

  /// An error unless the world has this rank.
  virtual Status checkRank(uint32_t rank) const = 0;
  /// Once per rank; rank < worldSize.
  virtual std::unique_ptr<Bootstrap> bootstrap(uint32_t rank) = 0;
  virtual std::unique_ptr<Transport> transport(uint32_t rank) = 0;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_LOCAL_H
