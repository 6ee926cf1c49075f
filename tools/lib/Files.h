//===- Files.h - files of tools ---------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_FILES_H
#define TANDEM_RUN_FILES_H

#include "tandem/Program/Status.h"

#include <functional>
#include <string>
#include <string_view>

namespace tandem::run {

/// All of a file. Errors name the path.
Expected<std::string> readFile(const std::string &path);
/// Whoever reads the path meanwhile finds the old bytes or the new ones, never a part; what is no
/// regular file (a pipe, /dev/stdout) is written in place.
Status writeFile(const std::string &path, std::string_view bytes);
/// Whether writeFile() has a chance: an error if the path is a folder, may not be written or lies
/// in no folder. Changes nothing.
Status checkWritable(const std::string &path);

/// An empty folder of that name. Files of one that is there are removed if all that it holds are
/// regular files whose names are `ours`; else an error, and nothing is touched.
Status makeFolderAnew(const std::string &path,
                      const std::function<bool(const std::string &)> &ours);

} // namespace tandem::run

#endif // TANDEM_RUN_FILES_H
