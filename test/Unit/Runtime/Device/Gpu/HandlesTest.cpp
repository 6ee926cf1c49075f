//===- HandlesTest.cpp - handles of memory, and ranks that cannot give any ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CallersGraph.h"
#include "Support/ExchangeSpec.h"
#include "TwoRanks.h"

#include "Descriptors.h"

#include "tandem/Runtime/Channel.h"
#include "tandem/Runtime/Registry.h"
#include "tandem/Runtime/Rendezvous.h"

#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

using namespace tandem;
using namespace tandem::test;
using Clock = std::chrono::steady_clock;

namespace {

/// A channel over symmetric memory, and nothing to do.
ProgramSpec idle(uint32_t ranks) {
  ProgramSpec spec(ranks);
  std::vector<uint32_t> everybody;
  for (uint32_t r = 0; r < ranks; ++r)
    everybody.push_back(r);
  for (RankSpec &rank : spec.ranks) {
    rank.symmetric(64);
    rank.channel(everybody, OneSided);
    rank.slots = {1};
  }
  return spec;
}

Status makeInstance() {
  TANDEM_ASSIGN_OR_RETURN(auto bootstrap, createBootstrapFromEnvironment());
  uint32_t rank = bootstrap->rank();
  std::string file = idle(bootstrap->worldSize()).encode();
  ContextOptions options;
  options.device = fakeDevice(rank);
  options.bootstrap = std::move(bootstrap);
  TANDEM_ASSIGN_OR_RETURN(auto transport, createTransport("peer"));
  options.transports.push_back(std::move(transport));
  TANDEM_ASSIGN_OR_RETURN(auto opened, ProgramFile::fromMemory(file));
  TANDEM_ASSIGN_OR_RETURN(auto context, Context::create(std::move(options)));
  TANDEM_ASSIGN_OR_RETURN(auto program, opened->rankProgram(rank));
  return Instance::create(*context, program).status();
}

TEST(PeerHandles, AreExchanged) {
  asTwoRanks([] {
    Status status = makeInstance();
    EXPECT_TRUE(status.ok()) << status.message();
  });
}

TEST(PeerHandles, OfARankThatCannotExport) {
  Variable fails("TANDEM_FAKE_NO_EXPORT_ON", "2");
  asTwoRanks([] {
    auto start = Clock::now();
    Status status = makeInstance();
    EXPECT_NE(status.message().find("cuMemExportToShareableHandle"), std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find("rank 1"), std::string::npos) << status.message();
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(20));
  });
}

TEST(PeerHandles, OfARankThatCannotImport) {
  Variable fails("TANDEM_FAKE_NO_IMPORT_ON", "2");
  asTwoRanks([] {
    Status status = makeInstance();
    EXPECT_NE(status.message().find("cuMemImportFromShareableHandle"), std::string::npos)
        << status.message();
  });
}

/// Sums by one kernel, of as many blocks as there may be.
Status exchangeOnTheSameGpu() {
  TANDEM_ASSIGN_OR_RETURN(auto bootstrap, createBootstrapFromEnvironment());
  uint32_t rank = bootstrap->rank();
  ContextOptions options;
  options.device = fakeDevice(0);
  options.bootstrap = std::move(bootstrap);
  TANDEM_ASSIGN_OR_RETURN(auto transport, createTransport("peer"));
  options.transports.push_back(std::move(transport));
  TANDEM_ASSIGN_OR_RETURN(auto file,
                          ProgramFile::fromMemory(ExchangeSpec(2, false, 64, 132).encode()));
  TANDEM_ASSIGN_OR_RETURN(auto context, Context::create(std::move(options)));
  TANDEM_ASSIGN_OR_RETURN(auto program, file->rankProgram(rank));
  TANDEM_ASSIGN_OR_RETURN(auto instance, Instance::create(*context, program));
  TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(*context, *instance));
  return instance->run();
}

// Under MPS their kernels run at the same time.
TEST(PeerHandles, OfRanksThatShareAGpu) {
  if (testsHip())
    GTEST_SKIP() << "parts of fused exchanges run one by one";
  asTwoRanks([] {
    Status status = exchangeOnTheSameGpu();
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(fakeNumber("blocks.exchange_f32_4"), 65); // (132 - 1) / 2
  });
}

/// Gives pieces of one allocation that other processes can map, not its start: a pool.
struct PoolOfDevice {
  std::unique_ptr<gpu::Driver> driver;
  std::byte *base = nullptr;
  uint64_t bytes = uint64_t(4) << 20, used = 192;

