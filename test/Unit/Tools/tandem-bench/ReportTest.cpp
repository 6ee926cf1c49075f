//===- ReportTest.cpp - figures of tandem-bench -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::bench;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace {

Measurement measured(Role role, const std::string &name, Mode mode, double seconds) {
  Measurement m;
  m.role = role;
  m.name = name;
  m.mode = mode;
  m.seconds = {seconds, seconds, seconds};
  m.host = {seconds / 10, seconds / 10, seconds / 10};
  return m;
}

Measurement refused(const std::string &name, Mode mode, const std::string &why) {
  Measurement m;
  m.name = name;
  m.mode = mode;
  m.refused = why;
  return m;
}

constexpr Case kShape{Op::AllGather, 64, 32, 16, DType::F32};

} // namespace

TEST(Quantiles, LieOnLines) {
  Quantiles one = quantilesOf({3});
  EXPECT_EQ(one.p10, 3);
  EXPECT_EQ(one.median, 3);
  EXPECT_EQ(one.p90, 3);
  Quantiles two = quantilesOf({4, 2});
  EXPECT_DOUBLE_EQ(two.p10, 2.2);
  EXPECT_DOUBLE_EQ(two.median, 3);
  Quantiles many = quantilesOf({10, 0, 1, 9, 2, 8, 3, 7, 4, 6, 5});
  EXPECT_DOUBLE_EQ(many.p10, 1);
  EXPECT_DOUBLE_EQ(many.median, 5);
  EXPECT_DOUBLE_EQ(many.p90, 9);
}

TEST(Row, RatiosAreThoseOfItsMode) {
  RowReport row = makeRow(kShape, 2, 1e6,
                          {measured(Role::Sequence, "sequence", Mode::Direct, .006),
                           measured(Role::Sequence, "sequence", Mode::Graph, .004),
                           measured(Role::Matmul, "matmul", Mode::Direct, .003),
                           measured(Role::Matmul, "matmul", Mode::Graph, .001),
                           measured(Role::Fused, "auto", Mode::Direct, .004),
                           measured(Role::Fused, "auto", Mode::Graph, .005),
                           refused("push", Mode::Graph, "because")});
  // 64 x 16 x 4 bytes, half of them to receive, at 1 MB/s: 2 ms.
  EXPECT_DOUBLE_EQ(*row.limit(Mode::Direct), .003);
  EXPECT_DOUBLE_EQ(*row.limit(Mode::Graph), 2048 / 1e6);
  EXPECT_DOUBLE_EQ(*row.entries[4].toSequence, 1.5);
  EXPECT_DOUBLE_EQ(*row.entries[5].toSequence, .8);
  EXPECT_DOUBLE_EQ(*row.entries[4].toLimit, .004 / .003);
  EXPECT_FALSE(row.entries[6].seconds);
  EXPECT_EQ(row.usualMode(), Mode::Graph);

  Report report;
  report.rows = {row};
  EXPECT_THAT(report.slower(2), ElementsAre("ag 64x32x16 f32, graph: 25.0 %"));
  EXPECT_TRUE(report.slower(26).empty());
  EXPECT_TRUE(report.unjudged().empty());
  EXPECT_THAT(tableRow(row), HasSubstr("refused: because"));
  EXPECT_THAT(reportCsv(report), HasSubstr("push\",fused,graph,,,,,,,,no,\"because\""));
}

TEST(Row, WithoutLinkOrSequence) {
  RowReport row = makeRow(kShape, 2, {},
                          {measured(Role::Matmul, "matmul", Mode::Direct, .003),
                           measured(Role::Fused, "auto", Mode::Direct, .004)});
  EXPECT_FALSE(row.limit(Mode::Direct));
  EXPECT_FALSE(row.entries[1].toSequence);
  EXPECT_FALSE(row.entries[1].toLimit);
  Report report;
  report.rows = {row};
  EXPECT_TRUE(report.slower(0).empty());
  EXPECT_THAT(report.unjudged(), ElementsAre("ag 64x32x16 f32"));
  Options options;
  options.modes = {Mode::Direct};
  EXPECT_THAT(tableEnd(options, report), Not(HasSubstr("nowhere slower")));
  EXPECT_THAT(reportJson(options, report), HasSubstr("\"ratio_to_limit\": null"));
}

TEST(Row, TracedRunsAreJudgedWhereThereAreNoOthers) {
  std::vector<Measurement> all{measured(Role::Sequence, "sequence", Mode::Traced, .004),
                               measured(Role::Fused, "auto", Mode::Traced, .005)};
  Report report;
  report.rows = {makeRow(kShape, 2, {}, all)};
  EXPECT_THAT(report.slower(2), ElementsAre("ag 64x32x16 f32, traced: 25.0 %"));
  EXPECT_TRUE(report.unjudged().empty());
  all.push_back(measured(Role::Sequence, "sequence", Mode::Direct, .003));
  all.push_back(measured(Role::Fused, "auto", Mode::Direct, .002));
  report.rows = {makeRow(kShape, 2, {}, all)};
  EXPECT_TRUE(report.slower(2).empty());
}

TEST(Report, PredictionsAndWrongResults) {
  Measurement wrong = measured(Role::Fused, "auto", Mode::Direct, .004);
  wrong.failure = "argument \"y\"";
  RowReport row = makeRow(
      kShape, 2, {}, {measured(Role::Sequence, "sequence", Mode::Direct, .002), std::move(wrong)});
  Report report;
  EXPECT_FALSE(report.medianPredictionError());
  row.entries[0].predicted = .001; // -50 %
  row.entries[1].predicted = .005; // +25 %
  report.rows = {row};
  EXPECT_DOUBLE_EQ(*row.entries[0].predictionError(), -.5);
  EXPECT_DOUBLE_EQ(*report.medianPredictionError(), .375);
  EXPECT_THAT(report.wrong(), ElementsAre("ag 64x32x16 f32, auto, direct: argument \"y\""));
  // Text of messages is no markup.
  row.entries[1].measurement.name = "a<b&\"c\"";
  report.rows = {row};
  EXPECT_THAT(reportSvg(Options(), report), HasSubstr("a&lt;b&amp;&quot;c&quot;"));
}
