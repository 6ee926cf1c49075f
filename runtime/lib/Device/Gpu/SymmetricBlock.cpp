//===- SymmetricBlock.cpp - memory that ranks of a process share ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChannelInterface.h"

namespace tandem::gpu {

namespace {

struct Registry {
  std::mutex mutex;
  std::map<const void *, std::weak_ptr<SymmetricBlock>> blocks;
};

Registry &registry() {
  static Registry &all = *new Registry; // a thread that was left behind may outlive static objects
  return all;
}

} // namespace

Expected<std::shared_ptr<SymmetricBlock>>
SymmetricBlock::allocate(std::shared_ptr<DeviceState> state, uint64_t bytes) {
  void *base = nullptr;
  TANDEM_RETURN_IF_ERROR(state->allocate(bytes, MemoryKind::Symmetric, &base));
  return enter(
      std::shared_ptr<SymmetricBlock>(new SymmetricBlock(std::move(state), base, bytes, false)));
}

Expected<std::shared_ptr<SymmetricBlock>>
SymmetricBlock::allocateSignals(std::shared_ptr<DeviceState> state, uint64_t bytes) {
  void *base = nullptr;
  TANDEM_RETURN_IF_ERROR(state->driver->allocateSignals(bytes, &base));
  return enter(
      std::shared_ptr<SymmetricBlock>(new SymmetricBlock(std::move(state), base, bytes, true)));
}

std::shared_ptr<SymmetricBlock> SymmetricBlock::enter(std::shared_ptr<SymmetricBlock> block) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  registry().blocks[block->base] = block;
  return block;
}

std::shared_ptr<SymmetricBlock> SymmetricBlock::find(const void *base) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  auto found = registry().blocks.find(base);
  return found == registry().blocks.end() ? nullptr : found->second.lock();
}

SymmetricBlock::~SymmetricBlock() {
  {
    std::lock_guard<std::mutex> lock(registry().mutex);
    registry().blocks.erase(base); // before the address is reused
  }
  if (!state->stuck)
    (signals ? state->driver->freeShared(base) : state->free(base, bytes, MemoryKind::Symmetric))
        .ignore();
}

} // namespace tandem::gpu
