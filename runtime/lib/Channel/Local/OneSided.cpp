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

class PutOperation final : public HostOperation {
public:
  PutOperation(GroupRef group, const Put &put)
      : group(std::move(group)), put(put), plan(put.dst, put.src.layout) {}

  Status execute(const Frame &frame) override {
    Group::Member &peer = group->members[put.peer];
    std::shared_lock<std::shared_mutex> memory(peer.memory);
    if (peer.left) // it has ended its runs, so nothing on it waits for this
      return Status();
    auto *dst = static_cast<std::byte *>(peer.symmetric.base) +
                frame.parity * peer.symmetric.bufferBytes + put.offset;
    plan.run(dst, frame.pointers[put.src.slot]);
    return Status();
  }

private:
  GroupRef group;
  Put put;
  CopyPlan plan;
};

class SignalOperation final : public HostOperation {
public:
  SignalOperation(GroupRef group, const Signal &signal) : group(std::move(group)), signal(signal) {}

  Status execute(const Frame &frame) override {
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
  }

private:
  GroupRef group;
  Signal signal;
};

class WaitSignalOperation final : public HostOperation {
public:
  WaitSignalOperation(GroupRef group, uint32_t self, const WaitSignal &wait)
      : group(std::move(group)), wait(wait),
        word(signalWord(this->group->members[self].symmetric, wait.slot)), self(self) {}

  Status execute(const Frame &frame) override {
    uint64_t target = frame.epoch * wait.perRun + wait.value;
    Status ended;
    std::unique_lock<std::mutex> lock(group->world->signalMutex);
    group->world->signalRaised.wait(lock, [&] {
      if (*word >= target)
        return true;
      ended = end();
      return !ended.ok();
    });
    return ended;
  }

private:
  /// The reason why no signal will come: the channel was aborted, or all others have left.
  Status end() {
    std::lock_guard<std::mutex> lock(group->mutex);
    if (!group->aborted.ok())
      return group->aborted;
    for (uint32_t m = 0; m < group->members.size(); ++m)
      if (m != self && !group->members[m].left)
        return Status();
    return group->members.size() > 1 ? Status(Code::Aborted, "all other ranks have left")
                                     : Status();
  }

  GroupRef group;
  WaitSignal wait;
  uint64_t *word;
  uint32_t self;
};

} // namespace

Expected<std::unique_ptr<Operation>> preparePut(GroupRef group, const Put &put) {
  const SymmetricMemory &memory = group->members[put.peer].symmetric;
  uint64_t span = put.dst.spanBytes();
  if (put.offset > memory.bufferBytes || span > memory.bufferBytes - put.offset)
    return Status(Code::InvalidProgram,
                  fmt::format("{} bytes at {} do not lie inside the {} symmetric bytes of rank {}",
                              span, put.offset, memory.bufferBytes, group->ranks[put.peer]));
  return std::make_unique<PutOperation>(std::move(group), put);
}

Expected<std::unique_ptr<Operation>> prepareSignal(GroupRef group, const Signal &signal) {
  uint32_t slots = group->members[signal.peer].symmetric.numSignals;
  if (signal.slot >= slots)
    return Status(Code::InvalidProgram, fmt::format("signal slot {} of the {} of rank {}",
                                                    signal.slot, slots, group->ranks[signal.peer]));
  return std::make_unique<SignalOperation>(std::move(group), signal);
}

Expected<std::unique_ptr<Operation>> prepareWaitSignal(GroupRef group, uint32_t self,
                                                       const WaitSignal &wait) {
  uint32_t slots = group->members[self].symmetric.numSignals;
  if (wait.slot >= slots)
    return Status(Code::InvalidProgram, fmt::format("signal slot {} of {}", wait.slot, slots));
  return std::make_unique<WaitSignalOperation>(std::move(group), self, wait);
}

} // namespace tandem::local
