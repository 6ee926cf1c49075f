//===- DeviceState.cpp - what streams of a GPU share ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChannelInterface.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace tandem::gpu {

using Clock = std::chrono::steady_clock;

Status DeviceState::allocate(uint64_t bytes, MemoryKind kind, void **memory) {
  if (!allocator || !allocator->serves(kind))
    return kind == MemoryKind::Symmetric ? driver->allocateShared(bytes, memory)
                                         : driver->allocate(bytes, memory);
  *memory = allocator->allocate(bytes, kind);
  return *memory ? Status() : Status(Code::OutOfMemory, "the embedder's allocator returned null");
}

Status DeviceState::free(void *memory, uint64_t bytes, MemoryKind kind) {
  if (!allocator || !allocator->serves(kind))
    return kind == MemoryKind::Symmetric ? driver->freeShared(memory) : driver->free(memory);
  allocator->free(memory, bytes, kind);
  return Status();
}

void DeviceState::abort(const Status &why) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!aborted) {
    reason = why.ok() ? Status(Code::Aborted, "the device was aborted") : why;
    aborted = true;
  }
  changed.notify_all();
}

Status DeviceState::abortReason() {
  std::lock_guard<std::mutex> lock(mutex);
  return reason;
}

Expected<void *> DeviceState::takeWord() {
  std::lock_guard<std::mutex> lock(wordMutex);
  if (words.empty()) {
    constexpr uint64_t kPage = 4096;
    void *page = nullptr;
    TANDEM_RETURN_IF_ERROR(driver->allocateHost(kPage, &page));
    std::memset(page, 0xff, kPage);
    pages.push_back(page);
    for (uint64_t at = 0; at < kPage; at += sizeof(Marker))
      words.push_back(static_cast<std::byte *>(page) + at);
  }
  void *word = words.back();
  words.pop_back();
  return word;
}

void DeviceState::giveWord(void *word) {
  std::lock_guard<std::mutex> lock(wordMutex);
  words.push_back(word);
}

Expected<uint64_t *> DeviceState::stoppedWord() {
  std::lock_guard<std::mutex> lock(wordMutex);
  if (!stopped) {
    constexpr uint64_t kBytes = (1 + kSignalWords) * sizeof(uint64_t), kPage = 4096;
    void *page = nullptr, *memory = nullptr;
    TANDEM_RETURN_IF_ERROR(driver->allocateHost(kPage, &page)); // shared with no other word
    pages.push_back(page);
    *static_cast<uint64_t *>(page) = 0;
    TANDEM_RETURN_IF_ERROR(driver->allocate(kBytes, &memory));
    stopped = static_cast<uint64_t *>(memory);
    flag = static_cast<uint64_t *>(page);
    for (uint64_t i = kSignalWords; i > 0; --i)
      freeSignalWords.push_back(stopped + i);
    TANDEM_RETURN_IF_ERROR(driver->fill(stopped, 0, kBytes));
  }
  return stopped;
}

void DeviceState::raiseAbortFlag() {
  if (uint64_t *word = flag)
    __atomic_store_n(word, uint64_t(1), __ATOMIC_RELEASE);
}

Expected<std::shared_ptr<Scratch>> DeviceState::sharedWorkspace(uint32_t number) {
  std::lock_guard<std::mutex> lock(wordMutex);
  std::weak_ptr<Scratch> &known = workspaces[number];
  std::shared_ptr<Scratch> memory = known.lock();
  if (!memory) {
    TANDEM_ASSIGN_OR_RETURN(Scratch made, Scratch::make(shared_from_this(), kWorkspaceBytes));
    memory = std::make_shared<Scratch>(std::move(made));
    known = memory;
  }
  return memory;
}

uint64_t *DeviceState::takeSignalWord() {
  std::lock_guard<std::mutex> lock(wordMutex);
  if (freeSignalWords.empty())
    return nullptr;
  uint64_t *word = freeSignalWords.back();
  freeSignalWords.pop_back();
  return word;
}

void DeviceState::giveSignalWord(uint64_t *word) {
  std::lock_guard<std::mutex> lock(wordMutex);
  freeSignalWords.push_back(word);
}

DeviceState::~DeviceState() {
  if (stuck) {
    driver->neverRelease();
    return;
  }
  for (void *page : pages)
    driver->freeHost(page).ignore();
  if (stopped)
    driver->free(stopped).ignore();
  clock.close();
}

void DeviceState::addPoller(const void *owner, std::function<Status()> poller) {
  std::lock_guard<std::mutex> lock(pollerMutex);
  pollers[owner] = std::move(poller);
}

void DeviceState::removePoller(const void *owner) {
  std::lock_guard<std::mutex> lock(pollerMutex);
  pollers.erase(owner);
}

Status DeviceState::poll() {
  std::lock_guard<std::mutex> lock(pollerMutex);
  for (const auto &[owner, poller] : pollers)
    TANDEM_RETURN_IF_ERROR(poller());
  return Status();
}

void Backoff::pause() {
  // A sleep ends about 50 us late (timer slack and wake-up), so it must be short compared with the
  // time waited so far. Waits of a few milliseconds spin, as in the vendor's library.
  auto waited = Clock::now() - start;
  if (waited < std::chrono::milliseconds(5))
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(
        std::min<Clock::duration>(waited / 100, std::chrono::milliseconds(1)));
}

} // namespace tandem::gpu