  ~PoolOfDevice() {
    if (driver)
      driver->freeShared(base).ignore();
  }
  Status open(unsigned gpu) {
    TANDEM_ASSIGN_OR_RETURN(driver, (testsHip() ? gpu::kHip : gpu::kCuda).open(gpu));
    void *memory = nullptr;
    TANDEM_RETURN_IF_ERROR(driver->allocateShared(bytes, &memory));
    base = static_cast<std::byte *>(memory);
    return driver->fill(base, 0xee, bytes);
  }
  /// The same bytes of two allocations, one after the other, as an embedder maps them that lets its
  /// pool grow. The pieces begin `before` bytes before the second one.
  Status openTwo(uint64_t before) {
    void *library = ::dlopen(TANDEM_FAKE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    auto reserve =
        reinterpret_cast<decltype(&cuMemAddressReserve)>(::dlsym(library, "cuMemAddressReserve"));
    auto create = reinterpret_cast<decltype(&cuMemCreate)>(::dlsym(library, "cuMemCreate"));
    auto map = reinterpret_cast<decltype(&cuMemMap)>(::dlsym(library, "cuMemMap"));
    auto release = reinterpret_cast<decltype(&cuMemRelease)>(::dlsym(library, "cuMemRelease"));
    CUdeviceptr at = 0;
    if (reserve(&at, bytes, 0, 0, 0) != CUDA_SUCCESS)
      return Status(Code::Internal, "no addresses");
    for (uint64_t half : {uint64_t(0), bytes / 2}) {
      CUmemGenericAllocationHandle handle = 0;
      if (create(&handle, bytes / 2, nullptr, 0) != CUDA_SUCCESS ||
          map(at + half, bytes / 2, 0, handle, 0) != CUDA_SUCCESS ||
          release(handle) != CUDA_SUCCESS) // the mapping keeps the memory
        return Status(Code::Internal, "no memory");
    }
    base = reinterpret_cast<std::byte *>(at); // NOLINT(performance-no-int-to-ptr)
    used = bytes / 2 - before;
    return Status();
  }
  std::shared_ptr<const Allocator> allocator() {
    auto made = std::make_shared<Allocator>();
    made->allocate = [this](uint64_t size, MemoryKind kind) -> void * {
      if (kind != MemoryKind::Symmetric)
        return std::aligned_alloc(64, (size + 63) / 64 * 64);
      void *piece = base + used;
      used += (size + 63) / 64 * 64;
      return used <= bytes ? piece : nullptr;
    };
    made->free = [](void *memory, uint64_t, MemoryKind kind) {
      if (kind != MemoryKind::Symmetric)
        std::free(memory);
    };
    return made;
  }
};

Status runInAPool(PoolOfDevice &pool) {
  TANDEM_ASSIGN_OR_RETURN(auto bootstrap, createBootstrapFromEnvironment());
  uint32_t rank = bootstrap->rank();
  if (!pool.base)
    TANDEM_RETURN_IF_ERROR(pool.open(rank));
  ContextOptions options;
  options.device = fakeDevice(rank);
  options.bootstrap = std::move(bootstrap);
  options.allocator = pool.allocator();
  TANDEM_ASSIGN_OR_RETURN(auto transport, createTransport("peer"));
  options.transports.push_back(std::move(transport));
  TANDEM_ASSIGN_OR_RETURN(auto file, ProgramFile::fromMemory(capturedRing(2).encode()));
  TANDEM_ASSIGN_OR_RETURN(auto context, Context::create(std::move(options)));
  TANDEM_ASSIGN_OR_RETURN(auto program, file->rankProgram(rank));
  TANDEM_ASSIGN_OR_RETURN(auto instance, Instance::create(*context, program));
  TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(*context, *instance));
  for (int run = 1; run < 5; ++run) {
    std::vector<float> values(kCount, static_cast<float>(100 * run) + static_cast<float>(rank));
    TANDEM_RETURN_IF_ERROR(context->device().upload(memory[0]->data(), values.data(), kCount * 4));
    TANDEM_RETURN_IF_ERROR(instance->run());
    TANDEM_RETURN_IF_ERROR(
        context->device().download(values.data(), memory[1]->data(), kCount * 4));
    float expected = static_cast<float>(100 * run) + static_cast<float>(1 - rank);
    if (values.front() != expected || values.back() != expected)
      return Status(Code::Internal, "found " + std::to_string(values.front()) + ", expected " +
                                        std::to_string(expected));
  }
  return Status();
}

