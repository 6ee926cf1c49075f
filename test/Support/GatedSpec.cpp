//===- GatedSpec.cpp - a gather and one gated matmul ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/GatedSpec.h"

namespace tandem::test {

GatedSpec::GatedSpec(uint32_t size, uint64_t leaves, uint64_t blocks, bool isInPlace)
    : ProgramSpec(size) {
  constexpr int64_t rows = 2, k = 4, columns = 3;
  constexpr uint64_t bytesOfA = rows * k * 4, bytesOfY = rows * columns * 4;
  uint32_t a = stacked("a", false, DType::F32, {rows, k});
  uint32_t w = stacked("w", false, DType::F32, {k, columns});
  uint32_t y = stacked("y", true, DType::F32, {rows * size, columns});
  std::vector<uint32_t> everybody;
  for (uint32_t r = 0; r < size; ++r)
    everybody.push_back(r);
  for (RankSpec &rank : ranks) {
    uint32_t own = rank.view(rank.argument(a, bytesOfA), DType::F32, {rows, k});
    uint32_t weights = rank.view(rank.argument(w, k * columns * 4), DType::F32, {k, columns});
    uint32_t result = rank.argument(y, bytesOfY * size), buffer = rank.symmetric(bytesOfA * size);
    std::vector<uint32_t> gathered, out;
    for (uint32_t r = 0; r < size; ++r) {
      gathered.push_back(rank.view(buffer, DType::F32, {rows, k}, bytesOfA * r));
      out.push_back(rank.view(result, DType::F32, {rows, columns}, bytesOfY * r));
    }
    uint16_t channel = rank.channel(everybody, 2); // one-sided
    rank.slots.assign(size, 1);
    rank.sync(1, 0);
    if (blocks > 0) {
      rank.add(sp::CommandKind::fused_exchange, 1).value = blocks;
      sp::ExchangeT &exchange = rank.exchanges.emplace_back();
      exchange.kind = sp::ExchangeKind::push;
      exchange.channel = channel;
      exchange.in = {own};
      exchange.out = {gathered[rank.rank]};
      exchange.copy = {sp::kNoView};
    }
    for (uint32_t distance = 1; distance < size && blocks == 0; ++distance) {
      uint32_t to = (rank.rank + size - distance) % size;
      rank.put(1, channel, gathered[rank.rank], own, to);
      rank.signal(1, channel, to, rank.rank, 1, /*exclusive=*/true);
    }
    if (isInPlace)
      gathered[rank.rank] = own;
    else
      rank.copy(0, gathered[rank.rank], own);
    head = static_cast<uint32_t>(rank.commands.size());
    CommandSpec &gated = rank.add(sp::CommandKind::gated_matmul, 0);
    gated.aux = 2 * size - 1;
    gated.value = leaves;
    for (uint32_t distance = 0; distance < size; ++distance) {
      uint32_t from = (rank.rank + distance) % size;
      if (distance > 0)
        rank.waitSignal(0, channel, from, 1);
      rank.add(sp::CommandKind::matmul, 0, {out[from], gathered[from], weights});
    }
    rank.sync(0, 1);
  }
}

EpilogueSpec::EpilogueSpec(uint32_t size) : ProgramSpec(size) {
  constexpr int64_t rows = 2, k = 4, columns = 4;
  constexpr uint64_t bytesOfA = rows * k * 4, bytesOfY = rows * columns * 4;
  uint32_t a = stacked("a", false, DType::F32, {rows * size, k});
  uint32_t w = stacked("w", false, DType::F32, {k, columns});
  uint32_t y = stacked("y", true, DType::F32, {rows, columns});
  std::vector<uint32_t> everybody;
  for (uint32_t r = 0; r < size; ++r)
    everybody.push_back(r);
  for (RankSpec &rank : ranks) {
    uint32_t input = rank.argument(a, bytesOfA * size);
    uint32_t weights = rank.view(rank.argument(w, k * columns * 4), DType::F32, {k, columns});
    uint32_t result = rank.view(rank.argument(y, bytesOfY), DType::F32, {rows, columns});
    uint32_t received = rank.symmetric(bytesOfY * size);
    staged = rank.arena(bytesOfY * size);
    uint32_t place = rank.view(received, DType::F32, {rows, columns}, bytesOfY * rank.rank);
    uint16_t channel = rank.channel(everybody, 2); // one-sided
    rank.slots.assign(size, 1);
    head = static_cast<uint32_t>(rank.commands.size());
    CommandSpec &gated = rank.add(sp::CommandKind::gated_matmul, 0);
    gated.aux = 3 * size - 2;
    for (uint32_t distance = size; distance-- > 0;) {
      uint32_t to = (rank.rank + size - distance) % size;
      uint32_t out =
          distance == 0 ? place : rank.view(staged, DType::F32, {rows, columns}, bytesOfY * to);
      uint32_t in = rank.view(input, DType::F32, {rows, k}, bytesOfA * to);
      rank.add(sp::CommandKind::matmul, 0, {out, in, weights});
      if (distance == 0)
        continue;
      rank.put(0, channel, place, out, to);
      rank.signal(0, channel, to, rank.rank, 1, /*exclusive=*/true);
    }
    for (uint32_t distance = 1; distance < size; ++distance)
      rank.waitSignal(0, channel, (rank.rank + distance) % size, 1);
    uint32_t all = rank.view(received, DType::F32, {int64_t(size), rows, columns});
    rank.add(sp::CommandKind::reduce, 0, {result, all}).value = 1;
  }
}

} // namespace tandem::test
