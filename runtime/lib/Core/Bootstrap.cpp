//===- Bootstrap.cpp - launches that need no processes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/Bootstrap.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <new>
#include <unistd.h>

namespace tandem {

namespace {

class SelfBootstrap final : public Bootstrap {
public:
  uint32_t rank() const override { return 0; }
  uint32_t worldSize() const override { return 1; }
  Status allGather(const void *mine, size_t bytes, void *all) override {
    if (bytes)
      std::memcpy(all, mine, bytes);
    return Status();
  }
  Status barrier() override { return Status(); }
};

class CallbackBootstrap final : public Bootstrap {
public:
  explicit CallbackBootstrap(BootstrapCallbacks callbacks) : callbacks(std::move(callbacks)) {}
  uint32_t rank() const override { return callbacks.rank; }
  uint32_t worldSize() const override { return callbacks.worldSize; }
  uint32_t localRank() const override { return callbacks.localRank; }
  uint32_t localSize() const override { return callbacks.localSize; }
  Status allGather(const void *mine, size_t bytes, void *all) override {
    return check(callbacks.allGather(mine, bytes, all), "all-gather");
  }
  Status health() override { return callbacks.health ? callbacks.health() : Status(); }
  std::string host() const override {
    return callbacks.node.empty() ? Bootstrap::host() : hostOf(callbacks.node);
  }
  void giveUp(const Status &reason) override {
    if (callbacks.giveUp)
      callbacks.giveUp(reason);
  }
  void noteBegun(uint64_t runs) override {
    if (callbacks.noteBegun)
      callbacks.noteBegun(runs);
  }
  uint64_t begunByAll() override {
    return callbacks.begunByAll ? callbacks.begunByAll() : kUnknown;
  }
  std::string late(uint64_t runs) override {
    return callbacks.late ? callbacks.late(runs) : std::string();
  }
  Status barrier() override { return check(callbacks.barrier(), "barrier"); }

private:
  /// A number says little: health() may know which rank is lost, and why.
  Status check(int result, const char *what) {
    if (result == 0)
      return Status();
    TANDEM_RETURN_IF_ERROR(health());
    return Status(Code::Io, fmt::format("the {} callback returned {}", what, result));
  }
  BootstrapCallbacks callbacks;
};

} // namespace

void Bootstrap::giveUp(const Status &) {}

void Bootstrap::noteBegun(uint64_t) {}

std::string Bootstrap::host() const {
  const char *given = std::getenv("TANDEM_NODE");
  char name[HOST_NAME_MAX + 1] = "";
  if (!given || !*given)
    ::gethostname(name, sizeof name - 1);
  return hostOf(*name ? name : given ? given : "");
}

std::string hostOf(const std::string &node) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return boot + " " + node;
}

std::unique_ptr<Bootstrap> createSelfBootstrap() { return std::make_unique<SelfBootstrap>(); }

Expected<std::unique_ptr<Bootstrap>> createCallbackBootstrap(BootstrapCallbacks callbacks) {
  const BootstrapCallbacks &c = callbacks;
  if (c.worldSize == 0 || c.rank >= c.worldSize)
    return Status(Code::InvalidArgument,
                  fmt::format("rank {} of a world of {}", c.rank, c.worldSize));
  if (c.localSize == 0 || c.localRank >= c.localSize || c.localSize > c.worldSize)
    return Status(Code::InvalidArgument, fmt::format("local rank {} of {} in a world of {}",
                                                     c.localRank, c.localSize, c.worldSize));
  if (c.worldSize == 1 && (!c.allGather || !c.barrier))
    return createSelfBootstrap();
  if (!c.allGather || !c.barrier)
    return Status(
        Code::InvalidArgument,
        fmt::format("a world of {} ranks needs an all-gather and a barrier callback", c.worldSize));
  return std::make_unique<CallbackBootstrap>(std::move(callbacks));
}

/// More than any text: a stream program has at most 2 GiB.
static constexpr uint64_t kMostOfOne = uint64_t(1) << 32;
/// What one exchange gathers, so that memory grows with what has come and not with what is said to
/// come.
static constexpr uint64_t kMostAtOnce = uint64_t(64) << 20, kLeastPiece = uint64_t(64) << 10;

static Status gatherPieces(Bootstrap &bootstrap, const std::string &mine,
                           const std::vector<uint64_t> &sizes, std::vector<std::string> &result) {
  uint64_t most = *std::max_element(sizes.begin(), sizes.end());
  uint64_t piece = std::min(most, std::max(kLeastPiece, kMostAtOnce / sizes.size()));
  std::string padded, all(piece * sizes.size(), '\0');
  for (uint64_t begin = 0; begin < most; begin += piece) {
    uint64_t bytes = std::min(piece, most - begin);
    padded.assign(mine, std::min<uint64_t>(begin, mine.size()), bytes);
    padded.resize(bytes);
    TANDEM_RETURN_IF_ERROR(bootstrap.allGather(padded.data(), bytes, all.data()));
    for (size_t r = 0; r < sizes.size(); ++r)
      if (sizes[r] > begin)
        result[r].append(all, r * bytes, std::min(bytes, sizes[r] - begin));
  }
  return Status();
}

Expected<std::vector<std::string>> allGatherStrings(Bootstrap &bootstrap, const std::string &mine) {
  uint32_t world = bootstrap.worldSize();
  uint64_t size = mine.size();
  std::vector<uint64_t> sizes(world);
  TANDEM_RETURN_IF_ERROR(bootstrap.allGather(&size, sizeof size, sizes.data()));
  // Sizes come from other processes.
  for (uint32_t r = 0; r < world; ++r)
    if (sizes[r] > kMostOfOne)
      return Status(Code::Io, fmt::format("rank {} gives {} bytes, expected at most {}", r,
                                          sizes[r], kMostOfOne));
  std::vector<std::string> result(world);
  try {
    TANDEM_RETURN_IF_ERROR(gatherPieces(bootstrap, mine, sizes, result));
  } catch (const std::bad_alloc &) {
    return Status(Code::OutOfMemory,
                  fmt::format("no memory for texts of up to {} bytes of {} ranks",
                              *std::max_element(sizes.begin(), sizes.end()), world));
  }
  return result;
}

} // namespace tandem
