//===- Pool.cpp - inputs that programs of a row share -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pool.h"

#include "Inputs.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <mutex>

using namespace tandem;
using namespace tandem::bench;
using run::BoundMemory;
using run::Tensor;

/// A megabyte or two of random numbers, made once. Its length divides no power of 2, so that rows
/// of a matrix differ.
static const Tensor &randomBlock(DType type) {
  static std::array<Tensor, kNumDTypes> blocks;
  static std::array<std::once_flag, kNumDTypes> made;
  auto index = static_cast<size_t>(type);
  std::call_once(made[index], [&] {
    ArgumentInfo info;
    info.dtype = type;
    info.shape = {(1 << 19) + 7};
    blocks[index] = run::makeInput(1, 0, info);
  });
  return blocks[index];
}

uint64_t bench::seedOf(uint64_t seed, uint32_t set) {
  return set == 0 ? seed : run::randomBits(seed, 0, set);
}

Status InputPool::fill(BoundMemory &memory, const ArgumentInfo &info, uint64_t begin) const {
  const Tensor &block = randomBlock(info.dtype);
  // Block by block: gigabytes of host memory would take longer than what is measured.
  size_t size = block.data.size(), at = begin % size / sizeOf(info.dtype) * sizeOf(info.dtype);
  for (uint64_t done = 0; done < memory.size(); at = 0) {
    uint64_t count = std::min<uint64_t>(size - at, memory.size() - done);
    TANDEM_RETURN_IF_ERROR(memory.write(block.data.data() + at, done, count));
    done += count;
  }
  return Status();
}

Expected<BoundMemory *> InputPool::get(uint32_t argument, const ArgumentInfo &info,
                                       const Shard &shard, uint32_t set) {
  std::string key =
      fmt::format("{} {} {} {} {} {}+{}:{} {} {}", set, argument, info.name, toString(info.dtype),
                  info.partial, shard.offset, fmt::join(shard.shape, ","),
                  fmt::join(shard.strides, ","), fmt::join(shard.local, ","), shard.term);
  std::unique_ptr<BoundMemory> &memory = memories[key];
  if (memory)
    return memory.get();
  uint64_t bytes = shard.present ? info.localBytes() : 0;
  TANDEM_ASSIGN_OR_RETURN(memory, BoundMemory::create(context, bytes));
  if (exact) {
    Tensor tensor = run::makeShard(seedOf(seed, set), argument, info, shard);
    TANDEM_RETURN_IF_ERROR(memory->write(tensor.data.data()));
  } else {
    TANDEM_RETURN_IF_ERROR(fill(*memory, info, std::hash<std::string>()(key) ^ seed));
  }
  return memory.get();
}
