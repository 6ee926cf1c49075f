//===- SymmetricPool.cpp - symmetric memory of several instances ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SymmetricPool.h"

#include "tandem/Program/Container.h"

#include <algorithm>

namespace tandem::core {

namespace {
/// The signals of an instance begin at a multiple of these.
constexpr uint32_t kUnit = sp::kAlignment / sizeof(uint64_t);
uint32_t wholeUnits(uint32_t signals) { return (signals + kUnit - 1) / kUnit * kUnit; }
} // namespace

Expected<std::shared_ptr<SymmetricPool>>
SymmetricPool::create(Device &device, uint32_t number, uint64_t halfBytes, uint32_t signals) {
  uint32_t capacity = wholeUnits(signals);
  TANDEM_ASSIGN_OR_RETURN(auto block, device.allocate(2 * halfBytes + capacity * sizeof(uint64_t),
                                                      MemoryKind::Symmetric));
  return std::shared_ptr<SymmetricPool>(
      new SymmetricPool(number, std::move(block), halfBytes, capacity));
}

Expected<std::unique_ptr<SymmetricPool::Share>>
SymmetricPool::take(Device &device, uint64_t atLeast, uint32_t signals) {
  uint32_t first = 0;
  std::lock_guard<std::mutex> lock(mutex);
  for (const auto &[begin, count] : taken) {
    if (begin - first >= signals)
      break;
    first = begin + wholeUnits(count);
  }
  if (halfBytes < atLeast || first + signals > capacity)
    return std::unique_ptr<Share>();
  SymmetricMemory memory;
  memory.base = block->data();
  memory.halfBytes = halfBytes;
  memory.signalOffset = 2 * halfBytes + first * sizeof(uint64_t);
  memory.numSignals = signals;
  memory.totalBytes = block->size();
  // They may be those of an instance that all ranks have destroyed.
  std::vector<uint64_t> zeros(signals);
  if (signals > 0) {
    TANDEM_RETURN_IF_ERROR(
        device.upload(static_cast<std::byte *>(memory.base) + memory.signalOffset, zeros.data(),
                      signals * sizeof(uint64_t)));
    taken[first] = signals;
  }
  return std::make_unique<Share>(shared_from_this(), memory);
}

SymmetricPool::Share::~Share() {
  if (memory.numSignals == 0)
    return;
  std::lock_guard<std::mutex> lock(pool->mutex);
  pool->taken.erase(
      static_cast<uint32_t>((memory.signalOffset - 2 * memory.halfBytes) / sizeof(uint64_t)));
}

SymmetricPool::Turn SymmetricPool::next(uint32_t instance, bool ordersRanks) {
  Turn turn;
  turn.number = runs++;
  turn.half = static_cast<unsigned>(turn.number % 2);
  turn.needsBarrier = captured || (last != 0 && last != instance && !(lastOrders && ordersRanks));
  last = instance;
  lastOrders = ordersRanks;
  return turn;
}

} // namespace tandem::core
