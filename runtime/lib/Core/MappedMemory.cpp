//===- MappedMemory.cpp - host memory of several processes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/MappedMemory.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tandem {

namespace {

struct Blocks {
  std::mutex mutex;
  std::map<const void *, std::weak_ptr<MappedMemory>> owned;
};

/// Never destroyed: the last block may be freed when the process ends.
Blocks &blocks() {
  static auto *all = new Blocks;
  return *all;
}

Status failed(const char *what) {
  return Status(errno == ENOMEM || errno == ENOSPC ? Code::OutOfMemory
                : errno == ENOSYS                  ? Code::Unsupported
                                                   : Code::Io,
                fmt::format("{}: {}", what, std::strerror(errno)));
}

} // namespace

Status MappedMemory::mapFile(int fd, uint64_t bytes) {
  void *mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED)
    return failed("mmap");
  memory = mapped;
  where.bytes = bytes;
  return Status();
}

Expected<std::shared_ptr<MappedMemory>> MappedMemory::allocate(uint64_t bytes) {
  std::shared_ptr<MappedMemory> block(new MappedMemory);
  if (bytes == 0 || bytes > uint64_t(std::numeric_limits<off_t>::max()))
    return Status(Code::OutOfMemory, fmt::format("cannot map {} bytes", bytes));
  // Linux refuses private memory that it can never have, but not this kind: it would kill processes
  // when the pages are written.
  void *alike = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (alike == MAP_FAILED)
    return failed("mmap");
  ::munmap(alike, bytes);
  int fd = ::memfd_create("tandem", MFD_CLOEXEC);
  if (fd < 0)
    return failed("memfd_create");
  block->where.fd = fd; // closed with the block
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    return failed("ftruncate");
  struct stat file{};
  if (::fstat(fd, &file) != 0)
    return failed("fstat");
  TANDEM_RETURN_IF_ERROR(block->mapFile(fd, bytes));
  block->where.pid = ::getpid();
  block->where.device = file.st_dev;
  block->where.inode = file.st_ino;
  std::lock_guard<std::mutex> lock(blocks().mutex);
  blocks().owned[block->memory] = block;
  return block;
}

std::shared_ptr<MappedMemory> MappedMemory::find(const void *base) {
  std::lock_guard<std::mutex> lock(blocks().mutex);
  auto found = blocks().owned.find(base);
  return found == blocks().owned.end() ? nullptr : found->second.lock();
}

Expected<std::shared_ptr<MappedMemory>> MappedMemory::map(const Handle &handle) {
  std::string path = fmt::format("/proc/{}/fd/{}", handle.pid, handle.fd);
  int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0)
    return failed(path.c_str());
  std::shared_ptr<MappedMemory> block(new MappedMemory);
  struct stat file{};
  Status mapped;
  if (::fstat(fd, &file) != 0)
    mapped = failed(path.c_str());
  else if (file.st_dev != handle.device || file.st_ino != handle.inode ||
           static_cast<uint64_t>(file.st_size) < handle.bytes)
    mapped = Status(Code::Io, path + ": is another file by now");
  else
    mapped = block->mapFile(fd, handle.bytes).withPrefix(path + ": ");
  ::close(fd); // the mapping keeps the memory
  TANDEM_RETURN_IF_ERROR(mapped);
  return block;
}

MappedMemory::~MappedMemory() {
  if (where.pid) {
    std::lock_guard<std::mutex> lock(blocks().mutex);
    auto found = blocks().owned.find(memory);
    if (found != blocks().owned.end() && found->second.expired())
      blocks().owned.erase(found);
  }
  if (memory)
    ::munmap(memory, where.bytes);
  if (where.fd >= 0)
    ::close(where.fd);
}

} // namespace tandem
