//===- CommandCosts.cpp - what commands take, each alone ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandCosts.h"

#include "tandem/Program/BuiltinKernels.h"
#include "tandem/Program/FusedExchange.h"
#include "tandem/Program/RowCopy.h"
#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

namespace tandem::simulate {

using machine::Cost;
using replay::Command;
using replay::CommandId;
using replay::Kind;
using replay::Rank;
using replay::Sync;
using replay::View;

/// A product of 16 or 8 bits takes so many times as long if its rows do not begin at multiples of
/// 16 bytes. Example: 2257 x 3090 x 2656 in bf16, in columns of a result of 24720, takes 340 us on
/// an H100 instead of 48. So does a copy of such rows: of twice 2257 x 3090 bf16, 140 us instead
/// of 19.
static constexpr double kUnaligned = 7;

/// Of where all rows begin.
static uint64_t rowAlignment(const Layout &layout, uint64_t address) {
  uint64_t bits = address;
  for (unsigned d = 0; d < layout.rank; ++d)
    if (layout.shape[d] > 1 && layout.strides[d] > 1)
      bits |= static_cast<uint64_t>(layout.strides[d]) * sizeOf(layout.dtype);
  return machine::alignmentOf(bits);
}

MatmulAlignment alignmentsOf(const replay::World &world, const View &out, const View &left,
                             const View &right) {
  auto of = [&](const View &view) { return rowAlignment(world.layoutOf(view), view.address); };
  return {of(out), {of(left), of(right)}};
}

double CommandCosts::bytes(const Rank &rank, const Command &command, uint32_t k) const {
  const View *view = world.operand(rank, command, k);
  return view ? layoutBytes[view->layout] : 0;
}

double CommandCosts::rowShare(const Rank &rank, const Command &put) const {
  const View *target = world.operand(rank, put, 0), *source = world.operand(rank, put, 1);
  if (!target || !source || machine.oneSided.mover != machine::Mover::Copy)
    return 1;
  std::optional<program::RowCopy> copy =
      program::describeRowCopy(world.layoutOf(*target), world.layoutOf(*source));
  bool hasGaps = copy && copy->rows > 1 && copy->dstPitch > copy->bytes;
  return hasGaps ? machine.oneSided.rows.at(static_cast<double>(copy->bytes)) : 1;
}

namespace {

/// Puts of sums by one channel that nothing separates: a loop.
struct PutsOfSums {
  std::vector<CommandId> puts;
  size_t together = 0; ///< of the last ones, between which no peer was awaited
  bool drift = false;
};

/// The memory of a rank that has sums, as its commands are walked in order.
class SumMemory {
public:
  SumMemory(const replay::World &world, const Rank &rank) : world(world), rank(rank) {}

  bool holds(const Command &command, uint32_t operand) const {
    const View *view = world.operand(rank, command, operand);
    if (!view)
      return false;
    auto next = sums.upper_bound({view->buffer, view->address});
    if (next == sums.begin())
      return false;
    const auto &[begin, end] = *std::prev(next);
    return begin.first == view->buffer && view->address < end;
  }