TEST(PeerHandles, OfAPartOfTheEmbeddersAllocation) {
  asTwoRanks([] {
    PoolOfDevice pool;
    Status status = runInAPool(pool);
    EXPECT_TRUE(status.ok()) << status.message();
    // What lies before the pieces is not theirs.
    std::vector<uint8_t> before(192);
    ASSERT_TRUE(pool.driver->copy(before.data(), pool.base, before.size()).ok());
    EXPECT_EQ(before, std::vector<uint8_t>(192, 0xee));
  });
}

TEST(PeerHandles, OfARankWhoseMemoryIsOfSeveralAllocations) {
  asTwoRanks([] {
    PoolOfDevice pool;
    ASSERT_TRUE(pool.openTwo(64).ok());
    Status status = runInAPool(pool);
    EXPECT_EQ(status.code(), Code::Unsupported) << status.message();
    EXPECT_NE(status.message().find("in one allocation, found 64 bytes to its end"),
              std::string::npos)
        << status.message();
  });
}

/// A wait for a handle of rank 7's memory; `health`: of the bootstrap.
core::SharedStep handleOf7(std::chrono::milliseconds timeout,
                           std::function<Status()> health = nullptr) {
  return core::SharedStep({timeout, std::move(health)}, "the memory of rank 7", "no handle came");
}

TEST(PeerHandles, AServerThatGivesUpIsHeardAtOnce) {
  auto server = peer::DescriptorServer::open();
  ASSERT_TRUE(server.ok());
  auto asked = peer::requestDescriptor(server->address());
  ASSERT_TRUE(asked.ok());
  auto start = Clock::now();
  std::thread failing([&] { peer::DescriptorServer gone = std::move(*server); });
  auto handle = peer::receiveDescriptor(*asked, handleOf7(std::chrono::seconds(30)));
  failing.join();
  EXPECT_FALSE(handle.ok());
  EXPECT_EQ(handle.status().code(), Code::Aborted);
  EXPECT_EQ(handle.status().message(),
            "the memory of rank 7: its rank ended before it sent a handle");
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
}

TEST(PeerHandles, AreAwaitedUntilTheTimeout) {
  auto server = peer::DescriptorServer::open();
  ASSERT_TRUE(server.ok());
  Status given = server->send(STDIN_FILENO, 1, handleOf7(std::chrono::milliseconds(100)));
  EXPECT_EQ(given.code(), Code::Timeout);
  EXPECT_EQ(given.message(), "no handle came within 100 ms");
  auto asked = peer::requestDescriptor(server->address());
  ASSERT_TRUE(asked.ok());
  Status got = peer::receiveDescriptor(*asked, handleOf7(std::chrono::milliseconds(100))).status();
  EXPECT_EQ(got.message(), "no handle came within 100 ms");
}

/// A rank that does not answer, and that the bootstrap loses after a while.
TEST(PeerHandles, AreNotAwaitedFromALostRank) {
  auto server = peer::DescriptorServer::open();
  ASSERT_TRUE(server.ok());
  auto start = Clock::now();
  auto lost = [since = start] {
    return Clock::now() - since < std::chrono::milliseconds(100)
               ? Status()
               : Status(Code::Timeout, "lost rank 7: it has sent no heartbeat for 10 s");
  };
  core::SharedStep step = handleOf7(std::chrono::seconds(60), lost);
  std::string expected = "the memory of rank 7: lost rank 7: it has sent no heartbeat for 10 s";
  EXPECT_EQ(server->send(STDIN_FILENO, 1, step).message(), expected);
  auto asked = peer::requestDescriptor(server->address());
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(peer::receiveDescriptor(*asked, step).status().message(), expected);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
}

TEST(PeerHandles, AnAskerThatHasLeftHarmsNobody) {
  auto server = peer::DescriptorServer::open();
  ASSERT_TRUE(server.ok());
  auto stays = peer::requestDescriptor(server->address());
  peer::requestDescriptor(server->address()).status().ignore(); // closed at once
  ASSERT_TRUE(stays.ok());
  Status given = server->send(STDIN_FILENO, 2, handleOf7(std::chrono::seconds(10)));
  EXPECT_TRUE(given.ok()) << given.message();
  EXPECT_TRUE(peer::receiveDescriptor(*stays, handleOf7(std::chrono::seconds(10))).ok());
}

} // namespace
