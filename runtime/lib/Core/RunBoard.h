//===- RunBoard.h - ranks of a host compare their runs ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CORE_RUNBOARD_H
#define TANDEM_LIB_CORE_RUNBOARD_H

#include "SharedPage.h"

#include "tandem/Runtime/Context.h"

#include <mutex>
#include <string_view>
#include <vector>

namespace tandem::core {

/// Each rank writes down, in memory that the others of its host read, what its next run is, before
/// it enqueues anything of it; then it reads what they wrote about the run of that number. So of
/// two ranks whose runs differ at least one finds out before it takes part, and no run that needs
/// both of them ends. The other one finds out in its watchdog.
///
/// Ranks on other hosts, and those whose memory the system does not let this process map, are not
/// compared with, nor is a rank that is more than kEntries runs ahead.
class RunBoard {
  struct Page;

public:
  static constexpr uint64_t kEntries = 1024;
  static constexpr uint32_t kMostRanks = 256; ///< a page and a descriptor of each rank

  /// Makes this rank's page. Without one, where the system has no shared memory, the others do not
  /// compare with this rank; nor in worlds of more than kMostRanks ranks.
  RunBoard(uint32_t rank, uint32_t worldSize);
  using Address = SharedPage<Page>::Address;
  const Address &address() const { return page.address(); }
  /// Once, before the first run. `all`: the addresses of all ranks. Whether all are compared with.
  bool connect(const std::vector<Address> &all);

  /// Run `run`, from 1 on, is `what`, which all ranks must say alike, up to a line break: what
  /// follows is for the message. An error if another rank
  /// has said something else, about this run or an earlier one. One thread at a time.
  Status begin(uint64_t run, std::string_view what);
  /// Compares what others have said since. Any thread; does not block.
  Status compare();
  /// This rank's last calls, and how many others have made. Any thread.
  void list(Snapshot &into);

private:
  struct Entry;
  struct Other {
    uint32_t rank;
    std::shared_ptr<const Page> page;
    uint64_t compared = 0; ///< the runs up to this one
  };
  Status compareWith(Other &other, uint64_t begun);

  const uint32_t rank;
  SharedPage<Page> page;

  std::mutex mutex; ///< guards the fields below
  std::vector<Other> others;
};

} // namespace tandem::core

#endif // TANDEM_LIB_CORE_RUNBOARD_H
