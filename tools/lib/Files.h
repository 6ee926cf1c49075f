//===- Files.h - files of tools ---------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_FILES_H
#define TANDEM_RUN_FILES_H

#include "tandem/Program/Files.h"

#include <functional>
#include <string>
#include <string_view>

namespace tandem::run {

/// All of a regular file. Errors name the path.
Expected<std::string> readFile(const std::string &path);
using tandem::replaceFile;
using tandem::writeFile;
/// Whether writeFile() has a chance: an error if the path is a folder, may not be written or lies
/// in no folder, or if the disk is full. Leaves everything as it was.
Status checkWritable(const std::string &path);

/// An empty folder of that name. Files of one that is there are removed if all that it holds are
/// regular files whose names are `ours`; else an error, and nothing is touched.
Status makeFolderAnew(const std::string &path,
                      const std::function<bool(const std::string &)> &ours);

} // namespace tandem::run

#endif // TANDEM_RUN_FILES_H
