//===- Notices.h - that a rank gives up, said to its host -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHANNEL_CCL_NOTICES_H
#define TANDEM_CHANNEL_CCL_NOTICES_H

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::ccl {

/// Where the ranks that share a host say that they give up. A kernel of NCCL's whose communicator
/// is aborted leaves its waits and goes on: it sends what it has, and the members that wait for it
/// end as if all were well, and hand it on. So a rank says here that it gives up before it aborts,
/// and whoever has come to an end looks here before it believes the results. Who leaves after its
/// runs says nothing.
///
/// Each rank has a page of shared memory without a name, which the others map through /proc;
/// nothing is left behind however a process ends. Ranks of another host or container are not
/// reached.
class Notices {
public:
  /// Without a page, where the system has none to give, nobody hears of this rank.
  Notices();
  ~Notices();
  Notices(const Notices &) = delete;
  Notices &operator=(const Notices &) = delete;

  /// What the others find this rank's page by: one line.
  const std::string &address() const { return where; }
  /// Once, by one thread. `members`: addresses, of this one too.
  void connect(const std::vector<std::string> &members);
  bool connected() const { return isConnected; }

  /// Any thread; the first reason stays.
  void giveUp(const std::string &reason);
  struct Notice {
    uint32_t member; ///< place in what connect() was given
    std::string reason;
  };
  /// Of another member; the first in their order. Any thread, waits for nobody.
  std::optional<Notice> heard() const;

private:
  struct Page;
  struct Unmap {
    void operator()(const Page *page) const;
  };
  using PagePtr = std::unique_ptr<const Page, Unmap>;
  static PagePtr open(const std::string &address);

  int descriptor = -1;
  Page *own = nullptr;
  std::string where;
  std::vector<PagePtr> others;          ///< by member; null: this rank, or not reached
  std::atomic<bool> isConnected{false}; ///< they stay as they are
};

} // namespace tandem::ccl

#endif // TANDEM_CHANNEL_CCL_NOTICES_H
