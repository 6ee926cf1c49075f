//===- SharedPrograms.cpp - programs that a launcher passes to ranks --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedPrograms.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::run;

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

Expected<std::unique_ptr<SharedPrograms>>
SharedPrograms::create(const std::vector<ProgramBytes> &programs) {
  int fd = ::memfd_create("programs", 0);
  if (fd < 0)
    return systemError("memfd_create");
  std::unique_ptr<SharedPrograms> self(new SharedPrograms(fd, true));
  uint64_t end = sizeof(Head) + programs.size() * sizeof(Entry);
  for (const ProgramBytes &program : programs) {
    bool isProgram = program.problem.empty();
    const std::string &text = isProgram ? program.bytes : program.problem;
    TANDEM_RETURN_IF_ERROR(transfer(::pwrite, "pwrite", fd, text.data(), text.size(), end));
    self->entries.push_back({end, text.size(), isProgram});
    end += text.size();
  }
  Head head{programs.size(), 0};
  std::string start(reinterpret_cast<const char *>(&head), sizeof head);
  start.append(reinterpret_cast<const char *>(self->entries.data()),
               self->entries.size() * sizeof(Entry));
  TANDEM_RETURN_IF_ERROR(transfer(::pwrite, "pwrite", fd, start.data(), start.size(), 0));
  return self;
}

Expected<std::unique_ptr<SharedPrograms>> SharedPrograms::open(int fd) {
  struct stat info{};
  if (::fstat(fd, &info))
    return systemError("fstat");
  auto size = static_cast<uint64_t>(info.st_size);
  Head head{};
  Status torn(Code::InvalidArgument,
              fmt::format("handing over programs: file descriptor {} holds none", fd));
  if (size < sizeof(Head))
    return torn;
  TANDEM_RETURN_IF_ERROR(
      transfer(::pread, "pread", fd, reinterpret_cast<char *>(&head), sizeof head, 0));
  if (head.count > (size - sizeof(Head)) / sizeof(Entry))
    return torn;
  std::unique_ptr<SharedPrograms> self(new SharedPrograms(fd, false));
  self->entries.resize(head.count);
  TANDEM_RETURN_IF_ERROR(transfer(::pread, "pread", fd,
                                  reinterpret_cast<char *>(self->entries.data()),
                                  head.count * sizeof(Entry), sizeof(Head)));
  for (const Entry &entry : self->entries)
    if (entry.offset > size || entry.size > size - entry.offset)
      return torn;
  return self;
}

SharedPrograms::~SharedPrograms() {
  if (owned)
    ::close(file);
}

Expected<ProgramBytes> SharedPrograms::program(size_t index) const {
  if (index >= entries.size()) // as a rank may have noted it
    return Status(Code::InvalidArgument,
                  fmt::format("handing over programs: no program {} of {}", index, entries.size()));
  const Entry &entry = entries[index];
  std::string text(entry.size, '\0');
  TANDEM_RETURN_IF_ERROR(transfer(::pread, "pread", file, text.data(), text.size(), entry.offset));
  return entry.isProgram ? ProgramBytes{std::move(text), ""} : ProgramBytes{"", std::move(text)};
}

void SharedPrograms::note(const Tally &tally) const {
  uint64_t both = uint64_t(tally.passed) << 32 | tally.failed;
  transfer(::pwrite, "pwrite", file, reinterpret_cast<const char *>(&both), sizeof both,
           offsetof(Head, tally))
      .ignore(); // then the launcher knows of one program less
}

Tally SharedPrograms::tally() const {
  uint64_t both = 0;
  transfer(::pread, "pread", file, reinterpret_cast<char *>(&both), sizeof both,
           offsetof(Head, tally))
      .ignore();
  return {static_cast<uint32_t>(both >> 32), static_cast<uint32_t>(both)};
}
