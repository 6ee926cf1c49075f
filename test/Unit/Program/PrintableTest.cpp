//===- PrintableTest.cpp - texts of others for a terminal -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Printable.h"

#include <gtest/gtest.h>

using tandem::escapeControls;

TEST(Printable, ControlsAreEscaped) {
  EXPECT_EQ(escapeControls("\x1b[2Jx\r\x7f"), "\\x1b[2Jx\\x0d\\x7f");
  EXPECT_EQ(escapeControls(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(escapeControls("\xc2\x9b"
                           "2J"),
            "\\x9b2J"); // U+009B begins a sequence, too
}

TEST(Printable, NamesHaveOneLine) {
  EXPECT_EQ(tandem::escapeName("a\nb\t\x1b\xc3\xa9"), "a\\x0ab\\x09\\x1b\xc3\xa9");
}

TEST(Printable, TextStays) {
  EXPECT_EQ(escapeControls("lines\n\tand tabulators"), "lines\n\tand tabulators");
  EXPECT_EQ(escapeControls("\xc3\xa9 \xc2\xb5 \xe2\x82\xac \xc2"),
            "\xc3\xa9 \xc2\xb5 \xe2\x82\xac \xc2");
}
