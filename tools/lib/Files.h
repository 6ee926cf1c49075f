//===- Files.h - files of tools ---------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_FILES_H
#define TANDEM_RUN_FILES_H

#include "tandem/Runtime/Status.h"

#include <string>
#include <string_view>

namespace tandem::run {

/// All of a file. Errors name the path.
Expected<std::string> readFile(const std::string &path);
Status writeFile(const std::string &path, std::string_view bytes);

/// An empty folder of that name. One that is there is emptied if it holds `mark`, a file that says
/// whose it is, or nothing; else an error.
Status makeFolderAnew(const std::string &path, const std::string &mark);

} // namespace tandem::run

#endif // TANDEM_RUN_FILES_H
