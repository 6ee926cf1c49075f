//===- CrossRankOrder.h - order between ranks by signals --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What one-sided messages order between ranks, proven on the text that all ranks share.
//
// Signals whose slots follow each other (one slot per sender, as a loop of puts uses them) are an
// *exchange*. If in an exchange every rank of a group signals every other one and waits for it,
// then it orders each pair of ranks: what rank r did before its first signal is before what rank q
// does after its last wait, for all r and q. So memory of r that was in use before the exchange may
// be written by q after it (rules S7 to S9 of docs/semantics.md).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_HOSTIR_EVALUATE_CROSSRANKORDER_H
#define TANDEM_DIALECT_HOSTIR_EVALUATE_CROSSRANKORDER_H

#include "tandem/Dialect/HostIR/Evaluate/ProgramWalk.h"

namespace tandem::hostir {

class CrossRankOrder : public ProgramWalk::Listener {
public:
  /// `walk` tabulates numbers for all ranks, and outlives this.
  explicit CrossRankOrder(ProgramWalk &walk) : walk(walk) {}

  LogicalResult onCommand(Operation *op, int stream) override;
  /// To be called once the walk is over, before the queries.
  void finish();

  /// The channels over which peers write to a buffer, by number.
  ArrayRef<unsigned> channelsInto(Operation *alloc) const;
  unsigned numChannels() const { return channels.size(); }
  /// A clock after which all that peers write to the buffer has arrived on every rank. None if that
  /// is not known. Empty buffers of peers have arrived at once.
  std::optional<Clock> arrivalOf(Operation *alloc) const;
  /// A clock on every rank q after which, for each peer r in q's group of the channel, all that r
  /// did up to `end` has happened. None if no exchange says so.
  std::optional<Clock> knownToPeers(unsigned channel, const Clock &end) const;

private:
  struct Signal {
    Number slot, peer, issuers;
    int64_t value;
  };
  struct Wait {
    Number slot, issuers;
    int64_t value;
    int stream;
    Position position;
  };
  struct Exchange {
    unsigned channel;
    int64_t firstSlot, lastSlot;
    int stream;
    Position begin;
    Clock before; ///< of all signals
    Clock after;  ///< the last wait for all of them
    int64_t value = 0;
    std::vector<Signal> signals;
    std::vector<Wait> waits;
    bool isSound = true; ///< each slot has one sender, whose values grow, and is waited for
    bool ordersAllPairs = false;
  };
  struct Channel {
    RankGroups groups;
    std::vector<unsigned> exchanges; ///< that order all pairs, in issue order
  };
  struct Buffer {
    SmallVector<unsigned, 1> channels, exchanges;
    bool isUnknown = false;
  };

  void onSignal(SignalOp op, int stream);
  void onWait(WaitSignalOp op, int stream);
  void onPut(PutOp op, int stream);
  unsigned channelOf(Value channel);
  std::optional<unsigned> exchangeOf(unsigned channel, Number slot, int stream);
  void decide(Exchange &exchange) const;

  ProgramWalk &walk;
  std::vector<Channel> channels;
  llvm::DenseMap<std::pair<Attribute, Attribute>, unsigned> channelNumbers; ///< by mesh and axes
  std::vector<Exchange> exchanges;                                          ///< by first signal
  std::map<int64_t, unsigned> exchangeAt;                                   ///< by first slot
  std::vector<Wait> waits;
  /// Puts that no signal follows yet, by what that signal must be like.
  std::map<std::tuple<int, unsigned, Number, Number>, SmallVector<Operation *, 1>> pending;
  llvm::DenseMap<Operation *, Buffer> buffers;
  bool anySlotMayRise = false; ///< a signal of an unknown slot
};

} // namespace tandem::hostir

#endif // TANDEM_DIALECT_HOSTIR_EVALUATE_CROSSRANKORDER_H
