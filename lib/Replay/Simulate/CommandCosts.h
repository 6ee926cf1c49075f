//===- CommandCosts.h - the time of each command alone ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SIMULATE_COMMANDCOSTS_H
#define TANDEM_LIB_SIMULATE_COMMANDCOSTS_H

#include "tandem/Replay/Machine.h"
#include "tandem/Replay/World.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <vector>

namespace tandem::simulate {

/// Bytes that a GPU's matmul loads at a time.
inline constexpr uint64_t kLoad = 16;

/// To what the rows of a product's result and factors are aligned, in bytes: where all of them
/// begin.
struct MatmulAlignment {
  uint64_t out = machine::kCacheLine;
  machine::RowAlignment factors;
  uint64_t least() const { return std::min({out, factors.left, factors.right}); }
};
MatmulAlignment alignmentsOf(const replay::World &world, const replay::View &out,
                             const replay::View &left, const replay::View &right);

/// Rows of a matmul times the extent of K.
double areaOf(const replay::World &world, const replay::Rank &rank, const replay::Command &matmul);

/// Computes and caches the machine's costs of a world's commands.
class CommandCosts {
public:
  CommandCosts(const replay::World &world, const machine::Machine &machine,
               const machine::Launching &launching)
      : world(world), machine(machine), launching(launching) {
    for (const Layout &layout : world.layouts)
      layoutBytes.push_back(static_cast<double>(layout.numBytes()));
    if (machine.oneSided.drift < 1 && machine.oneSided.mover == machine::Mover::Copy)
      findPutsOfSums();
  }

  static machine::Cost costOf(replay::Kind kind) { return replay::infoOf(kind).cost; }
  double issue(const replay::Command &command) const {
    return isFree(command) ? 0 : launching.issue[static_cast<size_t>(costOf(command.kind))];
  }
  double overhead(replay::Kind kind) const {
    return launching.device[static_cast<size_t>(costOf(kind))];
  }
  double overhead(const replay::Command &command) const {
    return isFree(command) ? 0 : overhead(command.kind);
  }

  /// Where the peer of a command is.
  replay::Reach reachOf(uint32_t rank, const replay::Command &command) const {
    if (command.reach != replay::Reach::Unknown)
      return command.reach;
    if (command.peer == rank)
      return replay::Reach::Self;
    return machine.nodeOf(rank) == machine.nodeOf(command.peer) ? replay::Reach::Node
                                                                : replay::Reach::Network;
  }
  /// ... and the links that lead there.
  const machine::LinkClass &linkOf(uint32_t rank, const replay::Command &command) const {
    return reachOf(rank, command) == replay::Reach::Network ? machine.network : machine.node;
  }

  /// Whether one kernel runs this fused exchange, or the fused exchange of which this is a part.
  bool isInExchangeKernel(const replay::Command &command) const {
    const replay::Command &head = command.isFused ? world.commands[command.partner] : command;
    return machine.hasExchangeKernel && head.kind == replay::Kind::FusedExchange &&
           (head.flags & replay::kHasKernel);
  }
  /// Of a part of such a kernel: seconds of all its blocks, but for a put those of its startup.
  double exchangePart(const replay::Rank &rank, replay::CommandId part) const;
  /// Bytes per second that the blocks of its kernel store to a peer.
  double exchangeRate(replay::CommandId part) const {
    return exchangeBlocks(part) * machine.exchange.stores;
  }
  /// How its kernel signals, as far as the machine file prices it.
  program::ExchangeProtocol exchangeProtocol(replay::CommandId part) const;
  /// What a put of its kernel sends: half of each word may be a flag.
  double exchangeBytes(const replay::Rank &rank, replay::CommandId put) const {
    return bytes(rank, world.commands[put], 1) *
           (exchangeProtocol(put) == program::ExchangeProtocol::LL ? 2 : 1);
  }
  /// The SMs of a fused exchange, or of the one of a part.
  double exchangeBlocks(replay::CommandId command) const;

