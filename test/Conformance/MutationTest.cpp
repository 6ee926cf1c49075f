//===- MutationTest.cpp - broken files do no harm ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Mutates a valid stream program in many ways, each with the content hashes as they were and with
// hashes that fit again. Each mutant must be refused with an error, or run (to its end, or to an
// error) inside its buffers: a sanitizer build sees to the latter, this test to the rest.
//
//   MutationTests [--all] [--count=N] [--seed=S]       1,500 mutants, 10,000 with --all

#include "Support/ProgramSpec.h"

#include "tandem/Runtime/Context.h"
#include "tandem/Runtime/Local.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <thread>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr uint32_t kRanks = 2;

/// One of everything, in an order that runs.
ProgramSpec everything() {
  constexpr DType f32 = DType::F32;
  ProgramSpec spec(kRanks);
  spec.name = "everything";
  uint32_t x = spec.stacked("x", false, f32, {4, 8}),
           w = spec.stacked("w", false, DType::BF16, {8, 8});
  uint32_t y = spec.stacked("y", true, f32, {4, 8}),
           z = spec.stacked("z", true, DType::BF16, {4, 8});
  for (RankSpec &rank : spec.ranks) {
    uint32_t peer = 1 - rank.rank;
    uint32_t xb = rank.argument(x, 128), wb = rank.argument(w, 128);
    uint32_t yb = rank.argument(y, 128), zb = rank.argument(z, 64);
    uint32_t ab = rank.arena(128), sb = rank.arena(256), cb = rank.arena(64), rb = rank.arena(64);
    uint32_t symmetric = rank.symmetric(256);
    uint32_t xv = rank.view(xb, f32, {4, 8}), yv = rank.view(yb, f32, {4, 8}),
             av = rank.view(ab, f32, {4, 8});
    uint32_t stack = rank.view(sb, f32, {2, 4, 8}), row = rank.view(rb, f32, {8});
    uint32_t half = rank.view(cb, DType::BF16, {4, 8}), wv = rank.view(wb, DType::BF16, {8, 8});
    uint32_t zv = rank.view(zb, DType::BF16, {4, 8}),
             transposed = rank.view(sb, f32, {8, 4}, {1, 8}, 0);
    uint32_t there = rank.view(symmetric, f32, {4, 4}, {8, 1}, rank.rank * 128u + 16);
    uint32_t here = rank.view(symmetric, f32, {4, 4}, {8, 1}, peer * 128u + 16);
    uint32_t left = rank.view(xb, f32, {4, 4}, {8, 1}, 0),
             leftY = rank.view(yb, f32, {4, 4}, {8, 1}, 0);
    uint16_t ch = rank.channel({0, 1}, 7), two = rank.channel({1, 0}, 2, "one-sided");
    rank.slots = {2, 1};
    using Op = sp::ExprOp;
    rank.kernels.push_back({"gelu", sp::KernelFormat::expression, "cpu",
                            encodeExpression(1, 1,
                                             {{Op::load, 0, 0, 0, 0},
                                              {Op::constant, 0, 0, 0, 0.5f},
                                              {Op::mul, 0, 1, 0, 0},
                                              {Op::erf, 2, 0, 0, 0},
                                              {Op::fma, 0, 3, 1, 0},
                                              {Op::store, 4, 0, 0, 0}})});
    rank.copy(0, av, xv);
    rank.sync(1, 0);
    rank.group(1, ch, 2);
    rank.send(1, ch, av, peer, 0);
    rank.recv(1, ch, yv, peer, 0);
    rank.collective(0, ch, CollectiveKind::AllGather, stack, xv);
    rank.launch(0, 0, {half, xv});
    rank.add(sp::CommandKind::matmul, 0, {zv, half, wv}).flags = 2;
    rank.add(sp::CommandKind::reduce, 0, {row, transposed}).value = 2;
    rank.sync(0, 1);
    rank.add(sp::CommandKind::accumulate, 0, {yv, av}).reduceOp = sp::ReduceOp::max;
    rank.put(0, two, there, left, 1 - peer);
    rank.signal(0, two, 1 - peer, rank.rank == 0 ? 0u : 1u, 1);
    rank.waitSignal(0, two, rank.rank == 0 ? 1 : 0, 1);
    rank.copy(0, leftY, here);
    rank.collective(0, ch, CollectiveKind::AllReduce, yv, yv);
  }
  return spec;
}

