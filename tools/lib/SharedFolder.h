//===- SharedFolder.h - a job's folder of shared memory ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_SHAREDFOLDER_H
#define TANDEM_RUN_SHAREDFOLDER_H

#include <string>

namespace tandem::run {

/// A folder "tandem-XXXXXX" for what ranks share, made in `parent` and removed at the end. It is
/// marked as such, and locked while its owner lives, so that the next one can remove what owners
/// that were killed have left, and nothing else. One thread.
class SharedFolder {
public:
  SharedFolder() = default;
  SharedFolder(const SharedFolder &) = delete;
  SharedFolder &operator=(const SharedFolder &) = delete;
  ~SharedFolder();

  /// Removes folders of this user whose owners have ended, and makes one. path() stays empty where
  /// `parent` cannot be used.
  void make(const std::string &parent = "/dev/shm");
  const std::string &path() const { return folder; }

private:
  std::string folder;
  int lock = -1; ///< a descriptor of the folder, not inherited
};

} // namespace tandem::run

#endif // TANDEM_RUN_SHAREDFOLDER_H
