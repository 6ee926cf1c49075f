//===- SharedPrograms.cpp - programs that a launcher passes to ranks --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedPrograms.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::run;

/// At the beginning; `count` entries and then the bytes follow.
struct SharedPrograms::Head {
  uint64_t count;
  /// Of rank 0, in one number: nobody sees a half of it.
  std::atomic<uint64_t> tally;
};

struct SharedPrograms::Entry {
  uint64_t offset, size; ///< of the bytes, or of the problem
  uint64_t isProgram;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes share it");

static Status systemError(const char *what) {
  return Status(Code::Io, fmt::format("handing over programs: {}: {}", what, std::strerror(errno)));
}

/// The whole of `text` at `offset`, by ::pwrite or ::pread, which may do a part.
template <typename Transfer, typename Text>
static Status transfer(Transfer part, const char *what, int fd, Text *text, uint64_t size,
                       uint64_t offset) {
  for (uint64_t done = 0; done < size;) {
    ssize_t n = part(fd, text + done, size - done, static_cast<off_t>(offset + done));
    if (n == 0 || (n < 0 && errno != EINTR))
      return systemError(what);
    done += n > 0 ? static_cast<uint64_t>(n) : 0;
  }
  return Status();
}

SharedPrograms::Entry *SharedPrograms::entries() const {
  return reinterpret_cast<Entry *>(head + 1);
}

Expected<std::unique_ptr<SharedPrograms>>
SharedPrograms::create(const std::vector<ProgramBytes> &programs) {
  int fd = ::memfd_create("programs", 0);
  if (fd < 0)
    return systemError("memfd_create");
  std::unique_ptr<SharedPrograms> self(new SharedPrograms(fd));
  self->owned = true;
  uint64_t end = sizeof(Head) + programs.size() * sizeof(Entry);
  // A page that there is no memory for would be a signal when it is touched; here it is an error.
  if (int error = ::posix_fallocate(fd, 0, static_cast<off_t>(end))) {
    errno = error;
    return systemError("posix_fallocate");
  }
  TANDEM_RETURN_IF_ERROR(self->map(programs.size()));
  self->head->count = programs.size();
  for (size_t i = 0; i < programs.size(); ++i) {
    bool isProgram = programs[i].problem.empty();
    const std::string &text = isProgram ? programs[i].bytes : programs[i].problem;
    TANDEM_RETURN_IF_ERROR(transfer(::pwrite, "pwrite", fd, text.data(), text.size(), end));
    self->entries()[i] = {end, text.size(), isProgram};
    end += text.size();
  }
  return self;
}

Expected<std::unique_ptr<SharedPrograms>> SharedPrograms::open(int fd) {
  struct stat info{};
  if (::fstat(fd, &info))
    return systemError("fstat");
  auto size = static_cast<uint64_t>(info.st_size);
  uint64_t count = 0;
  Status torn(Code::InvalidArgument,
              fmt::format("handing over programs: file descriptor {} holds none", fd));
  if (size < sizeof(Head))
    return torn;
  TANDEM_RETURN_IF_ERROR(
      transfer(::pread, "pread", fd, reinterpret_cast<char *>(&count), sizeof count, 0));
  if (count > (size - sizeof(Head)) / sizeof(Entry))
    return torn;
  std::unique_ptr<SharedPrograms> self(new SharedPrograms(fd));
  TANDEM_RETURN_IF_ERROR(self->map(count));
  for (size_t i = 0; i < count; ++i) {
    const Entry &entry = self->entries()[i];
    if (entry.offset > size || entry.size > size - entry.offset)
      return torn;
  }
  return self;
}

Status SharedPrograms::map(size_t count) {
  mapped = sizeof(Head) + count * sizeof(Entry);
  void *memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED)
    return systemError("mmap");
  head = static_cast<Head *>(memory);
  return Status();
}

SharedPrograms::~SharedPrograms() {
  if (head)
    ::munmap(head, mapped);
  if (owned)
    ::close(file);
}

size_t SharedPrograms::size() const { return head->count; }

Expected<ProgramBytes> SharedPrograms::program(size_t index) const {
  const Entry &entry = entries()[index];
  std::string text(entry.size, '\0');
  TANDEM_RETURN_IF_ERROR(transfer(::pread, "pread", file, text.data(), text.size(), entry.offset));
  return entry.isProgram ? ProgramBytes{std::move(text), ""} : ProgramBytes{"", std::move(text)};
}

void SharedPrograms::note(const Tally &tally) {
  head->tally = uint64_t(tally.passed) << 32 | tally.failed;
}

Tally SharedPrograms::tally() const {
  uint64_t both = head->tally;
  return {static_cast<uint32_t>(both >> 32), static_cast<uint32_t>(both)};
}
