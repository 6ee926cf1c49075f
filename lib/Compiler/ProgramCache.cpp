//===- ProgramCache.cpp - compiled programs by key --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramCache.h"

using namespace tandem::compiler;

ProgramCache::Program ProgramCache::get(const std::string &key,
                                        const std::function<CompileResult()> &make) {
  std::unique_lock<std::mutex> lock(mutex);
  if (auto slot = slots.find(key); slot != slots.end()) {
    ++counts.hits;
    recency.splice(recency.begin(), recency, slot->second.place);
    return slot->second.program;
  }
  auto [flying, first] = flights.try_emplace(key);
  if (!first) {
    ++counts.joined;
    std::shared_ptr<Flight> flight = flying->second;
    landed.wait(lock, [&] { return flight->program != nullptr; });
    return flight->program;
  }
  auto flight = std::make_shared<Flight>();
  flying->second = flight;
  lock.unlock();
  auto program = std::make_shared<const CompileResult>(make());
  lock.lock();
  flight->program = program;
  flights.erase(key);
  if (program->ok)
    keep(key, program);
  else
    ++counts.failed;
  lock.unlock();
  landed.notify_all();
  return program;
}

void ProgramCache::keep(const std::string &key, const Program &program) {
  auto [slot, isNew] = slots.try_emplace(key);
  if (!isNew)
    return;
  slot->second.program = program;
  // The map owns the key; strings of diagnostics are few.
  slot->second.bytes = key.size() + program->output.size();
  recency.push_front(&slot->first);
  slot->second.place = recency.begin();
  counts.bytes += slot->second.bytes;
  shrink();
}

void ProgramCache::shrink() {
  while (!recency.empty() && (slots.size() > limits.programs || counts.bytes > limits.bytes)) {
    auto slot = slots.find(*recency.back());
    recency.pop_back();
    counts.bytes -= slot->second.bytes;
    ++counts.evicted;
    slots.erase(slot);
  }
}

CacheStatistics ProgramCache::statistics() const {
  std::lock_guard<std::mutex> lock(mutex);
  CacheStatistics result = counts;
  result.programs = slots.size();
  return result;
}

void ProgramCache::clear() {
  std::lock_guard<std::mutex> lock(mutex);
  recency.clear();
  slots.clear();
  counts.bytes = 0;
}