  /// The command writes its first operand: a sum or something else.
  void write(const Command &command, bool isSum) {
    const View *view = world.operand(rank, command, 0);
    if (!view)
      return;
    const Layout &layout = world.layouts[view->layout];
    uint64_t end = view->address + (layout.isDense() ? layout.numBytes() : 1);
    sums.erase(sums.lower_bound({view->buffer, view->address}),
               sums.lower_bound({view->buffer, end}));
    if (isSum)
      sums.insert_or_assign({view->buffer, view->address}, end);
  }

private:
  const replay::World &world;
  const Rank &rank;
  /// Buffer and address where a sum begins; the address where it ends, or its first byte does if it
  /// has gaps.
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> sums;
};

} // namespace

void CommandCosts::findPutsOfSums() {
  // The last wait for a signal that a command follows, plus one; 0: it follows none.
  std::vector<CommandId> waits(world.commands.size());
  driftShares.assign(world.commands.size(), 1);
  auto close = [&](PutsOfSums &sums) {
    if (sums.drift)
      for (CommandId put : sums.puts)
        driftShares[put] = machine.oneSided.drift;
    sums = {};
  };
  for (const Rank &rank : world.ranks) {
    std::vector<CommandId> ofStream(rank.numStreams);
    SumMemory sums(world, rank);
    std::map<uint16_t, PutsOfSums> byChannel;
    auto put = [&](CommandId c, CommandId wait) {
      const Command &command = world.commands[c];
      uint32_t peers = world.groupSize(rank, command.channel) - 1;
      PutsOfSums &before = byChannel[command.channel];
      if (peers < 2)
        return;
      bool isSum = sums.holds(command, 1);
      if (!before.puts.empty()) {
        if (wait <= before.puts.back()) {
          // Next to a sum: something else, or a second sum to some peer.
          before.drift |= !isSum || before.together == peers;
        } else {
          before.together = 0;
          if (!isSum || !before.drift)
            close(before);
        }
      }
      if (isSum) {
        before.puts.push_back(c);
        ++before.together;
      }
    };
    for (CommandId c = rank.begin; c < rank.end; ++c) {
      const Command &command = world.commands[c];
      CommandId &wait = ofStream[command.stream];
      if (command.kind == Kind::WaitSignal)
        wait = c + 1;
      else if (command.kind == Kind::Wait && command.partner != replay::kNone)
        wait = std::max(wait, waits[command.partner]);
      waits[c] = wait;
      bool accumulates = command.flags & static_cast<uint8_t>(sp::CommandFlags::accumulate);
      if (command.kind == Kind::Put)
        put(c, wait);
      else if (command.kind == Kind::Reduce || command.kind == Kind::Accumulate)
        sums.write(command, wait);
      else if (command.kind == Kind::Matmul)
        sums.write(command, wait && accumulates);
      else if (command.kind == Kind::Copy)
        sums.write(command, sums.holds(command, 1));
      else if (command.kind == Kind::Launch || command.kind == Kind::Call)
        sums.write(command, false);
    }
    for (auto &[channel, puts] : byChannel)
      close(puts);
  }
}

bool CommandCosts::isFree(const Command &command) const {
  if (command.kind == Kind::FusedExchange || command.isFused)
    return isInExchangeKernel(command) == command.isFused;
  if (command.kind == Kind::GatedMatmul || command.isGated)
    return isInGatedKernel(command) == command.isGated;
  return isInMatmul(command);
}

bool CommandCosts::isInMatmul(const Command &command) const {
  if (!command.isEpilogue || !isForGpus())
    return false;
  const Command &matmul = *(&command - 1);
  return !matmul.isGated || isInGatedKernel(matmul);
}

double CommandCosts::exchangeBlocks(CommandId command) const {
  const Command &found = world.commands[command];
  const Command &head = found.isFused ? world.commands[found.partner] : found;
  return std::min(static_cast<double>(head.value), machine.sms);
}

program::ExchangeProtocol CommandCosts::exchangeProtocol(CommandId part) const {
  const Command &found = world.commands[part];
  const Command &head = found.isFused ? world.commands[found.partner] : found;
  auto protocol = static_cast<program::ExchangeProtocol>(head.op);
  return machine.exchange.prices(protocol) ? protocol : program::ExchangeProtocol::Simple;
}

double CommandCosts::exchangePart(const Rank &rank, CommandId part) const {
  const Command &command = world.commands[part];
  if (command.kind == Kind::Signal) {
    // The signals of a step are raised at once.
    if (world.commands[part - 1].kind == Kind::Signal)
      return 0;
    switch (exchangeProtocol(part)) {
    case program::ExchangeProtocol::Block:
      return machine.exchange.blockSignal;
    case program::ExchangeProtocol::LL:
      return machine.exchange.llSignal;
    case program::ExchangeProtocol::Simple:
      break;
    }
    return machine.exchange.signal + (exchangeBlocks(part) > 1 ? machine.exchange.count : 0);
  }
  if (command.kind != Kind::Copy && command.kind != Kind::Reduce)
    return 0;
  double result = bytes(rank, command, 0), moved = result + bytes(rank, command, 1);
  // Half of each word is a flag. Own values are no words.
  double words =
      command.kind == Kind::Reduce && exchangeProtocol(part) == program::ExchangeProtocol::LL
          ? 2 * (bytes(rank, command, 1) - result)
          : 0;
  auto work = command.kind == Kind::Copy ? machine::MemoryWork::Copy : machine::MemoryWork::Reduce;
  double most = machine.memory[static_cast<size_t>(work)].most();
  return moved / std::min(most, exchangeBlocks(part) * machine.exchange.memory) +
         words / machine.exchange.llReads;
}

/// Bytes of the elements, without those that strides of 0 repeat.
static double distinctBytes(const Layout &layout) {
  double bytes = sizeOf(layout.dtype);
  for (unsigned d = 0; d < layout.rank; ++d)
    if (layout.strides[d] != 0 || layout.shape[d] == 0)
      bytes *= static_cast<double>(layout.shape[d]);
  return bytes;
}

double CommandCosts::matmul(const Rank &rank, const Command &command) {
  const View *out = world.operand(rank, command, 0), *a = world.operand(rank, command, 1),
             *b = world.operand(rank, command, 2);
  if (!out || !a || !b)
    return 0;
  const Layout &o = world.layoutOf(*out), &left = world.layoutOf(*a);
  if (o.rank < 2 || left.rank < 2)
    return 0;
  bool transposed = command.flags & static_cast<uint8_t>(sp::CommandFlags::transpose_a);
  MatmulAlignment alignment = alignmentsOf(world, *out, *a, *b);
  machine::RowAlignment rows = alignment.factors;
  bool isSlow = sizeOf(left.dtype) < 4 && isForGpus() && alignment.least() < kLoad;
  bool accumulates = command.flags & static_cast<uint8_t>(sp::CommandFlags::accumulate);
  // Layouts are interned.
  auto [found, added] = matmuls.try_emplace({out->layout, a->layout, b->layout,
                                             uint32_t(transposed) | uint32_t(accumulates) << 1 |
                                                 uint32_t(isSlow) << 2 | uint32_t(rows.left) << 8 |
                                                 uint32_t(rows.right) << 16},
                                            0);
  if (added) {
    double m = static_cast<double>(o.shape[o.rank - 2u]),
           n = static_cast<double>(o.shape[o.rank - 1u]);
    double k = static_cast<double>(left.shape[left.rank - (transposed ? 2u : 1u)]);
    double batch = 1;
    for (unsigned d = 0; d + 2 < o.rank; ++d)
      batch *= static_cast<double>(o.shape[d]);
    double moved = (accumulates ? 2 : 1) * distinctBytes(o) + distinctBytes(left) +
                   distinctBytes(world.layoutOf(*b));
    // Points with few indices of K are rarely measured, and other commands use the caches.
    if (isSlow)
      rows = {}; // kUnaligned is all that they cost
    found->second = std::max(machine.matmulSeconds(left.dtype, batch, m, n, k, rows),
                             machine.uncachedSeconds(moved)) *
                    (isSlow ? kUnaligned : 1);
  }
  return found->second;
}

double CommandCosts::groupedMatmul(const Rank &rank, const Command &command) {
  const View *left = world.operand(rank, command, 1), *right = world.operand(rank, command, 2);
  const Layout &out = world.layoutOf(*world.operand(rank, command, 0)), &x = world.layoutOf(*left),
               &w = world.layoutOf(*right);
  double moved = 0;
  for (uint32_t k = 0; k < command.numOperands; ++k)
    moved += bytes(rank, command, k);
  machine::RowAlignment begin{rowAlignment(x, left->address), rowAlignment(w, right->address)};
  // As groups of equal sizes.
  auto groups = static_cast<double>(std::max<int64_t>(w.shape[0], 1)),
       n = static_cast<double>(out.shape[out.rank - 1u]),
       k = static_cast<double>(x.shape[x.rank - 1u]);
  double rows = std::ceil(static_cast<double>(out.shape[out.rank - 2u]) / groups);
  double batch = groups;
  for (unsigned d = 0; d + 2 < out.rank; ++d)
    batch *= static_cast<double>(out.shape[d]);
  return std::max(machine.matmulSeconds(x.dtype, batch, rows, n, k, begin),
                  machine.uncachedSeconds(moved));
}

double CommandCosts::call(const Rank &rank, const Command &command) {
  const replay::Kernel &kernel = world.kernels[rank.kernels[command.aux]];
  if (kernel.name == program::kGroupedMatmul)
    return groupedMatmul(rank, command);
  const Layout &out = world.layoutOf(*world.operand(rank, command, 0));
  double indices = 1, moved = 0;
  for (unsigned d = 0; d < out.rank; ++d)
    if (kernel.dims[d] >= 0)
      indices *= static_cast<double>(out.shape[d]);
  for (uint32_t k = 0; k < command.numOperands; ++k)
    moved += bytes(rank, command, k);
  if (kernel.bytes >= 0)
    moved = kernel.bytes * indices;
  double memory = machine.memorySeconds(machine::MemoryWork::Elementwise, moved);
  // As fast as a product of square matrices with as many operations, 2 n^3.
  double n = std::cbrt(kernel.flops * indices / 2);
  return n < 1 ? memory : std::max(memory, machine.matmulSeconds(out.dtype, 1, n, n, n, {}));
}

double CommandCosts::epilogue(const Rank &rank, const Command &launch) {
  const View *product = world.operand(rank, launch, 0),
             *factor = world.operand(rank, *(&launch - 1), 1);
  // A scale per row or column of 8-bit factors takes another kernel. On 2 H100 these were slower,
  // by about the time to read the scales as if they were not repeated.
  bool isFp8 = factor && sizeOf(world.layoutOf(*factor).dtype) == 1;
  double sum = 0;
  for (uint32_t k = 0; k < launch.numOperands; ++k) {
    const View *view = world.operand(rank, launch, k);
    if (!view || (product && view->buffer == product->buffer && view->address == product->address &&
                  view->layout == product->layout))
      continue;
    double distinct = distinctBytes(world.layoutOf(*view));
    bool isOneNumber = distinct <= sizeOf(world.layoutOf(*view).dtype);
    sum += isFp8 && !isOneNumber ? bytes(rank, launch, k) : distinct;
  }
  return sum > 0 ? machine.memorySeconds(machine::MemoryWork::Elementwise, sum) : 0;
}

double CommandCosts::work(const Rank &rank, const Command &command) {
  auto operand = [&](uint32_t k) { return bytes(rank, command, k); };
  switch (command.kind) {
  case Kind::Matmul: {
    if (isInGatedKernel(command))
      return gatedKernel(rank, command).unit * areaOf(world, rank, command);
    // A bias of the result's shape is read at the rate of memory, hidden by nothing: an upper
    // bound.
    const View *bias = world.operand(rank, command, 3);
    bool isWhole = bias && world.layoutOf(*bias).rank > 1;
    return matmul(rank, command) +
           (isWhole ? machine.memorySeconds(machine::MemoryWork::Copy, operand(3)) : 0);
  }
  case Kind::Copy:
    return machine.memorySeconds(machine::MemoryWork::Copy, operand(0) + operand(1));
  case Kind::Accumulate:
    return machine.memorySeconds(machine::MemoryWork::Elementwise, 2 * operand(0) + operand(1));
  case Kind::Reduce:
    return machine.memorySeconds(machine::MemoryWork::Reduce, operand(0) + operand(1));
  case Kind::Call:
    return call(rank, command);
  case Kind::Launch: {
    if (isInMatmul(command))
      return epilogue(rank, command);
    double sum = 0;
    for (uint32_t k = 0; k < command.numOperands; ++k)
      sum += operand(k);
    return machine.memorySeconds(machine::MemoryWork::Elementwise, sum);
  }
  case Kind::Record:
  case Kind::Wait:
  case Kind::Collective:
  case Kind::Group:
  case Kind::Send:
  case Kind::Recv:
  case Kind::Put:
  case Kind::Signal:
  case Kind::WaitSignal:
  case Kind::GatedMatmul:
  case Kind::FusedExchange:
    break;
  }
  return 0;
}

double CommandCosts::packing(const Rank &rank, const Command &command, uint32_t k) const {
  const View *view = world.operand(rank, command, k);
  if (!view || !isForGpus())
    return 0;
  const Layout &layout = world.layoutOf(*view);
  if (layout.isDense())
    return 0;
  return machine.memorySeconds(machine::MemoryWork::Copy, 2 * layoutBytes[view->layout]) *
         (rowAlignment(layout, view->address) < kLoad ? kUnaligned : 1);
}

machine::CollectiveCost CommandCosts::collective(uint32_t index) {
  const replay::MatchedCollective &collective = world.collectives[index];
  const std::vector<uint32_t> &group = world.groups[collective.group];
  const replay::Span *span = world.spans.empty() ? nullptr : &world.spans[collective.group];
  auto size = span ? span->ranks : static_cast<uint32_t>(group.size());
  // The slice is the smaller operand; if a rank lacks one, look at other ranks.
  double slice = 0, packed = 0;
  uint8_t op = 0;
  for (uint32_t m = 0; m < group.size(); ++m) {
    CommandId member = world.members[collective.members + m];
    if (member == replay::kNone)
      continue;
    const Command &command = world.commands[member];
    const Rank &rank = world.ranks[group[m]];
    packed = std::max(packed, packing(rank, command, 0) + packing(rank, command, 1));
    if (m >= 1 && slice > 0)
      continue;
    op = command.op;
    double out = bytes(rank, command, 0), in = bytes(rank, command, 1);
    double own = out > 0 && in > 0 ? std::min(out, in) : std::max(out, in);
    // Only an all-to-all has a group of slices on both sides.
    if (static_cast<CollectiveKind>(op) == CollectiveKind::AllToAll)
      own /= static_cast<double>(size);
    slice = slice > 0 && own > 0 ? std::min(slice, own) : std::max(slice, own);
  }
  uint64_t key =
      uint64_t(collective.group) << 44 ^ uint64_t(op) << 40 ^ static_cast<uint64_t>(slice);
  auto [found, added] = collectives.try_emplace(key);
  if (added) {
    std::set<uint32_t> nodes;
    for (uint32_t rank : group)
      nodes.insert(machine.nodeOf(rank));
    found->second =
        machine.collectiveCost(static_cast<CollectiveKind>(op), size,
                               span ? span->nodes : static_cast<uint32_t>(nodes.size()), slice);
  }
  machine::CollectiveCost cost = found->second;
  cost.latency += packed;
  cost.seconds += packed;
  return cost;
}

double CommandCosts::groupAlone(uint32_t rank, CommandId command) {
  // Sends and receives use different ports at once.
  const Rank &owner = world.ranks[rank];
  double seconds[2] = {0, 0}, startup = 0;
  for (CommandId m = command + 1; m <= command + world.commands[command].aux; ++m) {
    const Command &message = world.commands[m];
    double size = bytes(owner, message, 0);
    const machine::LinkClass &link = linkOf(rank, message);
    double first = machine.messageSeconds(machine.twoSided, link, 0),
           all = machine.messageSeconds(machine.twoSided, link, size);
    startup = std::max(startup, first);
    seconds[message.kind == Kind::Send ? 0 : 1] += all - first;
  }
  return startup + std::max(seconds[0], seconds[1]);
}

double CommandCosts::alone(uint32_t rank, CommandId id) {
  const Command &command = world.commands[id];
  const Rank &owner = world.ranks[rank];
  if (isInExchangeKernel(command)) {
    if (command.kind == Kind::FusedExchange)
      return overhead(command) + machine.exchange.startup;
    double rate = std::min(exchangeRate(id), linkOf(rank, command).bandwidth.most());
    return exchangePart(owner, id) +
           (command.kind == Kind::Put ? exchangeBytes(owner, id) / rate : 0);
  }
  if (isInGatedKernel(command) && command.kind == Kind::Put)
    return bytes(owner, command, 1) / linkOf(rank, command).bandwidth.most();
  if (isInGatedKernel(command) && command.kind == Kind::Signal)
    return machine.exchange.signal;
  if (command.kind == Kind::Put)
    return overhead(command) + machine.messageSeconds(machine.oneSided, linkOf(rank, command),
                                                      bytes(owner, command, 1),
                                                      rowShare(owner, command));
  Sync sync = replay::infoOf(command.kind).sync;
  // Free when commands run one after the other; messages count with their group.
  if (sync == Sync::Record || sync == Sync::Wait || program::isMessage(command.kind))
    return 0;
  if (sync == Sync::Group)
    return overhead(command) + groupAlone(rank, id);
  if (sync == Sync::Collective)
    return overhead(command) +
           (command.partner == replay::kNone ? 0 : collective(command.partner).seconds);
  return overhead(command) + work(owner, command);
}

} // namespace tandem::simulate
