//===- StreamsTest.cpp - streams of the caller ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <map>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr int64_t kCount = 16;

/// y = x on one rank.
ProgramSpec copying() {
  ProgramSpec spec(1);
  uint32_t x = spec.stacked("x", false, DType::F32, {kCount}),
           y = spec.stacked("y", true, DType::F32, {kCount});
  RankSpec &rank = spec.ranks[0];
  uint32_t from = rank.view(rank.argument(x, kCount * 4), DType::F32, {kCount});
  rank.copy(0, rank.view(rank.argument(y, kCount * 4), DType::F32, {kCount}), from);
  return spec;
}

/// y = the x of the other rank, by a message that host threads move.
ProgramSpec exchanging() {
  ProgramSpec spec(2);
  uint32_t x = spec.stacked("x", false, DType::F32, {kCount}),
           y = spec.stacked("y", true, DType::F32, {kCount});
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t from = rank.view(rank.argument(x, kCount * 4), DType::F32, {kCount}),
             to = rank.view(rank.argument(y, kCount * 4), DType::F32, {kCount});
    uint16_t channel = rank.channel({0, 1}, TwoSided);
    rank.group(0, channel, 2);
    rank.send(0, channel, from, 1 - r, 0);
    rank.recv(0, channel, to, 1 - r, 0);
  }
  return spec;
}

/// On a wrapped stream `native`: what the caller copied there before the run is the run's input,
/// and a copy there after the run sees its result, without a wait in between.
Status runBetweenCopies(Context &context, Instance &instance, void *native) {
  Device &device = context.device();
  TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
  TANDEM_ASSIGN_OR_RETURN(auto source, device.allocate(kCount * 4, MemoryKind::Plain));
  TANDEM_ASSIGN_OR_RETURN(auto target, device.allocate(kCount * 4, MemoryKind::Plain));
  TANDEM_ASSIGN_OR_RETURN(auto callers, device.wrapStream(native));
  Layout layout = Layout::dense(DType::F32, {kCount});
  TANDEM_ASSIGN_OR_RETURN(auto copy, device.prepareCopy({0, layout}, {1, layout}));
  void *before[] = {memory[0]->data(), source->data()},
       *after[] = {target->data(), memory[1]->data()};
  Frame first, second;
  first.pointers = before;
  second.pointers = after;
  for (int run = 1; run <= 4; ++run) {
    std::vector<float> values(kCount, static_cast<float>(run)), found(kCount);
    TANDEM_RETURN_IF_ERROR(device.upload(source->data(), values.data(), kCount * 4));
    TANDEM_RETURN_IF_ERROR(copy->enqueue(*callers, first));
    TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<Stream> wrapped, device.wrapStream(native));
    TANDEM_RETURN_IF_ERROR(instance.enqueue(wrapped));
    wrapped.reset(); // the run keeps it
    TANDEM_RETURN_IF_ERROR(copy->enqueue(*callers, second));
    TANDEM_RETURN_IF_ERROR(callers->synchronize());
    TANDEM_RETURN_IF_ERROR(device.download(found.data(), target->data(), kCount * 4));
    if (found != values)
      return Status(Code::Internal, "the stream's order was not kept");
  }
  return instance.wait();
}

TEST(GpuCallersStreams, RunsAreOrderedWithTheCallersWork) {
  for (Status &status : runRanks(copying(), "peer", [](Context &context, Instance &instance) {
         auto stream = context.device().createStream(StreamPriority::Normal);
         EXPECT_TRUE(stream.ok());
         Status own = runBetweenCopies(context, instance, (*stream)->native());
         EXPECT_TRUE(own.ok()) << own.message();
         return runBetweenCopies(context, instance, nullptr); // the legacy default stream
       }))
    EXPECT_TRUE(status.ok()) << status.message();
}

TEST(GpuCallersStreams, RunsOfHostThreadsAreOrderedWithTheCallersWork) {
  for (Status &status : runRanks(exchanging(), "local", [](Context &context, Instance &instance) {
         auto stream = context.device().createStream(StreamPriority::Normal);
         EXPECT_TRUE(stream.ok());
         Status own = runBetweenCopies(context, instance, (*stream)->native());
         EXPECT_TRUE(own.ok()) << own.message();
         return runBetweenCopies(context, instance, nullptr);
       }))
    EXPECT_TRUE(status.ok()) << status.message();
}

TEST(GpuCallersStreams, AStreamOfAnotherGpu) {
  auto device = fakeDevice(0), other = fakeDevice(1);
  ASSERT_TRUE(device && other);
  auto stream = other->createStream(StreamPriority::Normal);
  ASSERT_TRUE(stream.ok());
  auto wrapped = device->wrapStream((*stream)->native());
  EXPECT_EQ(wrapped.status().message(),
            "the stream belongs to another GPU or CUDA context than cuda:0");
  EXPECT_EQ(wrapped.status().code(), Code::InvalidArgument);
  EXPECT_TRUE(other->wrapStream((*stream)->native()).ok());
}

TEST(GpuAllocator, ServesEachKind) {
  auto device = fakeDevice(0);
  ASSERT_TRUE(device);
  std::map<void *, MemoryKind> live;
  std::map<MemoryKind, int> served;
  auto allocator = std::make_shared<Allocator>();
  allocator->allocate = [&](uint64_t bytes, MemoryKind kind) {
    void *memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64); // the stand-in's are the host's
    live[memory] = kind;
    ++served[kind];
    return memory;
  };
  allocator->free = [&](void *memory, uint64_t, MemoryKind kind) {
    EXPECT_EQ(live[memory], kind);
    live.erase(memory);
    std::free(memory);
  };
  device->useAllocator(allocator);
  {
    auto plain = device->allocate(100, MemoryKind::Plain),
         symmetric = device->allocate(100, MemoryKind::Symmetric);
    auto stream = device->createStream(StreamPriority::Normal);
    ASSERT_TRUE(plain.ok() && symmetric.ok() && stream.ok());
    EXPECT_EQ(live.count((*plain)->data()), 1u);
    EXPECT_EQ(live.count((*symmetric)->data()), 1u);
    float zero[25] = {1};
    ASSERT_TRUE(device->download(zero, (*plain)->data(), 100).ok());
    EXPECT_EQ(zero[0], 0.0f);
    for (MemoryKind kind : {MemoryKind::Plain, MemoryKind::Symmetric, MemoryKind::Workspace})
      EXPECT_EQ(served[kind], 1);
  }
  EXPECT_TRUE(live.empty());
}

} // namespace
