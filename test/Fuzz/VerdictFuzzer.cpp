//===- VerdictFuzzer.cpp - what the checker accepts, ranks can run ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ProgramSpec.h"
#include "tandem/Replay/Check.h"
#include "tandem/Runtime/Context.h"
#include "tandem/Runtime/Local.h"
#include "tandem/Runtime/Registry.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

using namespace tandem;

/// Prepares the rank's program, as tandem-run does.
static Status prepare(LocalWorld &world, const ProgramFile &file, uint32_t rank) {
  ContextOptions options;
  TANDEM_ASSIGN_OR_RETURN(options.device, createDevice("cpu", {}, rank));
  options.bootstrap = world.bootstrap(rank);
  options.transports.push_back(world.transport(rank));
  TANDEM_ASSIGN_OR_RETURN(auto context, Context::create(std::move(options)));
  TANDEM_ASSIGN_OR_RETURN(auto program, file.rankProgram(rank));
  return Instance::create(*context, program).status();
}

/// Changes numbers in place: few other mutations are still programs.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t, unsigned seed) {
  std::minstd_rand random(seed);
  for (unsigned times = 1 + random() % 2; times > 0 && size > 72; --times) {
    static constexpr unsigned kWidths[] = {1, 1, 2, 4, 8};
    unsigned width = kWidths[random() % std::size(kWidths)];
    // Behind the header.
    uint8_t *at = data + 64 + random() % ((size - 64) / width) * width;
    uint64_t value = 0;
    std::memcpy(&value, at, width);
    switch (random() % 4) {
    case 0:
      value ^= uint64_t(1) << random() % (8 * width);
      break;
    case 1:
      value += random() % 9 - 4;
      break;
    case 2:
      value = random() % 9;
      break;
    default: // of another place
      std::memcpy(&value, data + 64 + random() % ((size - 64) / width) * width, width);
    }
    std::memcpy(at, &value, width);
  }
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string bytes(reinterpret_cast<const char *>(data), size);
  test::rehash(bytes);
  ProgramLimits limits;
  limits.maxArenaBytes = 1 << 20;
  auto file = ProgramFile::fromMemory(bytes, limits);
  if (!file || (*file)->numRanks() > 8)
    return 0;
  auto world = replay::World::load(**file);
  if (!world)
    return 0;
  check::CheckOptions options;
  options.dataSteps = 10000;
  options.threads = 1;
  if (check::check(**world, options).hasErrors())
    return 0;
  auto local = LocalWorld::create((*file)->numRanks(), std::chrono::seconds(20));
  std::vector<Status> statuses((*file)->numRanks());
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < statuses.size(); ++rank)
    threads.emplace_back([&, rank] { statuses[rank] = prepare(*local, **file, rank); });
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &status : statuses) {
    // The device may lack what a program needs, and kernels that are to be registered.
    bool isFine = status.ok() || status.code() == Code::Unsupported ||
                  status.code() == Code::Aborted || status.code() == Code::OutOfMemory;
    if (!isFine) {
      std::fprintf(stderr, "accepted by the checker, refused by a rank: %s\n",
                   status.message().c_str());
      std::abort();
    }
  }
  return 0;
}
