//===- GraphTest.cpp - capture and replay, and what may go wrong with them ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "tandem/Runtime/HostOps.h"

#include <condition_variable>
#include <gtest/gtest.h>
#include <mutex>

using namespace tandem;
using namespace tandem::test;

namespace {

/// Holds its stream until it is let go.
class Gate final : public HostOperation {
public:
  Status execute(const Frame &) override {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return isOpen; });
    return Status();
  }
  void open() {
    std::lock_guard<std::mutex> lock(mutex);
    isOpen = true;
    changed.notify_all();
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  bool isOpen = false;
};

Operand operandOf(uint32_t slot) {
  int64_t shape[] = {16};
  return {slot, Layout::dense(DType::F32, shape, 1)};
}

TEST(GpuGraph, AQueuedLaunchKeepsItsGraph) {
  auto device = fakeDevice();
  ASSERT_TRUE(device);
  auto stream = device->createStream(), captured = device->createStream();
  ASSERT_TRUE(stream.ok() && captured.ok());
  auto from = device->allocate(64, MemoryKind::Plain), to = device->allocate(64, MemoryKind::Plain);
  ASSERT_TRUE(from.ok() && to.ok());
  float ones[16], found[16] = {};
  std::fill_n(ones, 16, 1.0f);
  ASSERT_TRUE(device->upload((*from)->data(), ones, sizeof ones).ok());
  auto copy = device->prepareCopy(operandOf(0), operandOf(1));
  ASSERT_TRUE(copy.ok());
  void *pointers[] = {(*to)->data(), (*from)->data()};
  Frame frame;
  frame.pointers = pointers;
  auto graph = device->capture({captured->get()}, nullptr,
                               [&] { return (*copy)->enqueue(**captured, frame); });
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  Gate gate;
  ASSERT_TRUE((*stream)->enqueueHost(gate, frame).ok());
  ASSERT_TRUE((*graph)->launch(**stream, frame).ok());
  graph->reset(); // as an abort on another thread does, while the launch waits for its turn
  gate.open();
  Status ended = (*stream)->synchronize();
  EXPECT_TRUE(ended.ok()) << ended.message();
  ASSERT_TRUE(device->download(found, (*to)->data(), sizeof found).ok());
  EXPECT_EQ(found[15], 1.0f);
}

} // namespace
