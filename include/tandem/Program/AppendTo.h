//===- AppendTo.h - formatted text at the end of a string -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_APPENDTO_H
#define TANDEM_PROGRAM_APPENDTO_H

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <string>

namespace tandem {

/// fmt::format_to for strings. That one is a template over the iterator, which clang compiles anew
/// in each file: half of the time of some.
template <typename... Ts>
void appendTo(std::back_insert_iterator<std::string> out, fmt::format_string<Ts...> format,
              Ts &&...args) {
  std::string text = fmt::vformat(format, fmt::make_format_args(args...));
  std::copy(text.begin(), text.end(), out);
}

} // namespace tandem

#endif // TANDEM_PROGRAM_APPENDTO_H
