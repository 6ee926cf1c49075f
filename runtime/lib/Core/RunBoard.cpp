//===- RunBoard.cpp - ranks of a host compare their runs --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunBoard.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fmt/format.h>
#include <xxhash.h>

namespace tandem::core {

/// A run. Its writer sets `run` to 0, then the text, then `run` to its number; a reader that finds
/// the number behind its copy, too, has copied one text.
struct RunBoard::Entry {
  std::atomic<uint64_t> run{0};
  uint64_t hash = 0; ///< of the whole text
  uint64_t size = 0; ///< of `text`
  char text[232] = {};
};

struct RunBoard::Page {
  std::atomic<uint64_t> begun{0}; ///< the last run
  Entry entries[kEntries];

  const Entry &at(uint64_t run) const { return entries[run % kEntries]; }
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared by processes");

RunBoard::RunBoard(uint32_t rank, uint32_t worldSize) : rank(rank) {
  if (worldSize > 1 && worldSize <= kMostRanks)
    page = SharedPage<Page>::make();
}

bool RunBoard::connect(const std::vector<Address> &all) {
  std::lock_guard<std::mutex> lock(mutex);
  for (uint32_t r = 0; page && r < all.size(); ++r) {
    if (r == rank)
      continue;
    if (auto theirs = SharedPage<Page>::map(all[r]))
      others.push_back({r, std::move(theirs)});
  }
  return others.size() + 1 == all.size();
}

Status RunBoard::begin(uint64_t run, std::string_view what) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!page)
    return Status();
  Entry &entry = page->entries[run % kEntries];
  entry.run.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry.hash = XXH3_64bits(what.data(), std::min(what.find('\n'), what.size()));
  entry.size = std::min(what.size(), sizeof entry.text);
  if (entry.size < what.size()) // not in the middle of a character of UTF-8
    while (entry.size > 0 && (what[entry.size] & 0xc0) == 0x80)
      --entry.size;
  std::replace_copy(what.begin(), what.begin() + static_cast<std::ptrdiff_t>(entry.size),
                    entry.text, '\n', ' ');
  entry.run.store(run, std::memory_order_release);
  // Of two ranks that begin the run at once, the later store is seen by the rank that made it.
  page->begun.store(run, std::memory_order_seq_cst);
  for (Other &other : others)
    TANDEM_RETURN_IF_ERROR(compareWith(other, run));
  return Status();
}

Status RunBoard::compare() {
  std::lock_guard<std::mutex> lock(mutex);
  for (Other &other : others)
    TANDEM_RETURN_IF_ERROR(compareWith(other, page->begun.load(std::memory_order_relaxed)));
  return Status();
}

void RunBoard::list(Snapshot &into) {
  constexpr uint64_t kMost = 16;
  std::lock_guard<std::mutex> lock(mutex);
  if (!page)
    return;
  uint64_t last = page->begun.load(std::memory_order_relaxed);
  for (uint64_t call = last - std::min(last, kMost) + 1; call <= last; ++call)
    into.calls.emplace_back(call, std::string(page->at(call).text, page->at(call).size));
  for (const Other &other : others)
    into.others.push_back({other.rank, other.page->begun.load(std::memory_order_relaxed)});
}

Status RunBoard::compareWith(Other &other, uint64_t begun) {
  uint64_t until = std::min(begun, other.page->begun.load(std::memory_order_seq_cst));
  // Those before are overwritten.
  uint64_t first = std::max(other.compared, begun - std::min(begun, kEntries)) + 1;
  for (uint64_t run = first; run <= until; ++run) {
    const Entry &here = page->at(run), &there = other.page->at(run);
    if (there.run.load(std::memory_order_acquire) != run)
      continue;
    if (there.hash == here.hash)
      continue;
    std::string text(there.text, std::min(there.size, uint64_t(sizeof there.text)));
    std::atomic_thread_fence(std::memory_order_acquire);
    if (there.run.load(std::memory_order_relaxed) != run)
      continue; // it was overwritten meanwhile
    return Status(
        Code::InvalidArgument,
        fmt::format("the ranks disagree on call {}: rank {} is about to {}; rank {} is about to {}",
                    run, rank, std::string_view(here.text, here.size), other.rank, text));
  }
  other.compared = std::max(other.compared, until);
  return Status();
}

} // namespace tandem::core
