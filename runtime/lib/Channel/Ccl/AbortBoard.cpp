//===- AbortBoard.cpp - aborts, announced on a host -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AbortBoard.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <new>
#include <random>
#include <sstream>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tandem::ccl {

struct AbortBoard::Page {
  uint64_t number = 0; ///< identifies the page of an address
  /// 0: no abort; 1: the reason is being written; 2: it is complete.
  std::atomic<uint32_t> said{0};
  char reason[1024] = {};
};

static_assert(std::atomic<uint32_t>::is_always_lock_free, "shared by processes");

void AbortBoard::Unmap::operator()(const Page *page) const {
  ::munmap(const_cast<Page *>(page), sizeof(Page)); // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

/// Equal for processes that see the same processes in /proc; "" if unknown.
static std::string hostName() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  char space[PATH_MAX];
  ssize_t length = ::readlink("/proc/self/ns/pid", space, sizeof space);
  if (boot.empty() || length <= 0)
    return {};
  return boot + " " + std::string(space, static_cast<size_t>(length));
}

AbortBoard::AbortBoard() {
  std::string host = hostName();
  if (host.empty())
    return;
  descriptor = ::memfd_create("tandem", MFD_CLOEXEC);
  if (descriptor < 0 || ::ftruncate(descriptor, sizeof(Page)) != 0)
    return;
  void *memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED)
    return;
  own = new (memory) Page;
  std::random_device random;
  own->number = uint64_t(random()) << 32 | random();
  where = fmt::format("{} {} {} {}", host, own->number, ::getpid(), descriptor);
}

AbortBoard::~AbortBoard() {
  if (own)
    Unmap()(own);
  if (descriptor >= 0)
    ::close(descriptor);
}

AbortBoard::PagePtr AbortBoard::open(const std::string &address) {
  std::string host = hostName();
  if (host.empty() || address.compare(0, host.size(), host) != 0)
    return nullptr;
  uint64_t number = 0;
  int process = 0, file = 0;
  std::istringstream rest(address.substr(host.size()));
  if (!(rest >> number >> process >> file))
    return nullptr;
  // The descriptor may be something else by now: opening must not block.
  std::string path = fmt::format("/proc/{}/fd/{}", process, file);
  int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (opened < 0)
    return nullptr;
  struct stat about = {};
  void *memory = MAP_FAILED;
  if (::fstat(opened, &about) == 0 && S_ISREG(about.st_mode) &&
      about.st_size >= static_cast<off_t>(sizeof(Page)))
    memory = ::mmap(nullptr, sizeof(Page), PROT_READ, MAP_SHARED, opened, 0);
  ::close(opened);
  if (memory == MAP_FAILED)
    return nullptr;
  PagePtr page(static_cast<const Page *>(memory));
  return page->number == number ? std::move(page) : nullptr;
}

void AbortBoard::connect(const std::vector<std::string> &members) {
  for (const std::string &member : members)
    others.push_back(member == where ? nullptr : open(member));
  isConnected = true;
}

void AbortBoard::post(const std::string &reason) {
  uint32_t nothing = 0;
  if (!own || !own->said.compare_exchange_strong(nothing, 1))
    return;
  size_t length = std::min(reason.size(), sizeof own->reason - 1);
  std::memcpy(own->reason, reason.data(), length);
  own->said.store(2, std::memory_order_release);
}

std::optional<AbortBoard::Abort> AbortBoard::firstAbort() const {
  for (uint32_t member = 0; isConnected && member < others.size(); ++member)
    if (const Page *page = others[member].get())
      if (page->said.load(std::memory_order_acquire) == 2)
        return Abort{member,
                     std::string(page->reason, ::strnlen(page->reason, sizeof page->reason))};
  return std::nullopt;
}

} // namespace tandem::ccl
