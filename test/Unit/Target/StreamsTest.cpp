//===- StreamsTest.cpp - which syncs make commands --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Translated.h"

#include <gtest/gtest.h>

using namespace tandem::test;

namespace {

/// A program on two buffers, in which %a and %b are workers 0 and 1.
std::string onStreams(const std::string &body) {
  return programText("%in: memref<4xf32>, %out: memref<4xf32> {hostir.result}",
                     "  %c0 = arith.constant 0 : index\n  %c1 = arith.constant 1 : index\n"
                     "  %a = hostir.worker_stream %c0\n  %b = hostir.worker_stream %c1\n" +
                         body,
                     "{workers = 2 : i64}", 1);
}

std::string copyOn(const std::string &stream) {
  return "  hostir.copy %in to %out on %" + stream + " : memref<4xf32> to memref<4xf32>\n";
}
std::string sync(const std::string &waiter, const std::string &signaler) {
  return "  hostir.sync %" + waiter + " after %" + signaler + "\n";
}
const std::string kCopy = "copy arg1:f32[4] <- arg0:f32[4] bytes 16\n";

TEST(Streams, RecordAndWait) {
  Translated t(onStreams(copyOn("main") + sync("a", "main") + copyOn("a") + sync("main", "a") +
                         copyOn("main")));
  EXPECT_EQ(t.commands(0), "s0 " + kCopy + "s0 record e0\ns1 wait e0\ns1 " + kCopy +
                               "s1 record e1\ns0 wait e1\ns0 " + kCopy);
}

TEST(Streams, AfterItselfIsNothing) {
  Translated t(onStreams(copyOn("a") + sync("a", "a") + copyOn("a")));
  EXPECT_EQ(t.commands(0), "s1 " + kCopy + "s1 " + kCopy);
}

TEST(Streams, AfterAnEmptyWorkerIsNothing) {
  Translated t(onStreams(copyOn("a") + sync("a", "b") + sync("main", "b")));
  EXPECT_EQ(t.commands(0), "s1 " + kCopy);
  EXPECT_EQ(t.stats.droppedSyncs, 2u);
}

/// The embedder has put work on the main stream before the run.
TEST(Streams, AfterTheStartOfTheMainStream) {
  Translated t(onStreams(sync("a", "main") + copyOn("a") + sync("a", "main") + copyOn("a") +
                         sync("b", "main")));
  EXPECT_EQ(t.commands(0), "s0 record e0\ns1 wait e0\ns1 " + kCopy + "s1 " + kCopy);
}

TEST(Streams, SameEventForTwoWaiters) {
  Translated t(onStreams(copyOn("main") + sync("a", "main") + sync("b", "main") + copyOn("a") +
                         copyOn("b")));
  EXPECT_EQ(t.commands(0),
            "s0 " + kCopy + "s0 record e0\ns1 wait e0\ns2 wait e0\ns1 " + kCopy + "s2 " + kCopy);
}

TEST(Streams, OrderIsTransitive) {
  // b after a, a after main: b is after main already.
  Translated t(onStreams(copyOn("main") + sync("a", "main") + copyOn("a") + sync("b", "a") +
                         sync("b", "main") + copyOn("b")));
  EXPECT_EQ(t.commands(0), "s0 " + kCopy + "s0 record e0\ns1 wait e0\ns1 " + kCopy +
                               "s1 record e1\ns2 wait e1\ns2 " + kCopy);
}

TEST(Streams, RelayWithoutCommandsOfItsOwn) {
  // a runs nothing, but b learns through it what it must wait for.
  Translated t(onStreams(copyOn("main") + sync("a", "main") + sync("b", "a") + copyOn("b")));
  EXPECT_EQ(t.commands(0),
            "s0 " + kCopy + "s0 record e0\ns1 wait e0\ns1 record e1\ns2 wait e1\ns2 " + kCopy);
}

TEST(Streams, NewCommandsNeedANewEvent) {
  Translated t(onStreams(copyOn("main") + sync("a", "main") + copyOn("a") + copyOn("main") +
                         sync("a", "main") + copyOn("a")));
  EXPECT_EQ(t.commands(0), "s0 " + kCopy + "s0 record e0\ns1 wait e0\ns1 " + kCopy + "s0 " + kCopy +
                               "s0 record e1\ns1 wait e1\ns1 " + kCopy);
}

TEST(Streams, IdleWorkersAreNotCounted) {
  // Worker 0 only waits; worker 1 works and becomes stream 1.
  Translated t(onStreams(copyOn("main") + sync("a", "main") + copyOn("main") + sync("b", "main") +
                         copyOn("b") + sync("main", "a") + sync("main", "b")));
  EXPECT_EQ(t.commands(0), "s0 " + kCopy + "s0 " + kCopy + "s0 record e0\ns1 wait e0\ns1 " + kCopy +
                               "s1 record e1\ns0 wait e1\n");
  EXPECT_NE(t.dump(0).find("streams 2, events 2,"), std::string::npos) << t.dump(0);
}

TEST(Streams, WorkersAreTakenModuloThePool) {
  Translated t(onStreams("  %c5 = arith.constant 5 : index\n  %s = hostir.worker_stream %c5\n" +
                         copyOn("s") + copyOn("b") + sync("s", "b")));
  EXPECT_EQ(t.commands(0), "s1 " + kCopy + "s1 " + kCopy);
}

TEST(Streams, AnEmptyGroupIsNothing) {
  Translated t(onStreams("  %ch = hostir.channel \"c\" over #tp [\"x\"] can [two_sided]\n"
                         "  hostir.group via %ch on %a {\n  }\n" +
                         copyOn("main")));
  EXPECT_EQ(t.commands(0), "s0 " + kCopy);
  EXPECT_NE(t.dump(0).find("streams 1,"), std::string::npos) << t.dump(0);
}

} // namespace
