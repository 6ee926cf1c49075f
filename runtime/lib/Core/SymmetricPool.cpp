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
SymmetricPool::create(Device &device, uint32_t number, uint64_t bufferBytes, uint32_t signals) {
  uint32_t capacity = wholeUnits(signals);
  TANDEM_ASSIGN_OR_RETURN(auto block, device.allocate(2 * bufferBytes + capacity * sizeof(uint64_t),
                                                      MemoryKind::Symmetric));
  return std::shared_ptr<SymmetricPool>(
      new SymmetricPool(number, std::move(block), bufferBytes, capacity));
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
  if (bufferBytes < atLeast || first + signals > capacity)
    return std::unique_ptr<Share>();
  SymmetricMemory memory;
  memory.base = block->data();
  memory.bufferBytes = bufferBytes;
  memory.signalOffset = 2 * bufferBytes + first * sizeof(uint64_t);
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
      static_cast<uint32_t>((memory.signalOffset - 2 * memory.bufferBytes) / sizeof(uint64_t)));
}

SymmetricPool::Generation SymmetricPool::next(uint32_t instance, bool ordersRanks) {
  Generation generation;
  generation.number = runs++;
  generation.parity = static_cast<unsigned>(generation.number % 2);
  generation.needsBarrier =
      captured || (last != 0 && last != instance && !(lastOrders && ordersRanks));
  last = instance;
  lastOrders = ordersRanks;
  return generation;
}

} // namespace tandem::core
