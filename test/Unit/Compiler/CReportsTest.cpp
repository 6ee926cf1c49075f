//===- CReportsTest.cpp - reports about programs in the C API ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Compiler.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>

namespace {

using testing::HasSubstr;
using testing::Not;

const char *const kReportedText = R"mlir(
#tp = #tandem.mesh<"tp", ["x" = 4]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#whole = #fusion.axes<#tp, [-, -]>
func.func @product(%a: tensor<4096x1024xbf16, #rows>, %b: tensor<1024x1024xbf16, #whole>) -> tensor<4096x1024xbf16, #whole> {
  %0 = fusion.matmul %a, %b : tensor<4096x1024xbf16, #rows>, tensor<1024x1024xbf16, #whole> -> tensor<4096x1024xbf16, #whole>
  return %0 : tensor<4096x1024xbf16, #whole>
}
)mlir";

using Compilation = std::unique_ptr<tandem_compilation, decltype(&tandem_compilation_destroy)>;
using Report = std::unique_ptr<tandem_report, decltype(&tandem_report_destroy)>;

struct Bytes {
  explicit Bytes(int certify, uint32_t noCheck = 0)
      : compilation(nullptr, tandem_compilation_destroy) {
    const std::string machine = TANDEM_MACHINES "/h200x4.json";
    tandem_compile_options options = {};
    options.struct_size = sizeof options;
    options.target = "cuda-peer";
    options.machine = machine.c_str();
    options.certify = certify;
    options.no_check = noCheck;
    compilation.reset(
        tandem_compile(kReportedText, std::strlen(kReportedText), "f.mlir", &options));
    data = tandem_compilation_bytes(compilation.get(), &size);
  }

  Compilation compilation;
  const void *data = nullptr;
  size_t size = 0;
};

Report owned(tandem_report *report) { return Report(report, tandem_report_destroy); }
const char *text(const Report &report) {
  return tandem_report_get(report.get(), TANDEM_REPORT_TEXT);
}
const char *asJson(const Report &report) {
  return tandem_report_get(report.get(), TANDEM_REPORT_JSON);
}

TEST(CReports, Explain) {
  Bytes bytes(/*certify=*/1);
  ASSERT_NE(bytes.data, nullptr);
  Report report = owned(tandem_explain_program(bytes.data, bytes.size));
  ASSERT_TRUE(tandem_report_ok(report.get())) << text(report);
  EXPECT_THAT(text(report), HasSubstr("all-gather at f.mlir:6:"));
  EXPECT_THAT(text(report), HasSubstr("predicted: "));
  EXPECT_THAT(asJson(report), HasSubstr("\"properties\": [\n    \"deadlock\""));
  EXPECT_THAT(asJson(report), HasSubstr("\"reshards\": \"all-gather\""));
  EXPECT_THAT(asJson(report), Not(HasSubstr("\"candidates\": []")));
  EXPECT_EQ(tandem_report_get(report.get(), TANDEM_REPORT_SVG), nullptr);
  EXPECT_EQ(tandem_report_get(report.get(), static_cast<tandem_report_form>(7)), nullptr);
}

TEST(CReports, EveryProgramIsProvenOrSaysThatItIsNot) {
  Bytes proven(/*certify=*/0);
  Report report = owned(tandem_explain_program(proven.data, proven.size));
  ASSERT_TRUE(tandem_report_ok(report.get())) << text(report);
  EXPECT_THAT(asJson(report), HasSubstr("\"properties\": [\n    \"deadlock\""));
  EXPECT_THAT(asJson(report), HasSubstr("\"data\": \"sampled"));
  EXPECT_THAT(text(report), Not(HasSubstr("predicted: ")));
  Bytes unproven(/*certify=*/0, /*noCheck=*/1);
  report = owned(tandem_explain_program(unproven.data, unproven.size));
  ASSERT_TRUE(tandem_report_ok(report.get())) << text(report);
  EXPECT_THAT(text(report), HasSubstr("nothing was proven"));
  EXPECT_THAT(asJson(report), HasSubstr("\"properties\": []"));
  EXPECT_THAT(asJson(report), HasSubstr("not checked: compiled without the check"));
}

