//===- Printable.h - escape control characters ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_PRINTABLE_H
#define TANDEM_PROGRAM_PRINTABLE_H

#include <string>
#include <string_view>

namespace tandem {

/// Makes a message safe for a terminal. A name in a program, or a message of another process, could
/// clear the screen. Control characters (ASCII, and U+0080 to U+009F in UTF-8) become \x1b and the
/// like. Newlines and tabs stay, but not in a name, which could forge a line with them.
inline std::string escapeControls(std::string_view text, bool isName = false) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    bool isLate = byte == 0xc2 && i + 1 < text.size() && // the first byte of U+0080 to U+00BF
                  static_cast<unsigned char>(text[i + 1]) < 0xa0 &&
                  static_cast<unsigned char>(text[i + 1]) >= 0x80;
    if (isLate)
      byte = static_cast<unsigned char>(text[++i]);
    bool isControl = byte == 0x7f || (byte < ' ' && (isName || (byte != '\n' && byte != '\t')));
    if (isLate || isControl) {
      result += "\\x";
      result += digits[byte >> 4];
      result += digits[byte & 15];
    } else {
      result += text[i];
    }
  }
  return result;
}

inline std::string escapeName(std::string_view name) { return escapeControls(name, true); }

} // namespace tandem

#endif // TANDEM_PROGRAM_PRINTABLE_H
