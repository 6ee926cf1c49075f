//===- Files.cpp - reading and replacing files ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Files.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <memory>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace tandem;
namespace fs = std::filesystem;

static Status failed(const char *why) { return Status(Code::Io, why); }

/// All that can be read; `size`: about so many bytes.
static Expected<std::string> readToEnd(int fd, uint64_t size, uint64_t most) {
  try {
    std::string bytes;
    for (size_t used = 0; size <= most;) {
      if (used == bytes.size()) // files of /proc have a size of 0
        bytes.resize(std::max<size_t>(size, used) + std::max<size_t>(used, 4096));
      ssize_t read = ::read(fd, bytes.data() + used, bytes.size() - used);
      if (read < 0 && errno != EINTR)
        return failed(std::strerror(errno));
      used += static_cast<size_t>(std::max<ssize_t>(read, 0));
      if (read == 0) {
        bytes.resize(used);
        return bytes;
      }
      size = std::max<uint64_t>(size, used);
    }
  } catch (const std::bad_alloc &) {
    return Status(Code::OutOfMemory, fmt::format("no memory for {} bytes", size));
  }
  return Status(Code::Io, fmt::format("expected at most {} bytes, found more", most));
}

Expected<std::string> tandem::readWhole(const std::string &path, uint64_t most) {
  // Opening a pipe must not wait for its writer.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info{};
  if (fd < 0 || ::fstat(fd, &info) != 0)
    return failed(std::strerror(errno));
  auto close = [](const int *open) { ::close(*open); };
  std::unique_ptr<int, decltype(close)> closed(&fd, close);
  if (S_ISDIR(info.st_mode))
    return failed(std::strerror(EISDIR));
  if (!S_ISREG(info.st_mode))
    return failed("not a regular file");
  return readToEnd(fd, static_cast<uint64_t>(info.st_size), most);
}

Expected<std::string> tandem::readStandardInput(uint64_t most) {
  return readToEnd(STDIN_FILENO, 0, most);
}

bool tandem::isEndless(const std::string &path) {
  for (const char *fine : {"/dev/stdin", "/dev/fd/", "/dev/null"})
    if (path.rfind(fine, 0) == 0)
      return false;
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

FileSizeErrors::FileSizeErrors() {
  sigemptyset(&signal);
  sigaddset(&signal, SIGXFSZ);
  ::pthread_sigmask(SIG_BLOCK, &signal, &before);
}

FileSizeErrors::~FileSizeErrors() {
  if (sigismember(&before, SIGXFSZ) == 1)
    return;
  int reason = errno;
  const timespec now{};
  while (::sigtimedwait(&signal, nullptr, &now) == SIGXFSZ) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = reason;
}

static Status cannotWrite(const std::string &path, const std::string &why) {
  return Status(Code::Io, fmt::format("cannot write \"{}\": {}", path, why));
}

Status tandem::writeFile(const std::string &path, std::string_view bytes) {
  return replaceFile(path, [&](const std::string &part) {
    errno = 0;
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    return file ? Status() : cannotWrite(part, std::strerror(errno));
  });
}

/// The link of /proc that a path names, perhaps by way of others, as /dev/stdout does; empty if it
/// names none. What is open there has a name by chance, or none.
static fs::path findOpenLink(fs::path path) {
  std::error_code error;
  for (int links = 0; links < 40 && !error; ++links) { // as many as Linux follows
    fs::path folder = path.parent_path();
    fs::path link = fs::canonical(folder.empty() ? "." : folder, error) / path.filename();
    fs::path next = fs::read_symlink(link, error);
    if (!error && link.string().rfind("/proc/", 0) == 0)
      return link;
    path = folder / next;
  }
  return {};
}

/// Writes what `write` makes at the position of an open file, after what others have written.
static Status writeToOpenFile(int file, const std::function<Status(const std::string &)> &write) {
  int part = ::memfd_create("tandem", MFD_CLOEXEC);
  if (part < 0)
    return failed(std::strerror(errno));
  auto close = [](const int *open) { ::close(*open); };
  std::unique_ptr<int, decltype(close)> closed(&part, close);
  std::string name = fmt::format("/proc/self/fd/{}", part);
  TANDEM_RETURN_IF_ERROR(write(name));
  TANDEM_ASSIGN_OR_RETURN(std::string bytes, readWhole(name, UINT64_MAX));
  std::fflush(nullptr); // what was printed before comes first
  for (size_t done = 0; done < bytes.size();) {
    ssize_t written = ::write(file, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno != EINTR)
      return failed(std::strerror(errno));
    done += static_cast<size_t>(std::max<ssize_t>(written, 0));
  }
  return Status();
}

Status tandem::replaceFile(const std::string &path,
                           const std::function<Status(const std::string &)> &write) {
  FileSizeErrors guard;
  static std::atomic<unsigned> numParts{0}; // threads may write the same file
  std::error_code error;
  fs::path target(path);
  fs::file_status status = fs::status(target, error);
  if (fs::path link = findOpenLink(target); !link.empty()) {
    if (link.parent_path() != fs::canonical("/proc/self/fd", error))
      return write(path); // of another process
    auto open = static_cast<int>(std::strtol(link.filename().c_str(), nullptr, 10));
    Status written = writeToOpenFile(open, write);
    return written.ok() ? written : cannotWrite(path, written.message());
  }
  if (fs::exists(status) && !fs::is_regular_file(status))
    return write(path);
  // What a link points to is replaced, not the link.
  if (fs::path real = fs::canonical(target, error); !error)
    target = real;
  fs::path part = fmt::format("{}.{}.{}.tmp", target.string(), ::getpid(), ++numParts);
  if (!std::ofstream(part, std::ios::binary | std::ios::trunc)) // a folder without other files
    return write(path);
  Status written = write(part.string());
  if (!written.ok()) {
    std::string message = written.message();
    if (size_t at = message.find(part.string()); at != std::string::npos)
      message.replace(at, part.string().size(), path);
    written = Status(written.code(), message);
  } else if (fs::rename(part, target, error); error) {
    written = cannotWrite(path, error.message());
  }
  if (!written.ok())
    fs::remove(part, error);
  return written;
}
