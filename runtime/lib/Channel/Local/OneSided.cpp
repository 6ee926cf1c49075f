//===- OneSided.cpp - put and signals between threads ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalGroup.h"

#include <fmt/format.h>

namespace tandem::local {

namespace {

uint64_t *signalWord(const SymmetricMemory &memory, uint32_t slot) {
  return reinterpret_cast<uint64_t *>(static_cast<std::byte *>(memory.base) + memory.signalOffset) +
         slot;
}

/// The reason why no signal will come: the channel was aborted, or all others have left.
Status endOf(Group &group, uint32_t self) {
  std::lock_guard<std::mutex> lock(group.mutex);
  if (!group.aborted.ok())
    return group.aborted;
  for (uint32_t m = 0; m < group.members.size(); ++m)
    if (m != self && !group.members[m].left)
      return Status();
  return group.members.size() > 1 ? Status(Code::Aborted, "all other ranks have left") : Status();
}

} // namespace

Expected<std::unique_ptr<Operation>> preparePut(GroupRef group, const Put &put) {
  TANDEM_RETURN_IF_ERROR(
      checkTarget(put, group->members[put.peer].symmetric.bufferBytes, group->ranks[put.peer]));
  return makeHostOperation([group = std::move(group), put,
                            plan = CopyPlan(put.dst, put.src.layout)](const Frame &frame) {
    Group::Member &peer = group->members[put.peer];
    std::shared_lock<std::shared_mutex> memory(peer.memory);
    if (peer.left) // it has ended its runs, so nothing on it waits for this
      return Status();
    auto *dst = static_cast<std::byte *>(peer.symmetric.base) +
                frame.parity * peer.symmetric.bufferBytes + put.offset;
    plan.run(dst, frame.pointers[put.src.slot]);
    return Status();
  });
}

Expected<std::unique_ptr<Operation>> prepareSignal(GroupRef group, const Signal &signal) {
  TANDEM_RETURN_IF_ERROR(checkSlot(signal.slot, group->members[signal.peer].symmetric.numSignals,
                                   group->ranks[signal.peer]));
  return makeHostOperation([group = std::move(group), signal](const Frame &frame) {
    Group::Member &peer = group->members[signal.peer];
    std::shared_lock<std::shared_mutex> memory(peer.memory);
    if (peer.left)
      return Status();
    uint64_t target = frame.epoch * signal.perRun + signal.value;
    // The lock makes this rank's earlier puts visible to the waiter.
    std::lock_guard<std::mutex> lock(group->world->signalMutex);
    uint64_t *word = signalWord(peer.symmetric, signal.slot);
    if (*word < target)
      *word = target;
    group->world->signalRaised.notify_all();
    return Status();
  });
}

Expected<std::unique_ptr<Operation>> prepareWaitSignal(GroupRef group, uint32_t self,
                                                       const WaitSignal &wait) {
  TANDEM_RETURN_IF_ERROR(
      checkSlot(wait.slot, group->members[self].symmetric.numSignals, group->ranks[self]));
  uint64_t *word = signalWord(group->members[self].symmetric, wait.slot);
  return makeHostOperation([group = std::move(group), self, wait, word](const Frame &frame) {
    uint64_t target = frame.epoch * wait.perRun + wait.value;
    Status ended;
    std::unique_lock<std::mutex> lock(group->world->signalMutex);
    group->world->signalRaised.wait(lock, [&] {
      if (*word >= target)
        return true;
      ended = endOf(*group, self);
      return !ended.ok();
    });
    return ended;
  });
}

} // namespace tandem::local
