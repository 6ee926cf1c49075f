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
  EXPECT_EQ(escapeControls("\xc3\xa9 \xc2\xb5 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "\xc3\xa9 \xc2\xb5 \xe2\x82\xac \xf0\x9f\x98\x80");
}

TEST(Printable, BytesThatAreNotUtf8AreEscaped) {
  EXPECT_EQ(escapeControls("\x9b"
                           "2J \xff"),
            "\\x9b2J \\xff"); // 9b begins a sequence for terminals of 8 bits
  EXPECT_EQ(escapeControls("\xc2 \xe2\x82"), "\\xc2 \\xe2\\x82"); // cut off
  EXPECT_EQ(escapeControls("\xc0\x9b \xe0\x82\x9b"),
            "\\xc0\\x9b \\xe0\\x82\\x9b"); // longer than need be
  EXPECT_EQ(escapeControls("\xed\xa0\x80 \xf4\x90\x80\x80"),
            "\\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80"); // no characters
}
