//===- UcxChannel.cpp - a channel over a worker -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UcxChannel.h"

#include <fmt/format.h>

using namespace tandem;
using namespace tandem::ucx;

std::string ChannelState::where() const {
  return fmt::format("rank {}, channel \"{}\"", worker->rank(), name);
}

uint64_t *ChannelState::signal(uint32_t slot) const {
  return reinterpret_cast<uint64_t *>(static_cast<std::byte *>(symmetric.base) +
                                      symmetric.signalOffset) +
         slot;
}

void ChannelState::receive(const Control &control) {
  moved.fetch_add(1, std::memory_order_relaxed);
  if (control.type != Control::Signal)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  if (!isClosed && control.slot < symmetric.numSignals) {
    uint64_t *value = signal(control.slot);
    // Raises only: signals of two peers may share a slot.
    if (__atomic_load_n(value, __ATOMIC_RELAXED) < control.value)
      __atomic_store_n(value, control.value, __ATOMIC_RELEASE);
  }
  condition.notify_all();
}

void ChannelState::failed(const Status &status) {
  std::lock_guard<std::mutex> lock(mutex);
  failure = status;
  condition.notify_all();
}

Status ChannelState::waitForSignal(uint32_t slot, uint64_t value) {
  uint64_t *current = signal(slot);
  auto reached = [&] { return __atomic_load_n(current, __ATOMIC_ACQUIRE) >= value; };
  auto spin = worker->spin();
  if (spin.count() > 0) {
    auto until = std::chrono::steady_clock::now() + spin;
    while (!reached() && std::chrono::steady_clock::now() < until)
      pauseBriefly();
  }
  if (reached())
    return Status::success();
  std::unique_lock<std::mutex> lock(mutex);
  condition.wait(lock, [&] { return reached() || !failure.ok(); });
  return reached() ? Status::success() : failure;
}

void ChannelState::close() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isClosed = true;
  }
  worker->callAtEnd([own = shared_from_this()] {
    const Api &api = own->worker->api;
    own->worker->removeSink(own->number, own.get());
    for (Member &member : own->members)
      if (member.key)
        api.ucp_rkey_destroy(member.key);
    if (own->registration)
      api.ucp_mem_unmap(own->worker->context, own->registration);
  });
}

UcxChannel::~UcxChannel() { state->close(); }

void UcxChannel::abort(const Status &reason) { state->worker->fail(reason, true); }
