//===- FakeGpu.cpp - device cuda on a driver of threads ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "tandem/Runtime/Gpu.h"
#include "tandem/Runtime/Local.h"
#include "tandem/Runtime/Registry.h"

#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

namespace tandem::test {

bool testsHip() {
  const char *kind = std::getenv("TANDEM_TEST_GPU");
  return kind && std::string_view(kind) == "hip";
}

namespace {

/// Before the first test asks for a GPU.
const bool named = [] {
  ::setenv("TANDEM_CUDA_LIBRARY", TANDEM_FAKE_LIBRARY, 1);
  ::setenv("TANDEM_CUBLASLT_LIBRARY", TANDEM_FAKE_LIBRARY, 1);
  ::setenv("TANDEM_NCCL_LIBRARY", TANDEM_FAKE_LIBRARY, 1);
  ::setenv("TANDEM_HIP_LIBRARY", TANDEM_FAKE_LIBRARY, 1);
  ::setenv("TANDEM_HIPBLASLT_LIBRARY", TANDEM_FAKE_LIBRARY, 1);
  if (testsHip())
    ::setenv("TANDEM_RCCL_LIBRARY", TANDEM_FAKE_LIBRARY, 1);
  ::setenv("NVTX_INJECTION64_PATH", TANDEM_FAKE_LIBRARY, 1);
  return true;
}();

} // namespace

std::atomic<int64_t> &fakeNumber(const char *name) {
  static void *library = ::dlopen(TANDEM_FAKE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  static auto *find = reinterpret_cast<std::atomic<int64_t> *(*)(const char *)>(
      library ? ::dlsym(library, "tandemFakeNumber") : nullptr);
  static std::atomic<int64_t> none{0};
  EXPECT_TRUE(named && find) << TANDEM_FAKE_LIBRARY;
  return find ? *find(name) : none;
}

std::unique_ptr<Device> fakeDevice(unsigned index) {
  auto device = createGpuDevice((testsHip() ? "hip:" : "cuda:") + std::to_string(index), 0);
  EXPECT_TRUE(device.ok()) << device.status().message();
  return device.ok() ? std::move(*device) : nullptr;
}

static struct {
  std::mutex mutex;
  std::string text;
} logged;

std::string takeLog() {
  std::lock_guard<std::mutex> lock(logged.mutex);
  return std::exchange(logged.text, "");
}

namespace {

/// Of a rank on a host of its own.
class ApartBootstrap final : public Bootstrap {
public:
  explicit ApartBootstrap(std::unique_ptr<Bootstrap> other) : other(std::move(other)) {}
  uint32_t rank() const override { return other->rank(); }
  uint32_t worldSize() const override { return other->worldSize(); }
  std::string host() const override { return "host " + std::to_string(rank()); }
  Status allGather(const void *mine, size_t bytes, void *all) override {
    return other->allGather(mine, bytes, all);
  }
  Status barrier() override { return other->barrier(); }
  Status health() override { return other->health(); }
  void giveUp(const Status &reason) override { other->giveUp(reason); }

private:
  std::unique_ptr<Bootstrap> other;
};

} // namespace

std::vector<Status> runRanks(const ProgramSpec &spec, const std::string &channel, const Part &part,
                             const RankOptions &with) {
  auto size = static_cast<uint32_t>(spec.ranks.size());
  std::string file = spec.encode();
  auto world = LocalWorld::create(size, std::chrono::seconds(20));
  std::vector<Status> results(size);
  auto rank = [&](uint32_t r) -> Status {
    ContextOptions options;
    options.device = fakeDevice(channel == "ccl" ? r : r % with.gpus);
    options.bootstrap = world->bootstrap(r);
    if (with.apart)
      options.bootstrap = std::make_unique<ApartBootstrap>(std::move(options.bootstrap));
    options.timeout = with.timeout;
    options.graphs = with.graphs;
    options.shareMemory = with.shareMemory;
    options.log = Log([](LogLevel, const std::string &message) {
      std::lock_guard<std::mutex> lock(logged.mutex);
      logged.text += message + "\n";
    });
    if (channel == "local") {
      options.transports.push_back(world->transport(r));
    } else {
      TANDEM_ASSIGN_OR_RETURN(auto transport, createTransport(channel));
      options.transports.push_back(std::move(transport));
    }
    TANDEM_ASSIGN_OR_RETURN(auto opened, ProgramFile::fromMemory(file));
    TANDEM_ASSIGN_OR_RETURN(auto context, Context::create(std::move(options)));
    TANDEM_ASSIGN_OR_RETURN(auto program, opened->rankProgram(r));
    TANDEM_ASSIGN_OR_RETURN(auto instance, Instance::create(*context, program));
    return part(*context, *instance);
  };
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < size; ++r)
    threads.emplace_back([&, r] { results[r] = rank(r); });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

Expected<std::vector<std::unique_ptr<Memory>>> bindAll(Context &context, Instance &instance) {
  std::vector<std::unique_ptr<Memory>> memory;
  const auto &arguments = instance.program().arguments();
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    memory.emplace_back();
    if (!arguments[i].present)
      continue;
    TANDEM_ASSIGN_OR_RETURN(
        memory.back(), context.device().allocate(arguments[i].localBytes(), MemoryKind::Plain));
    Layout layout = Layout::dense(arguments[i].dtype, arguments[i].localShape.data(),
                                  static_cast<unsigned>(arguments[i].localShape.size()));
    TANDEM_RETURN_IF_ERROR(
        instance.bind(i, {memory.back()->data(), layout}, arguments[i].localBytes()));
  }
  return memory;
}

void expectAllOk(const std::vector<Status> &ranks) {
  for (size_t r = 0; r < ranks.size(); ++r)
    EXPECT_TRUE(ranks[r].ok()) << "rank " << r << ": " << ranks[r].message();
}

} // namespace tandem::test