  /// Whether one kernel runs this gated matmul, or the one of which this is a part.
  bool isInGatedKernel(const replay::Command &command) const {
    const replay::Command &head = command.isGated ? world.commands[command.partner] : command;
    return machine.hasGatedMatmuls() && head.kind == replay::Kind::GatedMatmul &&
           (head.flags & replay::kHasKernel) &&
           (!(head.flags & replay::kHasPuts) || machine.hasEpiloguePush());
  }

  /// How the kernel of a gated matmul is divided. All SMs that it has compute one tile each at a
  /// time: a *wave*.
  struct GatedKernel {
    double unit = 0; ///< seconds for a row and an index of K, when all gates are open
    double wave = 0; ///< seconds of a wave
    double sms = 1;
    double tileRows = 1;    ///< of a cluster
    double tilesPerRow = 0; ///< of a row of clusters
    double depth = 1;       ///< K of the whole product
    bool waits = false; ///< for signals: it has parts that begin later than those before them end
    double waves(double rows) const;
  };
  const GatedKernel &gatedKernel(const replay::Rank &rank, const replay::Command &part);
  /// Of a matmul in it: its rows, and its share of K.
  struct GatedRows {
    double rows, share;
  };
  GatedRows gatedRows(const replay::Rank &rank, const replay::Command &part);

  /// Whether this is a launch that runs inside the matmul before it.
  bool isInMatmul(const replay::Command &command) const;

  /// Seconds of a matmul, copy, accumulate, reduce or launch alone, without overhead.
  double work(const replay::Rank &rank, const replay::Command &command);
  /// Bytes of operand `k`; 0 if absent.
  double bytes(const replay::Rank &rank, const replay::Command &command, uint32_t k) const;
  /// Of the rate of a put without gaps at the target, what this one has (Transport::rows).
  double rowShare(const replay::Rank &rank, const replay::Command &put) const;
  /// The share of its rate that a put of a sum has (Transport::drift); 1 for other puts.
  double driftShare(replay::CommandId put) const {
    return driftShares.empty() ? 1 : driftShares[put];
  }
  machine::CollectiveCost collective(uint32_t index);
  /// Seconds of the copy by which operand `k` of a message or collective comes from, or goes to,
  /// memory without gaps: what libraries send has none.
  double packing(const replay::Rank &rank, const replay::Command &command, uint32_t k) const;
  /// Seconds of a command alone, with overheads; for a group, with its messages.
  double alone(uint32_t rank, replay::CommandId command);

private:
  bool isForGpus() const { return machine.sms > 1; }
  void findPutsOfSums();
  /// One kernel runs a gated matmul or fused exchange: then its parts are not launched. On other
  /// machines its parts are, and there is no other launch.
  bool isFree(const replay::Command &command) const;
  GatedKernel tiled(const replay::Rank &rank, replay::CommandId head) const;
  double matmul(const replay::Rank &rank, const replay::Command &command);
  /// Seconds by which a launch makes the matmul that it runs in longer.
  double epilogue(const replay::Rank &rank, const replay::Command &launch);
  double groupedMatmul(const replay::Rank &rank, const replay::Command &command);
  double call(const replay::Rank &rank, const replay::Command &command);
  double groupAlone(uint32_t rank, replay::CommandId command);

  const replay::World &world;
  const machine::Machine &machine;
  const machine::Launching &launching;
  std::vector<double> layoutBytes;
  std::vector<double> driftShares; ///< by command; empty: all are 1
  /// By layouts, and how the operands lie.
  std::map<std::array<uint32_t, 4>, double> matmuls;
  std::unordered_map<replay::CommandId, GatedKernel> gated; ///< by their heads
  std::unordered_map<uint64_t, machine::CollectiveCost> collectives;
};

} // namespace tandem::simulate

#endif // TANDEM_LIB_SIMULATE_COMMANDCOSTS_H
