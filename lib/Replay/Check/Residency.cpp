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
#include <map>
#include <numeric>

namespace tandem::check {

using namespace replay;

namespace {

/// So many free SMs have one GPU processing cluster (of at most 8) with the 8 SMs that the largest
/// portable thread block cluster needs: 8 * 7 + 1.
constexpr unsigned kSpare = 57;

/// Of the search for holders that overlap.
constexpr unsigned kMostSteps = 10000;

bool isCopy(Kind kind) { return kind == Kind::Copy || kind == Kind::Put; }

/// Kernels: all but events, and copies and puts by copy engines.
bool needsSms(const World &world, const Rank &rank, const Command &command) {
  if (isCopy(command.kind))
    return !isByCopyEngine(world, rank, command);
  return command.kind != Kind::Record && command.kind != Kind::Wait;
}

/// Kernels that one SM is enough for, in blocks of which none needs another one.
bool isSmall(Kind kind) { return kind == Kind::Signal || kind == Kind::WaitSignal || isCopy(kind); }

/// Whether a fused exchange or gated matmul waits for nothing: then its blocks end once they run.
bool isWithoutWaits(const World &world, CommandId head) {
  const Command *first = &world.commands[head] + 1;
  return std::none_of(first, first + world.commands[head].aux,
                      [](const Command &part) { return part.kind == Kind::WaitSignal; });
}

/// What holds SMs while it waits: a channel with messages or collectives, one kernel at a time, or
/// the waits or the fused exchanges of a stream.
struct Holder {
  unsigned sms = 0;
  /// Per stream: one more than the position of its last such command; 0: none yet.
  std::vector<uint64_t> last;
  uint64_t beside = 0; ///< holders of which a kernel may run at the same time, as bits
};

/// A gated matmul, which holds all SMs but some while it waits, and what may run meanwhile.
struct Gated {
  unsigned leaves = 0;
  uint64_t end = 0; ///< position of its last part in its stream
  /// Per stream: the SMs of the kernels that may run at the same time, if they are small, of which
  /// a stream runs one at a time.
  std::vector<unsigned> beside;
  bool isAlone = true; ///< no other kernel may run at the same time
};

/// Which holders of a rank may hold SMs at the same time, by the order of its streams and events.
class SmOverlaps {
public:
  SmOverlaps(const World &world, const Rank &rank, const SmLimits &sms);
  /// The most SMs that pairwise overlapping holders have. All of them, if that is not found soon.
  unsigned most();
  /// Whether what may run next to a gated matmul are small kernels for which it leaves SMs.
  bool leavesEnough() const;

private:
  /// `blocks`: the SMs of a fused exchange without waits; 0 for other commands.
  void followGated(const World &world, const Rank &rank, CommandId id, uint64_t position,
                   unsigned blocks);
  void follow(const World &world, const Rank &rank);
  void grow(unsigned held, uint64_t candidates);
  unsigned total(uint64_t of) const;
  size_t holderOf(uint64_t key, unsigned sms);

