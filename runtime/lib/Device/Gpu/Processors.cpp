//===- Processors.cpp - SMs that waiting kernels hold -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChannelInterface.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace tandem::gpu {

/// What the kernels of this process hold of one GPU.
struct HeldProcessors::Ledger {
  /// By stream, of each kernel: they run one after the other.
  using Streams = std::map<uint32_t, std::multiset<unsigned>>;
  /// By instance. Kernels of two accounts may run at the same time, those of two instances of one
  /// account not.
  using Account = std::map<uint64_t, Streams>;
  using Key = std::pair<const void *, uint64_t>;

  static Key keyOf(const User &user) {
    return {user.context, user.runsFollow ? 0 : user.instance + 1};
  }
  static unsigned heldBy(const Streams &streams) {
    unsigned sum = 0;
    for (const auto &[stream, kernels] : streams)
      sum += kernels.empty() ? 0 : *kernels.rbegin();
    return sum;
  }
  static unsigned heldBy(const Account &account) {
    unsigned most = 0;
    for (const auto &[instance, streams] : account)
      most = std::max(most, heldBy(streams));
    return most;
  }
  /// What kernels of a user's stream hold; trim() when none does any more.
  std::multiset<unsigned> &kernelsOf(const User &user) {
    return accounts[keyOf(user)][user.instance][user.stream];
  }
  void trim(const User &user) {
    auto account = accounts.find(keyOf(user));
    auto instance = account->second.find(user.instance);
    if (kernelsOf(user).empty())
      instance->second.erase(user.stream);
    if (instance->second.empty())
      account->second.erase(instance);
    if (account->second.empty())
      accounts.erase(account);
  }
  /// Of each GPU, by UUID. Lives as long as the process.
  static Ledger &of(const std::string &uuid) {
    static std::mutex mutex;
    static auto *ledgers = new std::map<std::string, Ledger>; // its elements stay where they are
    std::lock_guard<std::mutex> lock(mutex);
    return (*ledgers)[uuid];
  }

  std::mutex mutex; ///< guards the field below
  std::map<Key, Account> accounts;
};

Expected<HeldProcessors> HeldProcessors::take(DeviceState &state, const User &user, unsigned most,
                                              unsigned least) {
  const DeviceInfo &info = state.driver->info();
  HeldProcessors held;
  held.ledger = &Ledger::of(info.uuid);
  held.user = user;
  std::lock_guard<std::mutex> lock(held.ledger->mutex);
  unsigned others = 0, ranks = state.ranksOfGpu;
  for (const auto &[key, account] : held.ledger->accounts)
    if (key != Ledger::keyOf(user))
      others += Ledger::heldBy(account);
  // Whose kernels are alone has all. Else one SM stays free for what they wait for: kernels that
  // end by themselves, in streams of their own.
  unsigned all = info.processors, shared = all - std::min(all, 1U);
  unsigned room = others > 0 ? shared - std::min(shared, others) : all;
  if (ranks > 1)
    room = std::min(room, shared / ranks);
  std::multiset<unsigned> &kernels = held.ledger->kernelsOf(user);
  const Ledger::Account &account = held.ledger->accounts[Ledger::keyOf(user)];
  // What its account has anyway is there for this kernel, too.
  room = std::max(room, Ledger::heldBy(account));
  unsigned beside =
      Ledger::heldBy(account.at(user.instance)) - (kernels.empty() ? 0 : *kernels.rbegin());
  if (others == 0 && ranks <= 1)
    beside = 0; // what the streams of one program hold together is its own affair
  room -= std::min(room, beside);
  if (room >= std::max(least, 1U)) {
    held.blocks = std::min(most, room);
    kernels.insert(held.blocks);
    return held;
  }
  held.ledger->trim(user);
  return Status(Code::Unsupported,
                fmt::format("a kernel that waits needs {} SMs: of the {} of {}, which {} ranks "
                            "share, kernels of this process that wait at the same time hold {}",
                            least, all, info.name, ranks, others + beside));
}

HeldProcessors &HeldProcessors::operator=(HeldProcessors &&other) noexcept {
  std::swap(ledger, other.ledger);
  std::swap(user, other.user);
  std::swap(blocks, other.blocks);
  return *this;
}

HeldProcessors::~HeldProcessors() {
  if (blocks == 0)
    return;
  std::lock_guard<std::mutex> lock(ledger->mutex);
  std::multiset<unsigned> &kernels = ledger->kernelsOf(user);
  kernels.erase(kernels.find(blocks));
  ledger->trim(user);
}

} // namespace tandem::gpu
