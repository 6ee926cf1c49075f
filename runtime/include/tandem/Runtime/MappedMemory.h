//===- MappedMemory.h - host memory of several processes --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_MAPPEDMEMORY_H
#define TANDEM_RUNTIME_MAPPEDMEMORY_H

#include "tandem/Program/Status.h"

#include <cstdint>
#include <memory>

namespace tandem {

/// A block of host memory that other processes of this host can map: the CPU device's memory of
/// MemoryKind::Symmetric. It has no name in any file system (memfd_create), so nothing stays behind
/// when processes end. What another process has mapped stays valid after the owner has freed it or
/// has died. Thread-safe.
class MappedMemory {
public:
  /// What another process needs to map a block.
  struct Handle {
    int64_t pid = 0; ///< of the owner; 0: none
    int64_t fd = -1; ///< in the owner
    uint64_t device = 0, inode = 0;
    uint64_t bytes = 0;
  };

  /// `bytes` of zeros, at the start of a page. Unsupported where the system has no such memory,
  /// OutOfMemory if there is not enough.
  static Expected<std::shared_ptr<MappedMemory>> allocate(uint64_t bytes);
  /// The block of this process that begins at `base`; null: there is none.
  static std::shared_ptr<MappedMemory> find(const void *base);
  /// The block of another process, which has not freed it yet, mapped once in this one. An error,
  /// with the cause, where the system does not let this process do so.
  static Expected<std::shared_ptr<MappedMemory>> map(const Handle &handle);
  ~MappedMemory();
  MappedMemory(const MappedMemory &) = delete;
  MappedMemory &operator=(const MappedMemory &) = delete;

  void *base() const { return memory; }
  const Handle &handle() const { return where; }

private:
  MappedMemory() = default;
  Status mapFile(int fd, uint64_t bytes);

  void *memory = nullptr;
  Handle where; ///< pid 0, fd -1 unless this process owns the block
};

} // namespace tandem

#endif // TANDEM_RUNTIME_MAPPEDMEMORY_H
