//===- Printable.h - escape control characters ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_PRINTABLE_H
#define TANDEM_PROGRAM_PRINTABLE_H

#include <algorithm>
#include <string>
#include <string_view>

namespace tandem {

/// How many bytes the character at the front of a text has; 0 if it is not UTF-8.
inline size_t sizeOfCharacter(std::string_view text) {
  auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = at(0);
  if (lead < 0x80)
    return 1;
  size_t size = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (size > text.size())
    return 0;
  for (size_t i = 1; i < size; ++i)
    if ((at(i) & 0xc0) != 0x80)
      return 0;
  // Characters that have a shorter form, surrogates, and those above U+10FFFF.
  bool isWrong = (lead == 0xe0 && at(1) < 0xa0) || (lead == 0xed && at(1) >= 0xa0) ||
                 (lead == 0xf0 && at(1) < 0x90) || (lead == 0xf4 && at(1) >= 0x90);
  return isWrong ? 0 : size;
}

/// Makes a message safe for a terminal. A name in a program, or a message of another process, could
/// clear the screen. Control characters (ASCII, and U+0080 to U+009F in UTF-8) and bytes that are
/// not UTF-8 become \x1b and the like. Newlines and tabs stay, but not in a name, which could forge
/// a line with them.
inline std::string escapeControls(std::string_view text, bool isName = false) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0, size = 0; i < text.size(); i += std::max(size, size_t(1))) {
    size = sizeOfCharacter(text.substr(i));
    auto byte = static_cast<unsigned char>(text[i]);
    bool isLate = byte == 0xc2 && size == 2 && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (isLate)
      byte = static_cast<unsigned char>(text[i + 1]);
    bool isControl = byte == 0x7f || (byte < ' ' && (isName || (byte != '\n' && byte != '\t')));
    if (isLate || isControl || size == 0) {
      result += "\\x";
      result += digits[byte >> 4];
      result += digits[byte & 15];
    } else {
      result += text.substr(i, size);
    }
  }
  return result;
}

inline std::string escapeName(std::string_view name) { return escapeControls(name, true); }

} // namespace tandem

#endif // TANDEM_PROGRAM_PRINTABLE_H
