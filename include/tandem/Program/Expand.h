//===- Expand.h - the parts of typed exchanges ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A typed exchange (sp::Exchange) says what a fused exchange does. Its copies, puts, signals, waits
// and reductions are derived here, and nowhere else: for the checker, the simulator, the CPU, and
// any device without the kernel.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_EXPAND_H
#define TANDEM_PROGRAM_EXPAND_H

#include "tandem/Program/Commands.h"
#include "tandem/Program/ExchangeProtocol.h"

#include <vector>

namespace tandem::sp {
struct Command;
struct Exchange;
struct RankProgram;
} // namespace tandem::sp

namespace tandem::program {

/// Numbers as in the stream program and as hostir::ExchangeKind.
enum class ExchangeKind : uint8_t {
  AllGather,
  ReduceScatter,
  OneShotAllReduce,
  TwoShotAllReduce,
  Push
};
inline constexpr unsigned kNumExchangeKinds = 5;

/// A view of an exchange: all of an operand, or the part of one member.
struct ExchangeView {
  enum Operand : uint8_t { None, In, Out, Copy, Scratch };
  enum Part : uint8_t { All, OfSelf, OfPeer };
  Operand operand = None;
  Part part = All;
};

/// One derived part: equal on all members, which differ in `self` and so in the peer.
struct DerivedPart {
  CommandKind kind = CommandKind::Copy;
  uint32_t value = 0; ///< which of several values; a signal of a push: of this one
  ExchangeView out = {}, in = {};
  uint32_t distance = 0;
  uint32_t shot = 0; ///< of a signal or wait: its slot is slot + shot * members + the raiser

  /// The member that a put or signal is to, or that a wait or copy is for: at distance 1 of 4,
  /// member 0 sends to 3 and receives from 1.
  uint32_t peer(uint32_t self, uint32_t members) const {
    bool sends = kind == CommandKind::Put || kind == CommandKind::Signal;
    return (self + (sends ? members - distance : distance)) % members;
  }
};

/// The parts in the order of commands. `hasCopy`: one for each value.
std::vector<DerivedPart> deriveParts(ExchangeKind kind, uint32_t members,
                                     const std::vector<bool> &hasCopy);

inline bool isTwoShot(ExchangeKind kind) { return kind == ExchangeKind::TwoShotAllReduce; }
inline bool isAllGather(ExchangeKind kind) { return kind == ExchangeKind::AllGather; }
inline bool reduces(ExchangeKind kind) { return !isAllGather(kind) && kind != ExchangeKind::Push; }

/// The LL protocol (ExchangeProtocol::LL): the most members, and the most bytes of a value that a
/// member sends to another one.
inline constexpr uint32_t kMaxLLRanks = 8;
inline constexpr uint64_t kMaxLLBytes = uint64_t(1) << 19;

/// The table of a fused exchange; null: the command is none.
const sp::Exchange *exchangeOf(const sp::RankProgram &data, const sp::Command &head);

} // namespace tandem::program

#endif // TANDEM_PROGRAM_EXPAND_H
