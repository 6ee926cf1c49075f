//===- CpuStreamTest.cpp - streams, events, abort ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/Device.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

namespace tandem {

namespace {

/// Calls a function in stream order.
class Call final : public HostOperation {
public:
  explicit Call(std::function<Status()> body) : body(std::move(body)) {}
  Status execute(const Frame &) override { return body(); }

private:
  std::function<Status()> body;
};

class Errors final : public ErrorSink {
public:
  void report(const Status &error, Marker marker) override {
    last = error;
    at = marker;
  }
  Status last;
  Marker at = kNoMarker;
};

class CpuStream : public testing::Test {
public:
  void SetUp() override {
    device = createCpuDevice();
    a = std::move(*device->createStream(StreamPriority::Normal));
    b = std::move(*device->createStream(StreamPriority::Normal));
    event = std::move(*device->createEvent());
    frame.errors = &errors;
  }
  Errors errors;
  Frame frame;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> a, b;
  std::unique_ptr<Event> event;
};

TEST_F(CpuStream, Order) {
  std::vector<int> order;
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 200; ++i) {
    calls.push_back(std::make_unique<Call>([&order, i] {
      order.push_back(i);
      return Status();
    }));
    ASSERT_TRUE(calls.back()->enqueue(*a, frame).ok());
  }
  ASSERT_TRUE(a->synchronize().ok());
  EXPECT_TRUE(a->idle());
  EXPECT_EQ(a->position(), kNoMarker);
  ASSERT_EQ(order.size(), 200u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(CpuStream, WaitRefersToTheLatestRecord) {
  std::atomic<int> step{0};
  std::atomic<bool> go{false};
  Call slow([&] {
    while (!go)
      std::this_thread::yield();
    step = 1;
    return Status();
  });
  Call after([&] { return step == 1 ? Status() : Status(Code::Internal, "too early"); });
  // Never recorded: no wait.
  ASSERT_TRUE(b->wait(*event, 1).ok());
  ASSERT_TRUE(b->synchronize().ok());
  EXPECT_TRUE(event->reached());
  ASSERT_TRUE(a->record(*event, 2).ok());
  slow.marker = 77;
  ASSERT_TRUE(slow.enqueue(*a, frame).ok());
  ASSERT_TRUE(a->record(*event, 3).ok());
  ASSERT_TRUE(b->wait(*event, 4).ok());
  ASSERT_TRUE(after.enqueue(*b, frame).ok());
  EXPECT_FALSE(event->reached());
  while (a->position() != 77)
    std::this_thread::yield();
  while (b->position() != 4)
    std::this_thread::yield();
  go = true;
  ASSERT_TRUE(event->synchronize().ok());
  ASSERT_TRUE(b->synchronize().ok());
  EXPECT_TRUE(errors.last.ok()) << errors.last.message();
}

TEST_F(CpuStream, ErrorsAreReported) {
  Call bad([] { return Status(Code::Io, "broken"); });
  bad.marker = 5;
  Call throws([]() -> Status { throw std::bad_alloc(); });
  throws.marker = 6;
  ASSERT_TRUE(bad.enqueue(*a, frame).ok());
  ASSERT_TRUE(a->synchronize().ok());
  EXPECT_EQ(errors.last.message(), "broken");
  EXPECT_EQ(errors.at, 5u);
  ASSERT_TRUE(throws.enqueue(*b, frame).ok());
  ASSERT_TRUE(b->synchronize().ok());
  EXPECT_EQ(errors.last.code(), Code::Internal);
  EXPECT_EQ(errors.at, 6u);
}

// The device is aborted by whoever gets the error, and that may take a while. What follows in the
// stream, or waits for it, would read what the failed command has not waited for.
TEST_F(CpuStream, NothingRunsAfterAnError) {
  std::atomic<bool> ran{false};
  Call bad([] { return Status(Code::Aborted, "a wait was ended"); });
  Call next([&] {
    ran = true;
    return Status();
  });
  ASSERT_TRUE(bad.enqueue(*a, frame).ok());
  ASSERT_TRUE(next.enqueue(*a, frame).ok());
  ASSERT_TRUE(a->record(*event, 1).ok());
  ASSERT_TRUE(b->wait(*event, 2).ok());
  ASSERT_TRUE(next.enqueue(*b, frame).ok());
  ASSERT_TRUE(a->synchronize().ok());
  EXPECT_FALSE(event->reached());
  device->abort(errors.last);
  EXPECT_EQ(b->synchronize().message(), "a wait was ended");
  EXPECT_FALSE(ran);
}

TEST_F(CpuStream, AbortReleasesWaiters) {
  std::atomic<bool> started{false}, stop{false}, dropped{true};
  Call hold([&] {
    started = true;
    while (!stop)
      std::this_thread::yield();
    return Status();
  });
  Call never([&] {
    dropped = false;
    return Status();
  });
  ASSERT_TRUE(hold.enqueue(*a, frame).ok());
  ASSERT_TRUE(a->record(*event, 1).ok());
  ASSERT_TRUE(b->wait(*event, 2).ok());
  ASSERT_TRUE(never.enqueue(*b, frame).ok());
  while (!started || b->position() != 2)
    std::this_thread::yield();
  device->abort(Status(Code::Timeout, "enough"));
  EXPECT_EQ(b->synchronize().message(), "enough");
  EXPECT_EQ(event->synchronize().message(), "enough");
  EXPECT_TRUE(dropped);
  EXPECT_EQ(never.enqueue(*b, frame).message(), "enough");
  device->abort(Status(Code::Timeout, "again"));
  stop = true;
  EXPECT_EQ(a->synchronize().message(), "enough"); // the first reason stays
}

} // namespace
} // namespace tandem
