//===- TimelineTest.cpp - traces and pictures ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Timeline.h"

#include "tandem/Program/stream_program_generated.h"

#include <cstdio>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace tandem::timeline {
namespace {

using nlohmann::json;
using sp::CommandKind;
using testing::HasSubstr;

Span span(CommandKind kind, double begin, double end, uint32_t command = 0, uint16_t stream = 0) {
  Span result;
  result.begin = begin;
  result.end = end;
  result.command = command;
  result.stream = stream;
  result.kind = static_cast<uint8_t>(kind);
  result.category = categoryOf(result.kind);
  return result;
}

/// Rank 0 sends to rank 1, which then multiplies.
Timeline sample() {
  Timeline timeline;
  timeline.program = "a<b";
  timeline.origin = "simulated & \"drawn\"";
  timeline.seconds = 3e-3;
  timeline.names = {{"group #0", "x.mlir:1:2"}, {"matmul <1>", ""}};
  timeline.ranks = {{span(CommandKind::group, 0, 1e-3, 0, 1)},
                    {span(CommandKind::record, 0, 0, 0, 0), span(CommandKind::group, 0, 1e-3, 1, 1),
                     span(CommandKind::matmul, 1e-3, 3e-3, 3, 2)}};
  timeline.ranks[0][0].name = timeline.ranks[1][1].name = 0;
  timeline.ranks[1][2].name = 1;
  timeline.ranks[0][0].bytes = 4096;
  timeline.flows = {{0, 0, 1, 1, 0, 1e-3}};
  return timeline;
}

struct TempFile {
  TempFile() : path(testing::TempDir() + "tandem-timeline-" + std::to_string(::getpid())) {}
  ~TempFile() { std::remove(path.c_str()); }
  std::string text() const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::string path;
};

TEST(Timeline, SharesOfARank) {
  // Compute 0-2 and 4-6, communication 1-5 and 7-8, a signal awaited 8-9.
  std::vector<Span> spans = {
      span(CommandKind::matmul, 0, 2),      span(CommandKind::group, 1, 5),
      span(CommandKind::reduce, 4, 6),      span(CommandKind::collective, 7, 8),
      span(CommandKind::wait_signal, 8, 9), span(CommandKind::wait, 0, 9)};
  Shares shares = sharesOf(spans);
  EXPECT_DOUBLE_EQ(shares.compute, 4);
  EXPECT_DOUBLE_EQ(shares.communication, 6);
  EXPECT_DOUBLE_EQ(shares.exposed, 4);
  EXPECT_DOUBLE_EQ(shares.total, 9);
  std::vector<Interval> exposed = exposedOf(spans);
  ASSERT_EQ(exposed.size(), 2u);
  EXPECT_DOUBLE_EQ(exposed[0].begin, 2);
  EXPECT_DOUBLE_EQ(exposed[0].end, 4);
  EXPECT_DOUBLE_EQ(exposed[1].begin, 7);
  EXPECT_DOUBLE_EQ(exposed[1].end, 9);
}

TEST(Timeline, ExposedIsCutByEveryComputation) {
  std::vector<Span> spans = {span(CommandKind::put, 0, 10)};
  for (int i = 0; i < 5; ++i)
    spans.push_back(span(CommandKind::matmul, 2.0 * i, 2.0 * i + 1));
  EXPECT_DOUBLE_EQ(sharesOf(spans).exposed, 5);
  EXPECT_EQ(exposedOf(spans).size(), 5u);
}

TEST(Timeline, ATraceHasWhatItsReadersAskFor) {
  TempFile file;
  ASSERT_TRUE(writeTrace(sample(), file.path).ok());
  json trace = json::parse(file.text());
  EXPECT_EQ(trace["tandem"]["program"], "a<b");
  EXPECT_EQ(trace["tandem"]["ranks"], 2);
  size_t spans = 0, begins = 0, ends = 0, processes = 0, threads = 0;
  for (const json &event : trace["traceEvents"]) {
    std::string phase = event["ph"];
    ASSERT_TRUE(event["pid"].is_number_unsigned());
    if (phase == "M") {
      processes += event["name"] == "process_name";
      threads += event["name"] == "thread_name";
      EXPECT_TRUE(event["args"].is_object());
      continue;
    }
    EXPECT_TRUE(event["tid"].is_number_unsigned());
    EXPECT_TRUE(event["ts"].is_number());
    EXPECT_TRUE(event["cat"].is_string());
    EXPECT_TRUE(event["name"].is_string());
    if (phase == "X") {
      EXPECT_TRUE(event["dur"].is_number());
      EXPECT_TRUE(event["args"]["location"].is_string());
      ++spans;
    } else {
      EXPECT_TRUE(event["id"].is_number_unsigned());
      begins += phase == "s";
      ends += phase == "f";
    }
  }
  EXPECT_EQ(spans, 3u); // the record is left out
  EXPECT_EQ(processes, 2u);
  EXPECT_EQ(threads, 4u);
  EXPECT_EQ(begins, 1u);
  EXPECT_EQ(ends, 1u);
}

TEST(Timeline, ATraceIsReadBack) {
  TempFile file;
  ASSERT_TRUE(writeTrace(sample(), file.path).ok());
  auto read = readTrace(file.path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->program, "a<b");
  EXPECT_NEAR(read->seconds, 3e-3, 1e-12);
  ASSERT_EQ(read->ranks.size(), 2u);
  ASSERT_EQ(read->ranks[1].size(), 2u);
  const Span &matmul = read->ranks[1][1];
  EXPECT_EQ(matmul.command, 3u);
  EXPECT_EQ(matmul.stream, 2u);
  EXPECT_EQ(matmul.category, Category::Compute);
  EXPECT_NEAR(matmul.end - matmul.begin, 2e-3, 1e-9);
  EXPECT_EQ(read->names[matmul.name].text, "matmul <1>");
  EXPECT_EQ(read->ranks[0][0].bytes, 4096u);
  ASSERT_EQ(read->flows.size(), 1u);
  const Flow &flow = read->flows[0];
  EXPECT_EQ(flow.fromRank, 0u);
  EXPECT_EQ(flow.fromSpan, 0u);
  EXPECT_EQ(flow.toRank, 1u);
  EXPECT_EQ(read->ranks[1][flow.toSpan].command, 1u);
}

TEST(Timeline, ArrowsThatLeadNowhereAreLeftOut) {
  TempFile file;
  std::string head =
      R"({"tandem":{"version":1,"program":"p","seconds":1,"ranks":1},"traceEvents":[)"
      R"({"ph":"X","pid":0,"tid":0,"ts":5,"dur":1,)"
      R"("args":{"command":0,"kind":"copy"}})";
  for (const char *arrow :
       {R"({"ph":"s","id":1,"pid":0,"tid":0,"ts":5.5})", R"({"ph":"s"})", R"({"ph":"f","id":-1})",
        R"({"ph":"s","id":1,"pid":0,"tid":0,"ts":5.5},{"ph":"f","id":1,"pid":0,"tid":0,"ts":9})",
        R"({"ph":"s","id":1,"pid":0,"tid":0,"ts":5.5},{"ph":"f","id":1,"pid":9,"tid":0,"ts":5})",
        R"({"ph":"s","id":1,"pid":0,"tid":0,"ts":5.5},{"ph":"f","id":1,"pid":0,"tid":3,"ts":5})"}) {
    std::ofstream(file.path) << head << "," << arrow << "]}";
    auto read = readTrace(file.path);
    ASSERT_TRUE(read) << read.status().message();
    EXPECT_TRUE(read->flows.empty()) << arrow;
  }
}

TEST(Timeline, WhatIsNoTraceIsRefused) {
  TempFile file;
  auto refused = [&](const std::string &text) {
    std::ofstream(file.path) << text;
    auto read = readTrace(file.path);
    return read ? "read" : read.status().message();
  };
  EXPECT_THAT(refused("{"), HasSubstr(file.path + ": "));
  EXPECT_THAT(refused("[]"), HasSubstr("no member \"tandem\""));
  EXPECT_THAT(refused(R"({"tandem":{"version":2}})"), HasSubstr("tandem.version: expected 1"));
  EXPECT_THAT(refused(R"({"tandem":{"version":1,"seconds":1,"ranks":-1}})"),
              HasSubstr("expected seconds and ranks"));
  std::string head = R"({"tandem":{"version":1,"program":"p","seconds":1,"ranks":1})";
  EXPECT_THAT(refused(head + "}"), HasSubstr("expected a list \"traceEvents\""));
  for (const char *event :
       {"1", R"({"ph":"X"})",
        R"({"ph":"X","pid":1,"tid":0,"ts":0,"dur":1,"args":{"command":0,"kind":"copy"}})",
        R"({"ph":"X","pid":0,"tid":0,"ts":0,"dur":1,"args":{"command":0,"kind":"dance"}})"})
    EXPECT_THAT(refused(head + ",\"traceEvents\":[" + event + "]}"), HasSubstr("traceEvents[0]"))
        << event;
  EXPECT_THAT(readTrace("/nowhere/x").status().message(),
              HasSubstr("/nowhere/x: cannot read: No such file or directory"));
}

TEST(Timeline, APictureShowsWhatRan) {
  std::string picture = svg({sample()});
  EXPECT_THAT(picture, HasSubstr("@a&lt;b"));
  EXPECT_THAT(picture, HasSubstr("simulated &amp; &quot;drawn&quot;"));
  EXPECT_THAT(picture, HasSubstr("matmul &lt;1&gt;, command 3, 2 ms"));
  EXPECT_THAT(picture, HasSubstr(">rank 1</text>"));
  EXPECT_THAT(picture, HasSubstr(">time, ms</text>"));
  EXPECT_THAT(picture, HasSubstr("communication exposed 33 % of the time"));
  EXPECT_THAT(picture, HasSubstr("x.mlir:1:2"));
}

TEST(Timeline, PicturesOfManyRanksStaySmall) {
  Timeline timeline = sample();
  std::vector<Span> busy;
  for (int i = 0; i < 5000; ++i)
    busy.push_back(
        span(CommandKind::matmul, i * 1e-7, (i + 1) * 1e-7, static_cast<uint32_t>(i), 1));
  timeline.ranks.assign(70, busy);
  timeline.flows.clear();
  std::string picture = svg({timeline});
  EXPECT_LT(picture.size(), 40u << 20);
  EXPECT_THAT(picture, HasSubstr("70 ranks, 64 of them shown"));
  EXPECT_THAT(picture, HasSubstr(">rank 69</text>"));
  EXPECT_THAT(picture, Not(HasSubstr(">rank 11</text>")));
}

TEST(Timeline, RunsShareAPictureAndAnAxis) {
  Timeline longer = sample();
  longer.program = "longer";
  longer.ranks[1].back().end *= 2;
  std::string one = svg({sample()}), both = svg({sample(), longer});
  auto heightOf = [](const std::string &picture) {
    return std::stod(picture.substr(picture.find("height=\"") + 8));
  };
  EXPECT_DOUBLE_EQ(heightOf(both), 2 * heightOf(one));
  EXPECT_LT(both.find("@a&lt;b"), both.find("@longer"));
  // 3 ms take half of the width that they take alone.
  EXPECT_THAT(one, HasSubstr("width=\"639.60\""));
  EXPECT_THAT(both, HasSubstr("width=\"319.60\""));
  EXPECT_THAT(both, HasSubstr("; 3 ms in all"));
  EXPECT_THAT(both, HasSubstr("; 6 ms in all"));
}

TEST(Timeline, NothingRan) {
  Timeline empty;
  empty.program = "nothing";
  EXPECT_THAT(svg({empty}), HasSubstr("</svg>"));
  EXPECT_THAT(svg({}), HasSubstr("</svg>"));
  empty.ranks.resize(2);
  EXPECT_THAT(svg({empty}), HasSubstr("</svg>"));
  EXPECT_EQ(sharesOf({}).total, 0);
}

} // namespace
} // namespace tandem::timeline
