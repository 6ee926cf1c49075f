//===- AbortBoard.h - aborts, announced on a host ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHANNEL_CCL_ABORTBOARD_H
#define TANDEM_CHANNEL_CCL_ABORTBOARD_H

#include "Core/SharedPage.h"

#include <atomic>
#include <optional>
#include <string>
#include <vector>

namespace tandem::ccl {

/// Tells the ranks of one host that a rank aborts. An aborted NCCL kernel leaves its waits and
/// sends what it has, so members that wait for it finish as if they had succeeded. Therefore a rank
/// posts here before it aborts, and every rank reads the board when a run has ended, before it
/// reports success. A rank that leaves normally, after its runs, posts nothing.
///
/// Each rank has a page of shared memory, which the others map. Nothing remains when a process
/// ends, however it ends. Ranks of another host or container are not reached.
class AbortBoard {
  struct Page;

public:
  /// If the system gives no page, the other ranks do not see this rank's abort.
  AbortBoard();

  using Address = core::SharedPage<Page>::Address;
  const Address &address() const { return own.address(); }
  /// Once, by one thread. `members`: the addresses of all members, this rank's among them.
  void connect(const std::vector<Address> &members);
  bool connected() const { return isConnected; }

  /// Records that this rank aborts. Any thread; the first reason stays.
  void post(const std::string &reason);
  struct Abort {
    uint32_t member; ///< index in connect()'s list
    std::string reason;
  };
  /// The first other member, in their order, that has posted. Any thread; does not block.
  std::optional<Abort> firstAbort() const;

private:
  core::SharedPage<Page> own;
  std::vector<std::shared_ptr<const Page>> others; ///< by member; null: this rank, or not reached
  std::atomic<bool> isConnected{false};            ///< `others` is final
};

} // namespace tandem::ccl

#endif // TANDEM_CHANNEL_CCL_ABORTBOARD_H
