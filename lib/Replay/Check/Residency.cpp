//===- Residency.cpp - kernels that wait and hold SMs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See docs/semantics.md, section 4, "SMs".
//
//===----------------------------------------------------------------------===//

#include "CheckImpl.h"

#include <algorithm>
#include <set>

namespace tandem::check {

using namespace replay;

namespace {

/// So many free SMs have one GPU processing cluster (of at most 8) with the 8 SMs that the largest
/// portable thread block cluster needs: 8 * 7 + 1.
constexpr unsigned kSpare = 57;

/// The most SMs that kernels of a rank can hold while they wait.
unsigned mostHeld(const World &world, const Rank &rank, const SmLimits &sms) {
  std::set<uint32_t> channels, waits;
  for (CommandId c = rank.begin; c < rank.end; ++c) {
    const Command &command = world.commands[c];
    if (command.kind == Kind::Group || command.kind == Kind::Collective)
      channels.insert(command.channel);
    else if (command.kind == Kind::WaitSignal)
      waits.insert(command.stream);
  }
  return static_cast<unsigned>(channels.size()) * sms.perChannel +
         static_cast<unsigned>(waits.size()) * sms.perWait;
}

/// One line per command that is stuck on the rank.
std::vector<std::string> describeStuck(const World &world, const Walker &walker, uint32_t rank,
                                       std::vector<CommandId> &commands) {
  std::vector<std::string> lines;
  for (const Position &position : walker.stuck()) {
    if (position.rank != rank)
      continue;
    CommandId awaited = walker.waitsFor(position.at);
    std::string line = world.describe(position.at);
    if (walker.waitsForSMs(position.at))
      line += " waits for SMs";
    else if (walker.holdsSMs(position.at))
      line += " holds SMs";
    if (awaited != kNone && !walker.waitsForSMs(position.at))
      line += (walker.holdsSMs(position.at) ? " and waits for " : " waits for ") +
              world.describe(awaited);
    commands.push_back(position.at);
    lines.push_back(std::move(line));
  }
  return lines;
}

} // namespace

void checkResidency(const World &world, const CheckOptions &options, Findings &findings,
                    std::vector<std::string> &limits) {
  const SmLimits &sms = options.sms;
  if (sms.total == 0)
    return;
  unsigned most = 0;
  for (const Rank &rank : world.ranks)
    most = std::max(most, mostHeld(world, rank, sms));
  // Nothing waits on SMs, or all that wait fit beside any other kernel.
  if (most == 0 || most + kSpare <= sms.total)
    return;
  WalkOptions walk;
  walk.bufferedSends = options.bufferedSends;
  walk.sms = sms;
  InstantDriver driver(world);
  Walker walker(world, walk, driver);
  driver.run(walker);
  for (const Position &position : walker.stuck()) {
    if (!walker.waitsForSMs(position.at))
      continue;
    std::vector<CommandId> commands{position.at};
    std::vector<std::string> lines = describeStuck(world, walker, position.rank, commands);
    findings.add(
        {Diagnosis::SmDeadlock,
         fmt::format("rank {}: kernels that wait hold the SMs that {} needs, on a GPU of {}",
                     position.rank, world.describe(position.at), sms.total),
         std::move(commands), std::move(lines)});
    return;
  }
  limits.push_back(
      fmt::format("SMs: kernels that wait may hold {} of {}, which leaves less than {} "
                  "for those that they wait for",
                  most, sms.total, kSpare));
}

} // namespace tandem::check
