//===- DiagnosticsTest.cpp - diagnostics as values --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Compiler/Compiler.h"

#include <gtest/gtest.h>

using namespace tandem::compiler;

namespace {

CompileResult refused(const std::string &text, const CompileOptions &options = {}) {
  CompileResult result = compileText(text, options, "bad.mlir");
  EXPECT_FALSE(result);
  EXPECT_TRUE(result.output.empty());
  EXPECT_FALSE(result.diagnostics.empty());
  if (result.diagnostics.empty())
    result.diagnostics.push_back({});
  return result;
}

TEST(Diagnostics, AsText) {
  Diagnostic d;
  d.message = "wrong";
  EXPECT_EQ(d.str(), "error: wrong");
  d.file = "f.mlir";
  EXPECT_EQ(d.str(), "f.mlir: error: wrong");
  d.line = 3;
  d.column = 5;
  d.severity = Severity::Warning;
  d.notes.push_back({Severity::Note, "there", "g.mlir", 1, 2, {}});
  EXPECT_EQ(d.str(), "f.mlir:3:5: warning: wrong\ng.mlir:1:2: note: there");
}

TEST(Diagnostics, Syntax) {
  CompileResult result = refused("func.func @f(%a: tensor<4xf32>) {\n  return %b\n}\n");
  EXPECT_EQ(result.diagnostics[0].severity, Severity::Error);
  EXPECT_EQ(result.diagnostics[0].file, "bad.mlir");
  EXPECT_EQ(result.diagnostics[0].line, 2u);
  EXPECT_GT(result.diagnostics[0].column, 0u);
}

TEST(Diagnostics, NotTextAtAll) {
  refused(std::string("\0\1\2\xff", 4));
  refused("");
  refused("ML\xefR rest of bytecode");
  refused(std::string(1 << 16, '('));
}

TEST(Diagnostics, OnceForTheFunctionAndItsReference) {
  CompileResult result = refused(R"mlir(
#m = #tandem.mesh<"m", ["x" = 2]>
!t = tensor<8xf32, #fusion.axes<#m, [didx("x")]>>
func.func @f(%a: !t) -> !t {
  %0 = math.cbrt %a : !t
  return %0 : !t
}
)mlir");
  EXPECT_EQ(result.diagnostics.size(), 1u) << result.errorText();
  EXPECT_EQ(result.diagnostics[0].line, 5u);
}

TEST(Diagnostics, UnknownDialect) {
  CompileResult result = refused("\"toy.op\"() : () -> ()\n");
  EXPECT_NE(result.errorText().find(
                "bad.mlir:1:9: error: operation being parsed with an unregistered dialect"),
            std::string::npos)
      << result.errorText();
}

TEST(Diagnostics, EntryWithNotes) {
  CompileOptions options;
  options.entry = "h";
  CompileResult result =
      refused("func.func @f() {\n  return\n}\nfunc.func private @g() {\n  return\n}\n", options);
  EXPECT_EQ(result.diagnostics[0].message, "no function @h");
  ASSERT_EQ(result.diagnostics[0].notes.size(), 2u);
  EXPECT_EQ(result.diagnostics[0].notes[0].severity, Severity::Note);
  EXPECT_EQ(result.diagnostics[0].notes[0].message, "found @f");
  EXPECT_EQ(result.diagnostics[0].notes[1].line, 4u);
}

TEST(Diagnostics, NoFile) {
  CompileResult result = compileFile("/nonexistent/x.mlir");
  EXPECT_FALSE(result);
  EXPECT_EQ(result.errorText(),
            "/nonexistent/x.mlir: error: cannot read: No such file or directory");
}

TEST(Diagnostics, MeshSizesThatNobodyGave) {
  CompileResult result = refused("#tp = #tandem.mesh<\"tp\", [\"x\" = ?]>\n"
                                 "func.func @f(%a: tensor<8xf32, #fusion.axes<#tp, "
                                 "[didx(\"x\")]>>) -> tensor<8xf32, #fusion.axes<#tp, [-]>> {\n"
                                 "  %0 = fusion.reshard %a : tensor<8xf32, #fusion.axes<#tp, "
                                 "[didx(\"x\")]>> -> tensor<8xf32, #fusion.axes<#tp, [-]>>\n"
                                 "  return %0 : tensor<8xf32, #fusion.axes<#tp, [-]>>\n}\n");
  EXPECT_NE(result.errorText().find("bad.mlir:2"), std::string::npos) << result.errorText();
}

TEST(Diagnostics, RemarksOnRequest) {
  CompileOptions options;
  options.log = true;
  CompileResult result = compileText("#tp = #tandem.mesh<\"tp\", [\"x\" = 2]>\n"
                                     "func.func @f(%a: tensor<8xf32, #fusion.axes<#tp, "
                                     "[didx(\"x\")]>>) -> tensor<8xf32, #fusion.axes<#tp, [-]>> {\n"
                                     "  %0 = fusion.reshard %a : tensor<8xf32, #fusion.axes<#tp, "
                                     "[didx(\"x\")]>> -> tensor<8xf32, #fusion.axes<#tp, [-]>>\n"
                                     "  return %0 : tensor<8xf32, #fusion.axes<#tp, [-]>>\n}\n",
                                     options);
  ASSERT_TRUE(result) << result.errorText();
  ASSERT_FALSE(result.diagnostics.empty());
  EXPECT_EQ(result.diagnostics[0].severity, Severity::Remark);
  EXPECT_EQ(result.errorText(), "");
}

} // namespace
