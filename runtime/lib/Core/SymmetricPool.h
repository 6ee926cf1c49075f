//===- SymmetricPool.h - symmetric memory of several instances ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CORE_SYMMETRICPOOL_H
#define TANDEM_LIB_CORE_SYMMETRICPOOL_H

#include "tandem/Runtime/Channel.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

namespace tandem::core {

/// A block of symmetric memory: two buffers, between which the runs of its instances alternate, and
/// signals, of which each instance has its own. All members of its instances' channels have one of
/// the same number, and number their runs alike. See docs/semantics.md, section 2.
class SymmetricPool : public std::enable_shared_from_this<SymmetricPool> {
public:
  /// The part of one instance.
  class Share {
  public:
    Share(std::shared_ptr<SymmetricPool> pool, const SymmetricMemory &memory)
        : memory(memory), pool(std::move(pool)) {}
    ~Share();
    Share(const Share &) = delete;
    Share &operator=(const Share &) = delete;
    SymmetricPool &operator*() const { return *pool; }

    const SymmetricMemory memory;

  private:
    const std::shared_ptr<SymmetricPool> pool;
  };

  /// `number`: of the instance that it is made for. `signals`: space for so many.
  static Expected<std::shared_ptr<SymmetricPool>> create(Device &device, uint32_t number,
                                                         uint64_t bufferBytes, uint32_t signals);

  uint32_t number() const { return made; }
  /// The signals are zero. Null if the pool has no space for them, or smaller buffers.
  Expected<std::unique_ptr<Share>> take(Device &device, uint64_t bufferBytes, uint32_t signals);
  uint64_t bytesOfBuffer() const { return bufferBytes; }
  std::shared_ptr<Memory> memory() const { return block; }

  /// The next run.
  struct Generation {
    unsigned parity = 0;
    uint64_t number = 0;       ///< among those of all instances
    bool needsBarrier = false; ///< the ranks pass a barrier before it
  };
  /// `ordersRanks`: in each run of the instance, all ranks begin before any rank ends.
  Generation next(uint32_t instance, bool ordersRanks);
  /// A run has become part of a graph of the caller's. Its replays are not among the runs here, so
  /// from now on there is a barrier before each run.
  void noteCapture() { captured = true; }
  bool isCaptured() const { return captured; }

private:
  SymmetricPool(uint32_t number, std::shared_ptr<Memory> block, uint64_t bufferBytes,
                uint32_t capacity)
      : made(number), block(std::move(block)), bufferBytes(bufferBytes), capacity(capacity) {}

  const uint32_t made;
  const std::shared_ptr<Memory> block;
  const uint64_t bufferBytes;
  const uint32_t capacity; ///< signals

  std::mutex mutex;                   ///< guards `taken`
  std::map<uint32_t, uint32_t> taken; ///< first signal -> how many
  uint64_t runs = 0;
  uint32_t last = 0; ///< instance of the last run; 0: none yet
  bool lastOrders = false;
  std::atomic<bool> captured{false};
};

} // namespace tandem::core

#endif // TANDEM_LIB_CORE_SYMMETRICPOOL_H
