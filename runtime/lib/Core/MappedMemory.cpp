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
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tandem {

namespace {

struct Blocks {
  std::mutex mutex;
  std::map<const void *, std::weak_ptr<MappedMemory>> owned;
  /// By device and inode: instances share a block, and each has channels.
  std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<MappedMemory>> mapped;
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
  // By default Linux refuses private memory of more than it has, but not this kind: it would kill
  // processes when the pages are written.
  void *alike = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (alike == MAP_FAILED)
    return failed("mmap");
  ::munmap(alike, bytes);
  // The limit ends a process that asks for a larger file.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur)
    return Status(Code::Unsupported, fmt::format("files may have {} bytes", limit.rlim_cur));
  // Some systems refuse files that could be executed; older ones do not know the flag.
  constexpr unsigned kNoExecSeal = 8; // MFD_NOEXEC_SEAL
  int fd = ::memfd_create("tandem", MFD_CLOEXEC | kNoExecSeal);
  if (fd < 0 && errno == EINVAL)
    fd = ::memfd_create("tandem", MFD_CLOEXEC);
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
  // A block takes the mutex when it ends, so these end after `lock`.
  std::shared_ptr<MappedMemory> earlier, block(new MappedMemory);
  std::lock_guard<std::mutex> lock(blocks().mutex);
  std::weak_ptr<MappedMemory> &known = blocks().mapped[{handle.device, handle.inode}];
  earlier = known.lock();
  if (earlier && earlier->where.bytes >= handle.bytes)
    return earlier;
  std::string path = fmt::format("/proc/{}/fd/{}", handle.pid, handle.fd);
  auto isIt = [&](const struct stat &file) {
    return file.st_dev == handle.device && file.st_ino == handle.inode &&
           static_cast<uint64_t>(file.st_size) >= handle.bytes;
  };
  struct stat file{};
  if (::stat(path.c_str(), &file) != 0)
    return failed(path.c_str());
  // To open another file could have effects.
  int fd = isIt(file) ? ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
  if (fd < 0 && isIt(file))
    return failed(path.c_str());
  if (fd < 0 || ::fstat(fd, &file) != 0 || !isIt(file)) {
    if (fd >= 0)
      ::close(fd);
    return Status(Code::Io, path + ": refers to another file");
  }
  Status mapped = block->mapFile(fd, handle.bytes).withPrefix(path + ": ");
  ::close(fd); // the mapping keeps the memory
  TANDEM_RETURN_IF_ERROR(mapped);
  block->where.device = handle.device;
  block->where.inode = handle.inode;
  known = block;
  return block;
}

MappedMemory::~MappedMemory() {
  auto forget = [](auto &all, const auto &key) {
    auto found = all.find(key);
    if (found != all.end() && found->second.expired())
      all.erase(found);
  };
  {
    std::lock_guard<std::mutex> lock(blocks().mutex);
    if (where.pid)
      forget(blocks().owned, static_cast<const void *>(memory));
    else
      forget(blocks().mapped, std::pair(where.device, where.inode));
  }
  if (memory)
    ::munmap(memory, where.bytes);
  if (where.fd >= 0)
    ::close(where.fd);
}

} // namespace tandem
