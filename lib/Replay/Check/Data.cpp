//===- Data.cpp - does a program compute what its oracle does ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DataSample.h"

#include "tandem/Program/stream_program_generated.h"

#include <algorithm>

namespace tandem::check {

using namespace replay;

double dataSteps(const World &world) {
  std::vector<double> elements;
  for (const Layout &layout : world.layouts)
    elements.push_back(static_cast<double>(layout.numElements()));
  double steps = 0;
  for (const Rank &rank : world.ranks) {
    steps += static_cast<double>(rank.arenaBytes + rank.symmetricBytes) / 4;
    for (uint64_t bytes : rank.argumentBytes)
      steps += static_cast<double>(bytes) / 2;
    for (CommandId i = rank.begin; i < rank.end; ++i) {
      const Command &command = world.commands[i];
      for (uint32_t k = 0; k < command.numOperands; ++k)
        if (const View *view = world.operand(rank, command, k))
          steps += elements[view->layout];
      if (command.kind == Kind::Matmul) {
        const View &out = *world.operand(rank, command, 0), &a = *world.operand(rank, command, 1);
        const Layout &factor = world.layoutOf(a);
        bool transposed = command.flags & static_cast<uint8_t>(sp::CommandFlags::transpose_a);
        steps += elements[out.layout] *
                 static_cast<double>(factor.shape[factor.rank - (transposed ? 2u : 1u)]);
      } else if (command.kind == Kind::Launch) {
        const Kernel &kernel = world.kernels[rank.kernels[command.aux]];
        if (const View *out = world.operand(rank, command, 0))
          steps += elements[out->layout] * static_cast<double>(kernel.code.size());
      }
    }
  }
  return steps;
}

/// A kernel that only a device can run, and that is launched; null if there is none.
static const Kernel *nativeKernel(const World &world) {
  for (const Rank &rank : world.ranks)
    for (CommandId i = rank.begin; i < rank.end; ++i)
      if (world.commands[i].kind == Kind::Launch) {
        const Kernel &kernel = world.kernels[rank.kernels[world.commands[i].aux]];
        if (!kernel.isExpression)
          return &kernel;
      }
  return nullptr;
}

/// Whether ranks hold the same element of a result (and term).
static bool hasCopies(const World &world) {
  for (uint32_t a = 0; a < world.arguments.size(); ++a) {
    const Argument &info = world.arguments[a];
    if (!info.isResult)
      continue;
    Layout whole =
        Layout::dense(info.dtype, info.shape.data(), static_cast<unsigned>(info.shape.size()));
    uint64_t held = 0;
    for (const Rank &rank : world.ranks)
      held += rank.argumentBytes[a];
    if (held > whole.numBytes() * info.terms)
      return true;
  }
  return false;
}

/// One that is left out of a maximum shows only where it is the largest, so several orders are
/// tried.
static constexpr unsigned kMaxOrders = 24;

/// Whether values are compared somewhere.
static bool hasOrder(const World &world) {
  return std::any_of(world.kernels.begin(), world.kernels.end(), usesOrder) ||
         std::any_of(world.commands.begin(), world.commands.end(), [](const Command &command) {
           return command.reduceOp != static_cast<uint8_t>(ReduceOp::Sum);
         });
}

/// Whether a rank's shard is the whole of a logical tensor, in order.
static bool isWhole(const Argument &info, const Shard &shard, uint64_t bytes) {
  uint64_t count = 1, held = 1;
  for (int64_t extent : info.shape)
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(extent), &count))
      return false;
  for (size_t d = shard.shape.size(); d-- > 0;) {
    if (shard.shape[d] != 1 && held != 0 && shard.strides[d] != static_cast<int64_t>(held))
      return false;
    if (__builtin_mul_overflow(held, static_cast<uint64_t>(shard.shape[d]), &held))
      return false;
  }
  uint64_t size = 0;
  return shard.offset == 0 && held == count &&
         !__builtin_mul_overflow(count, sizeOf(info.dtype), &size) && size == bytes;
}

/// What an evaluation relies on and no reader has verified: nothing else reads a file's oracle
/// beside its ranks. Empty: nothing is wrong.
static std::string whatIsWrong(const World &world) {
  const World &oracle = *world.oracle;
  if (!oracle.mismatches.empty() || oracle.arguments.size() != world.arguments.size())
    return "the oracle is no program of one rank";
  const Rank &rank = oracle.ranks[0];
  for (uint32_t a = 0; a < world.arguments.size(); ++a) {
    const Argument &info = world.arguments[a];
    if (!rank.argumentPresent[a] || !isWhole(info, rank.shards[a], rank.argumentBytes[a]))
      return fmt::format("the oracle's \"{}\" is not the whole tensor", info.name);
    if (info.terms > world.numRanks())
      return fmt::format("\"{}\" has more terms than there are ranks", info.name);
  }
  return {};
}

std::string checkData(const World &world, const CheckOptions &options, Findings &findings,
                      bool &decided) {
  decided = false;
  if (!world.oracle)
    return "not checked: the program has no oracle";
  std::string wrong = whatIsWrong(world);
  if (!wrong.empty())
    return "not checked: " + wrong;
  bool copies = hasCopies(world);
  double steps = dataSteps(world) * (copies ? 2 : 1) + dataSteps(*world.oracle);
  for (const World *w : {&world, world.oracle.get()})
    if (const Kernel *kernel = nativeKernel(*w))
      return fmt::format("not checked: kernel \"{}\" is no expression", kernel->name);
  if (steps > static_cast<double>(options.dataSteps))
    return checkSample(world, options, steps, findings, decided);
  uint64_t before = findings.counts[static_cast<unsigned>(Diagnosis::WrongResult)];
  auto isRight = [&] {
    return findings.counts[static_cast<unsigned>(Diagnosis::WrongResult)] == before;
  };
  unsigned orders = 1;
  if (hasOrder(world) || hasOrder(*world.oracle))
    orders = static_cast<unsigned>(
        std::clamp(static_cast<double>(options.dataSteps) / steps, 1.0, double(kMaxOrders)));
  for (unsigned way = 0; way < orders && isRight(); ++way) {
    DataRun oracle(*world.oracle, {true, false, way}), run(world, {false, false, way});
    oracle.run();
    run.run();
    compareResults(world, run, oracle, findings);
  }
  if (copies && isRight()) {
    DataRun rounded(world, {false, true, 0});
    rounded.run();
    compareCopies(world, rounded, findings);
  }
  decided = true;
  return fmt::format("checked, {:.3g} steps", steps);
}

} // namespace tandem::check
