//===- Files.h - reading and replacing files --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_FILES_H
#define TANDEM_PROGRAM_FILES_H

#include "tandem/Program/Status.h"

#include <csignal>
#include <functional>
#include <string>
#include <string_view>

namespace tandem {

/// More than any text and any stream program that is read as a whole.
inline constexpr uint64_t kMostTextBytes = uint64_t(1) << 30, kMostFileBytes = uint64_t(4) << 30;

/// All of a regular file of at most `most` bytes: a pipe or a device may never end. Waits for
/// nothing. The error (Io, OutOfMemory) is the reason alone, without the path.
Expected<std::string> readWhole(const std::string &path, uint64_t most = kMostTextBytes);

/// The same for the standard input, which may be a pipe: until its end.
Expected<std::string> readStandardInput(uint64_t most = kMostTextBytes);

/// Is it a pipe or a device that may never end? Not those that the shell has opened (/dev/stdin,
/// /dev/fd/63), nor /dev/null.
bool isEndless(const std::string &path);

/// Replaces a file. Readers find the old bytes or the new ones, never a part, and an error (a full
/// disk, a limit of the file's size) leaves the old ones. A path that is no regular file (a pipe)
/// is written in place, and what is open (/dev/stdout, /dev/fd/3) after what has been written to
/// it. The error (Io) names the path.
Status writeFile(const std::string &path, std::string_view bytes);
/// The same, by a function that writes the file of the given name. An error of it may name that
/// file.
Status replaceFile(const std::string &path,
                   const std::function<Status(const std::string &)> &write);

/// While it exists, a write beyond the limit of files' sizes (ulimit -f) is an error (EFBIG) on
/// this thread, and not the end of the process.
class FileSizeErrors {
public:
  FileSizeErrors();
  ~FileSizeErrors();
  FileSizeErrors(const FileSizeErrors &) = delete;
  FileSizeErrors &operator=(const FileSizeErrors &) = delete;

private:
  sigset_t signal, before;
};

} // namespace tandem

#endif // TANDEM_PROGRAM_FILES_H
