//===- ExchangeMemory.cpp - flags and LL buffers of exchanges ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/ExchangeMemory.h"

#include "tandem/Program/FusedExchange.h"

#include "ProgramImpl.h"

#include <algorithm>

namespace tandem::program {

const ExchangeMemory::Place *ExchangeMemory::find(uint32_t head) const {
  auto found = std::find_if(places.begin(), places.end(),
                            [&](const Place &place) { return place.head == head; });
  return found == places.end() ? nullptr : &*found;
}

ExchangeMemory exchangeMemory(const sp::RankProgram &data) {
  constexpr uint64_t kWordsOfLine = 8, kMostFlags = 32 * 1024; // of one exchange
  auto roundUp = [](uint64_t n) { return (n + kWordsOfLine - 1) / kWordsOfLine * kWordsOfLine; };
  ExchangeMemory memory;
  uint16_t channel = sp::kNoChannel, stream = 0; // of the exchanges that use LL
  for (uint32_t i = 0; i < sizeOfVector(data.commands()); ++i) {
    const sp::Command &head = *data.commands()->Get(i);
    const sp::Exchange *exchange = exchangeOf(data, head);
    if (!exchange || head.op() == static_cast<uint8_t>(ExchangeProtocol::Simple))
      continue;
    auto kind = static_cast<ExchangeKind>(exchange->kind());
    uint64_t members = data.channels()->Get(exchange->channel())->group()->size(),
             flags = members * (isTwoShot(kind) ? 2 : 1) * head.value();
    if (flags > kMostFlags)
      continue;
    ExchangeMemory::Place &place = memory.places.emplace_back();
    place.head = i;
    place.first = memory.size;
    place.size = flags;
    memory.size += flags;
    // Exchanges share the LL buffers: each follows the one before it on all ranks.
    bool follows = memory.numLL == 0 || (channel == exchange->channel() && stream == head.stream());
    uint32_t value = isAllGather(kind) ? exchange->in()->Get(0) : exchange->out()->Get(0);
    const sp::Layout &layout = *data.layouts()->Get(data.views()->Get(value)->layout());
    auto type = static_cast<DType>(layout.dtype());
    uint64_t bytes = sizeOf(type);
    for (uint32_t d = 0; d < sizeOfVector(layout.shape()); ++d)
      bytes *= static_cast<uint64_t>(layout.shape()->Get(d));
    if (head.op() != static_cast<uint8_t>(ExchangeProtocol::LL) || !follows || bytes == 0 ||
        members > kMaxLLRanks || bytes > kMaxLLBytes ||
        !exchangeKernelType(type, /*added=*/!isAllGather(kind)))
      continue;
    place.usesLL = true;
    place.number = memory.numLL++;
    channel = exchange->channel();
    stream = head.stream();
    memory.bufferLL = std::max(memory.bufferLL, roundUp(members * wordsOfLL((bytes + 15) / 16)));
  }
  memory.firstLL = roundUp(memory.size);
  memory.size = memory.firstLL + 2 * memory.bufferLL;
  return memory;
}

} // namespace tandem::program
