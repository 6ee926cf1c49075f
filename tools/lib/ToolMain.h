//===- ToolMain.h - what every tool does around its work --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TOOLMAIN_H
#define TANDEM_TOOLS_TOOLMAIN_H

#include "tandem/Program/Printable.h"
#include "tandem/Program/Status.h"

#include <cstdio>
#include <fmt/format.h>

#include <functional>

namespace tandem::run {

/// Prints a message, in which names and others' messages have no control characters.
template <typename... Arguments>
void print(std::FILE *to, fmt::format_string<Arguments...> text, Arguments &&...arguments) {
  fmt::print(to, "{}", escapeControls(fmt::format(text, std::forward<Arguments>(arguments)...)));
}
template <typename... Arguments>
void print(fmt::format_string<Arguments...> text, Arguments &&...arguments) {
  run::print(stdout, text, std::forward<Arguments>(arguments)...);
}

/// In a catch block: the exception, as an error.
Status caughtException();

/// Calls `body` and returns its exit code, or `failure` with a message on the standard error if
/// memory runs out, another exception reaches here, or the standard output could not be written.
/// Opens closed standard streams first, so that no file or socket takes their numbers: a closed
/// output then fails like a full one.
int runTool(const char *tool, int failure, const std::function<int()> &body);

} // namespace tandem::run

#endif // TANDEM_TOOLS_TOOLMAIN_H