  uint32_t numStreams;
  SmLimits sms;
  std::map<uint64_t, size_t> numbers; ///< holders by channel, or by stream
  std::vector<Holder> holders;
  /// Per stream: how many commands of each stream end before its next one begins.
  std::vector<std::vector<uint64_t>> known;
  std::vector<std::vector<Gated>> gated; ///< per stream, in its order
  /// Per stream: positions of the last small kernel, and of the last other one.
  std::vector<uint64_t> lastSmall, lastLarge;
  std::vector<unsigned> mostSmall; ///< per stream: the most SMs of a small one so far
  unsigned best = 0, steps = 0;
};

SmOverlaps::SmOverlaps(const World &world, const Rank &rank, const SmLimits &sms)
    : numStreams(0), sms(sms) {
  for (CommandId c = rank.begin; c < rank.end; ++c)
    numStreams = std::max(numStreams, world.commands[c].stream + 1U);
  known.assign(numStreams, std::vector<uint64_t>(numStreams, 0));
  gated.resize(numStreams);
  lastSmall.assign(numStreams, 0);
  lastLarge.assign(numStreams, 0);
  mostSmall.assign(numStreams, 0);
  // A kernel of one run may overlap with one of the next.
  follow(world, rank);
  follow(world, rank);
}

size_t SmOverlaps::holderOf(uint64_t key, unsigned sms) {
  auto [found, isNew] = numbers.try_emplace(key, holders.size());
  if (isNew)
    holders.push_back({sms, std::vector<uint64_t>(numStreams, 0), 0});
  Holder &holder = holders[found->second];
  holder.sms = std::max(holder.sms, sms);
  return found->second;
}

void SmOverlaps::follow(const World &world, const Rank &rank) {
  std::map<uint32_t, std::vector<uint64_t>> events;
  unsigned ofExchange = 0; // SMs of the last fused exchange
  bool endsAlone = false;  // ... which has no waits
  for (CommandId c = rank.begin; c < rank.end; ++c) {
    const Command &command = world.commands[c];
    if (isMessage(command.kind))
      continue; // of a group
    std::vector<uint64_t> &mine = known[command.stream];
    if (command.kind == Kind::Wait) {
      const std::vector<uint64_t> &other = events[command.aux];
      for (size_t s = 0; s < other.size(); ++s)
        mine[s] = std::max(mine[s], other[s]);
    }
    bool isChannel = command.kind == Kind::Group || command.kind == Kind::Collective;
    bool isExchange = command.kind == Kind::FusedExchange || command.isFused;
    if (command.kind == Kind::FusedExchange) {
      ofExchange = heldByExchange(sms, command);
      endsAlone = isWithoutWaits(world, c);
    }
    uint64_t position = mine[command.stream] + 1;
    followGated(world, rank, c, position, isExchange && endsAlone ? ofExchange : 0);
    if (isChannel || isExchange || (command.kind == Kind::WaitSignal && !command.isGated)) {
      size_t number = isChannel    ? holderOf(command.channel, sms.perChannel)
                      : isExchange ? holderOf((uint64_t(2) << 32) + command.stream, ofExchange)
                                   : holderOf((uint64_t(1) << 32) + command.stream, sms.perWait);
      for (size_t other = 0; other < holders.size() && other < 64 && number < 64; ++other)
        for (uint32_t s = 0; s < numStreams; ++s)
          if (other != number && s != command.stream && holders[other].last[s] > mine[s]) {
            holders[other].beside |= uint64_t(1) << number;
            holders[number].beside |= uint64_t(1) << other;
          }
      holders[number].last[command.stream] = position;
    }
    mine[command.stream] = position;
    if (command.kind == Kind::Record)
      events[command.aux] = mine;
  }
}

void SmOverlaps::followGated(const World &world, const Rank &rank, CommandId id, uint64_t position,
                             unsigned blocks) {
  const Command &command = world.commands[id];
  const std::vector<uint64_t> &mine = known[command.stream];
  auto runsBeside = [&](Gated &matmul, uint32_t stream, bool small) {
    matmul.isAlone &= small;
    if (small)
      matmul.beside[stream] = std::max(matmul.beside[stream], mostSmall[stream]);
  };
  bool small = blocks > 0 || (isSmall(command.kind) && !command.isFused);
  if (small)
    mostSmall[command.stream] =
        std::max({mostSmall[command.stream], blocks, blocks > 0 ? 0U : std::max(1U, sms.perWait)});
  if (!command.isGated && needsSms(world, rank, command)) {
    // Gated matmuls issued before it.
    for (uint32_t s = 0; s < numStreams; ++s)
      if (s != command.stream)
        for (auto matmul = gated[s].rbegin(); matmul != gated[s].rend() && mine[s] < matmul->end;
             ++matmul)
          runsBeside(*matmul, command.stream, small);
    (small ? lastSmall : lastLarge)[command.stream] = position;
  }
  if (command.kind != Kind::GatedMatmul || isWithoutWaits(world, id))
    return;
  Gated matmul;
  matmul.leaves = static_cast<unsigned>(std::min<uint64_t>(command.value, sms.total));
  matmul.end = position + command.aux;
  matmul.beside.assign(numStreams, 0);
  for (uint32_t s = 0; s < numStreams; ++s)
    if (s != command.stream)
      for (bool small : {true, false})
        if ((small ? lastSmall : lastLarge)[s] > mine[s])
          runsBeside(matmul, s, small);
  gated[command.stream].push_back(std::move(matmul));
}

bool SmOverlaps::leavesEnough() const {
  for (const std::vector<Gated> &ofStream : gated)
    for (const Gated &matmul : ofStream)
      if (!matmul.isAlone ||
          std::accumulate(matmul.beside.begin(), matmul.beside.end(), 0U) > matmul.leaves)
        return false;
  return true;
}

unsigned SmOverlaps::total(uint64_t of) const {
  unsigned sum = 0;
  for (size_t i = 0; i < holders.size(); ++i)
    if (i >= 64 || of >> i & 1)
      sum += holders[i].sms;
  return sum;
}

void SmOverlaps::grow(unsigned held, uint64_t candidates) {
  best = std::max(best, held);
  ++steps;
  for (size_t i = 0; i < holders.size(); ++i) {
    if (!(candidates >> i & 1))
      continue;
    if (held + total(candidates) <= best || steps > kMostSteps)
      return;
    grow(held + holders[i].sms, candidates & holders[i].beside);
    candidates &= ~(uint64_t(1) << i);
  }
}

unsigned SmOverlaps::most() {
  if (holders.size() <= 64)
    grow(0, ~uint64_t(0));
  return holders.size() > 64 || steps > kMostSteps ? total(~uint64_t(0)) : best;
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
  bool leavesEnough = true;
  for (const Rank &rank : world.ranks) {
    SmOverlaps overlaps(world, rank, sms);
    most = std::max(most, overlaps.most());
    leavesEnough = leavesEnough && overlaps.leavesEnough();
  }
  // Nothing waits on SMs, or all that wait fit next to any other kernel.
  if (leavesEnough && (most == 0 || most + kSpare <= sms.total))
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
  if (!leavesEnough) {
    limits.push_back("SMs: other kernels than signals, waits and copies may run beside a gated "
                     "matmul, or more of these than the SMs that it leaves");
    return;
  }
  limits.push_back(
      fmt::format("SMs: kernels that wait may hold {} of {}, which leaves less than {} "
                  "for those that they wait for",
                  most, sms.total, kSpare));
}

} // namespace tandem::check
