//===- AbortBoard.cpp - aborts, announced on a host -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AbortBoard.h"

#include <algorithm>
#include <cstring>

namespace tandem::ccl {

struct AbortBoard::Page {
  /// 0: no abort; 1: the reason is being written; 2: it is complete.
  std::atomic<uint32_t> said{0};
  char reason[1024] = {};
};

static_assert(std::atomic<uint32_t>::is_always_lock_free, "shared by processes");

AbortBoard::AbortBoard() : own(core::SharedPage<Page>::make()) {}

void AbortBoard::connect(const std::vector<Address> &members) {
  for (const Address &member : members)
    others.push_back(member.number == address().number ? nullptr
                                                       : core::SharedPage<Page>::map(member));
  isConnected = true;
}

void AbortBoard::post(const std::string &reason) {
  uint32_t nothing = 0;
  if (!own || !own->said.compare_exchange_strong(nothing, 1))
    return;
  size_t length = std::min(reason.size(), sizeof own->reason - 1);
  std::memcpy(own->reason, reason.data(), length);
  own->said.store(2, std::memory_order_release);
}

std::optional<AbortBoard::Abort> AbortBoard::firstAbort() const {
  for (uint32_t member = 0; isConnected && member < others.size(); ++member)
    if (const Page *page = others[member].get())
      if (page->said.load(std::memory_order_acquire) == 2)
        return Abort{member,
                     std::string(page->reason, ::strnlen(page->reason, sizeof page->reason))};
  return std::nullopt;
}

} // namespace tandem::ccl