TEST(CReports, Check) {
  Bytes bytes(/*certify=*/0);
  tandem_check_options options = {};
  options.struct_size = sizeof options;
  options.lint = 1;
  for (const tandem_check_options *given :
       {(const tandem_check_options *)nullptr, (const tandem_check_options *)&options}) {
    Report report = owned(tandem_check_program(bytes.data, bytes.size, given));
    ASSERT_TRUE(tandem_report_ok(report.get())) << text(report);
    EXPECT_THAT(asJson(report), HasSubstr("\"ok\": true"));
    EXPECT_THAT(text(report), HasSubstr("product"));
  }
  options.struct_size = 1;
  Report report = owned(tandem_check_program(bytes.data, bytes.size, &options));
  EXPECT_FALSE(tandem_report_ok(report.get()));
  EXPECT_THAT(text(report), HasSubstr("struct_size"));
}

TEST(CReports, Simulate) {
  Bytes bytes(/*certify=*/0);
  const std::string machine = TANDEM_MACHINES "/h200x4.json";
  tandem_simulate_options options = {};
  options.struct_size = sizeof options;
  options.machine = machine.c_str();
  Report report = owned(tandem_simulate_program(bytes.data, bytes.size, &options));
  ASSERT_TRUE(tandem_report_ok(report.get())) << text(report);
  EXPECT_THAT(asJson(report), HasSubstr("\"seconds\""));
  EXPECT_THAT(tandem_report_get(report.get(), TANDEM_REPORT_SVG), HasSubstr("<svg"));
  options.machine = "/nowhere.json";
  Report unknown = owned(tandem_simulate_program(bytes.data, bytes.size, &options));
  EXPECT_FALSE(tandem_report_ok(unknown.get()));
  EXPECT_THAT(text(unknown), HasSubstr("/nowhere.json"));
  Report none = owned(tandem_simulate_program(bytes.data, bytes.size, nullptr));
  EXPECT_FALSE(tandem_report_ok(none.get()));
  EXPECT_THAT(text(none), HasSubstr("expected a machine file"));
}

TEST(CReports, Choose) {
  Bytes bytes(/*certify=*/1), withoutTime(/*certify=*/0);
  const std::string machine = TANDEM_MACHINES "/h200x4.json";
  const void *programs[] = {bytes.data, bytes.data, withoutTime.data};
  const size_t sizes[] = {bytes.size, bytes.size, withoutTime.size};
  // MachineTest has the rule.
  EXPECT_EQ(tandem_choose_program(programs, sizes, 2, machine.c_str()), 0u); // it gains nothing
  EXPECT_EQ(tandem_choose_program(programs, sizes, 3, machine.c_str()), 0u);
  EXPECT_EQ(tandem_choose_program(programs, sizes, 2, "/nowhere.json"), 0u);
  EXPECT_EQ(tandem_choose_program(programs, sizes, 2, nullptr), 0u);
}

TEST(CReports, FindMachine) {
  char name[16] = "x";
  EXPECT_STREQ(tandem_find_machine("NVIDIA H200", 3, name, sizeof name), "h200x4");
  EXPECT_STREQ(tandem_find_machine("NVIDIA H200", 3, name, 6), ""); // does not fit
  EXPECT_STREQ(tandem_find_machine("NVIDIA H200", 3, name, 7), "h200x4");
  EXPECT_STREQ(tandem_find_machine("unknown", 3, name, sizeof name), "");
  EXPECT_EQ(tandem_find_machine("unknown", 3, nullptr, 0), nullptr);
}

TEST(CReports, NoProgram) {
  Report reports[] = {owned(tandem_explain_program("nothing", 7)),
                      owned(tandem_check_program("nothing", 7, nullptr)),
                      owned(tandem_explain_program(nullptr, 0))};
  for (const Report &report : reports) {
    EXPECT_FALSE(tandem_report_ok(report.get()));
    EXPECT_STRNE(text(report), "");
    EXPECT_EQ(asJson(report), nullptr);
  }
}

} // namespace
