//===- CrossRankOrder.h - order between ranks by signals --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order between ranks that one-sided messages establish, proven on the ranks' common text.
//
// Signals on consecutive slots (one slot per sender, as in a loop of puts) are an *exchange*. If
// every rank of a group signals every other rank and waits for all of them, the exchange orders
// each pair: work of rank r before its first signal precedes work of rank q after its last wait. So
// q may then write memory of r that was in use before the exchange (rules S7 to S9 of
// docs/semantics.md).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_HOSTIR_EVALUATE_CROSSRANKORDER_H
#define TANDEM_DIALECT_HOSTIR_EVALUATE_CROSSRANKORDER_H

#include "tandem/Dialect/HostIR/Evaluate/ProgramWalk.h"

namespace tandem::hostir {

class CrossRankOrder : public ProgramWalk::Listener {
public:
  /// `walk` tabulates numbers for all ranks and outlives this.
  explicit CrossRankOrder(ProgramWalk &walk) : walk(walk) {}

  LogicalResult onCommand(Operation *op, int stream) override;
  /// Call after the walk, before the queries.
  void finish();

  /// The numbers of the channels over which peers write to a buffer.
  ArrayRef<unsigned> channelsInto(Operation *alloc) const;
  unsigned numChannels() const { return channels.size(); }
  /// A clock after which all writes of peers to the buffer have arrived on every rank; none if
  /// unknown. An empty buffer needs no wait.
  std::optional<Clock> arrivalOf(Operation *alloc) const;
  /// A clock on every rank q after which, for each peer r in q's group of the channel, all work of
  /// r up to `end` has happened; none if no exchange shows it.
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
    bool isTyped = false; ///< a `peer_exchange`: nothing has to be decided
    bool isSound = true;  ///< each slot has one sender, ascending values, and is waited for
    bool ordersAllPairs = false;
  };
  struct Channel {
    RankGroups groups;
    std::vector<unsigned> exchanges; ///< those that order all pairs, in issue order
  };
  struct Buffer {
    SmallVector<unsigned, 1> channels, exchanges;
    bool isUnknown = false;
  };

  void onSignal(unsigned channel, const Signal &signal, int stream);
  void onWait(WaitSignalOp op, int stream);
  void onPut(unsigned channel, Value target, Number peer, int stream);
  void onPush(PeerExchangeOp op, int stream);
  void onExchange(PeerExchangeOp op, int stream);
  unsigned channelOf(Value channel);
  void decide(Exchange &exchange) const;

  ProgramWalk &walk;
  std::vector<Channel> channels;
  llvm::DenseMap<std::pair<Attribute, Attribute>, unsigned> channelNumbers; ///< by mesh and axes
  std::vector<Exchange> exchanges;                                          ///< by first signal
  std::map<int64_t, unsigned> exchangeAt;                                   ///< by first slot
  std::vector<Wait> waits;
  /// Puts not yet followed by a signal, by the key of that signal.
  std::map<std::tuple<int, unsigned, Number, Number>, SmallVector<Operation *, 1>> pending;
  llvm::DenseMap<Operation *, Buffer> buffers;
  bool anySlotMayRise = false; ///< a signal of an unknown slot
};

} // namespace tandem::hostir

#endif // TANDEM_DIALECT_HOSTIR_EVALUATE_CROSSRANKORDER_H