/// Changes `file` in one of many ways.
void mutate(std::string &file, std::mt19937_64 &random) {
  auto below = [&](uint64_t n) { return n ? random() % n : 0; };
  static const uint64_t kValues[] = {0,
                                     1,
                                     2,
                                     3,
                                     7,
                                     8,
                                     64,
                                     127,
                                     255,
                                     256,
                                     0x7fff,
                                     0xffff,
                                     0x10000,
                                     0x7fffffff,
                                     0x80000000,
                                     0xfffffffe,
                                     0xffffffff,
                                     0x7fffffffffffffff,
                                     0x8000000000000000,
                                     0xffffffffffffffff};
  unsigned changes = below(4) == 0 ? 1 + static_cast<unsigned>(below(8)) : 1;
  for (unsigned i = 0; i < changes && !file.empty(); ++i) {
    size_t at = below(file.size());
    switch (below(8)) {
    case 0: // a bit
    case 1:
      file[at] = static_cast<char>(file[at] ^ 1 << below(8));
      break;
    case 2: // a byte
      file[at] = static_cast<char>(random());
      break;
    case 3: { // a word that is likely to hurt
      size_t size = size_t(1) << below(4);
      at -= at % size;
      uint64_t value = kValues[below(std::size(kValues))];
      if (at + size <= file.size())
        std::memcpy(file.data() + at, &value, size);
      break;
    }
    case 4: { // a little more or less
      at -= at % 4;
      uint32_t value;
      if (at + 4 <= file.size()) {
        std::memcpy(&value, file.data() + at, 4);
        value += static_cast<uint32_t>(below(9)) - 4;
        std::memcpy(file.data() + at, &value, 4);
      }
      break;
    }
    case 5: { // a piece of the file somewhere else
      size_t from = below(file.size()), n = 1 + below(64);
      n = std::min({n, file.size() - at, file.size() - from});
      std::memmove(file.data() + at, file.data() + from, n);
      break;
    }
    case 6: { // zeros
      size_t n = std::min<size_t>(1 + below(32), file.size() - at);
      std::memset(file.data() + at, 0, n);
      break;
    }
    default: // cut off, or drawn out
      if (below(8) == 0)
        file.resize(below(2) ? at : file.size() + below(100));
      break;
    }
  }
}

Status runOn(Context &context, const ProgramFile &file) {
  TANDEM_ASSIGN_OR_RETURN(auto program, file.rankProgram(context.rank()));
  dumpProgram(*program); // what loads can be printed
  uint64_t total = 0;
  for (const ArgumentInfo &info : program->arguments())
    total += info.present ? info.localBytes() : 0;
  if (total > (1u << 24))
    return Status(Code::OutOfMemory, "larger than this test allows");
  TANDEM_ASSIGN_OR_RETURN(auto instance, Instance::create(context, program));
  // Exactly as many bytes as the program says: a sanitizer sees what goes beyond.
  std::vector<std::unique_ptr<char[]>> memory;
  for (uint32_t i = 0; i < program->arguments().size(); ++i) {
    const ArgumentInfo &info = program->arguments()[i];
    if (!info.present)
      continue;
    memory.emplace_back(new char[info.localBytes()]());
    Layout layout = Layout::dense(info.dtype, info.localShape.data(),
                                  static_cast<unsigned>(info.localShape.size()));
    TANDEM_RETURN_IF_ERROR(instance->bind(i, {memory.back().get(), layout}, info.localBytes()));
  }
  TANDEM_RETURN_IF_ERROR(instance->run());
  return instance->run();
}

/// The outcome of rank 0, by code.
Status runMutant(const std::string &bytes, std::chrono::milliseconds timeout) {
  ProgramLimits limits;
  limits.maxArenaBytes = 1 << 24;
  auto file = ProgramFile::fromMemory(bytes, limits);
  if (!file)
    return file.status();
  auto world = LocalWorld::create(kRanks, std::chrono::seconds(5));
  Status results[kRanks];
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < kRanks; ++r)
    threads.emplace_back([&, r] {
      ContextOptions options;
      options.device = createCpuDevice();
      options.transports.push_back(world->transport(r));
      options.bootstrap = world->bootstrap(r);
      options.timeout = timeout;
      auto context = Context::create(std::move(options));
      results[r] = context ? runOn(**context, **file) : context.status();
    });
  for (std::thread &thread : threads)
    thread.join();
  return results[0];
}

} // namespace

int main(int argc, char **argv) {
  unsigned count = 1500;
  uint64_t seed = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--all") == 0)
      count = 10000;
    else if (std::strncmp(argv[i], "--count=", 8) == 0)
      count = static_cast<unsigned>(std::atoi(argv[i] + 8));
    else if (std::strncmp(argv[i], "--seed=", 7) == 0)
      seed = static_cast<uint64_t>(std::atoll(argv[i] + 7));
  }
  std::string original = everything().encode();
  // The first matmul makes its code, which takes its time on a busy machine and under a sanitizer.
  Status whole = runMutant(original, std::chrono::seconds(30));
  if (!whole.ok()) {
    std::fprintf(stderr, "the program does not run as it is: %s\n", whole.message().c_str());
    return 1;
  }
  std::map<std::string, unsigned> outcomes;
  auto longest = std::chrono::steady_clock::duration::zero();
  for (unsigned i = 0; i < count; ++i) {
    std::mt19937_64 random(seed * 1000003 + i);
    std::string mutant = original;
    mutate(mutant, random);
    bool fits = i % 2 == 1 && rehash(mutant);
    auto start = std::chrono::steady_clock::now();
    Status status = runMutant(mutant, std::chrono::milliseconds(100));
    longest = std::max(longest, std::chrono::steady_clock::now() - start);
    ++outcomes[std::string(fits ? "hashes fit again: " : "hashes as they were: ") +
               std::string(toString(status.code()))];
    if (!status.ok() && status.message().empty()) {
      std::fprintf(stderr, "mutant %u: an error without a message\n", i);
      return 1;
    }
  }
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(longest).count();
  std::printf("%u mutants, the longest took %lld ms\n", count, static_cast<long long>(ms));
  for (const auto &[outcome, n] : outcomes)
    std::printf("  %-45s %u\n", outcome.c_str(), n);
  // A test that never gets past the hashes would prove little.
  bool deep = outcomes["hashes fit again: ok"] > count / 20 &&
              outcomes["hashes fit again: invalid-program"] > count / 20;
  if (!deep)
    std::fprintf(stderr, "too few mutants ran, or too few were refused\n");
  return deep && ms < 10000 ? 0 : 1;
}
