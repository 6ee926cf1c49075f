//===- SharedPrograms.h - programs that a launcher passes to ranks ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_SHAREDPROGRAMS_H
#define TANDEM_RUN_SHAREDPROGRAMS_H

#include "Session.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace tandem::run {

/// Programs that a launcher hands to the ranks that it starts, in memory without a name in any
/// folder: nothing is left behind, however this ends. Back comes how far rank 0 is, which rank 0
/// cannot say any more if a signal ends it.
class SharedPrograms {
public:
  /// Memory that processes inherit which this one starts.
  static Expected<std::unique_ptr<SharedPrograms>>
  create(const std::vector<ProgramBytes> &programs);
  /// What a launcher has made, by its file descriptor, which stays open. The launcher is trusted:
  /// only sizes are looked at.
  static Expected<std::unique_ptr<SharedPrograms>> open(int fd);
  ~SharedPrograms();
  SharedPrograms(const SharedPrograms &) = delete;
  SharedPrograms &operator=(const SharedPrograms &) = delete;

  int fd() const { return file; }
  size_t size() const { return entries.size(); }
  /// A copy; `index` < size().
  Expected<ProgramBytes> program(size_t index) const;

  /// By rank 0, after each program.
  void note(const Tally &tally) const;
  /// What was noted last.
  Tally tally() const;

private:
  struct Head {
    uint64_t count, tally; ///< of rank 0: passed << 32 | failed
  };
  struct Entry {
    uint64_t offset, size; ///< of the bytes, or of the problem
    uint64_t isProgram;
  };
  SharedPrograms(int fd, bool owned) : file(fd), owned(owned) {}

  int file; ///< a Head, the entries, then the bytes
  bool owned;
  std::vector<Entry> entries;
};

} // namespace tandem::run

#endif // TANDEM_RUN_SHAREDPROGRAMS_H
