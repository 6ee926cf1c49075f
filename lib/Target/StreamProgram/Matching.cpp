//===- Matching.cpp - messages and collectives across ranks -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Matching.h"

#include <tuple>

namespace mlir::tandem::target {

static uint64_t keyOf(const Message &m) {
  return uint64_t(m.channel) << 48 | uint64_t(m.from) << 24 | m.to;
}

Matcher::Matcher(const Code &code)
    : code(code), table(1024, Open{0, 0, 0, kEmpty}), groups(code.channels.size()),
      done(code.channels.size(), 0) {
  for (auto [channel, info] : llvm::enumerate(code.channels))
    groups[channel].resize(info.members.size() / info.groupSize);
}

void Matcher::beginRank(uint32_t newRank) {
  rank = newRank;
  std::fill(done.begin(), done.end(), 0);
}

size_t Matcher::home(uint64_t key, uint32_t number) const {
  uint64_t h = (key ^ (uint64_t(number) << 40) ^ number) * 0x9e3779b97f4a7c15ull;
  h ^= h >> 29;
  return (h * 0xbf58476d1ce4e5b9ull >> 20) & (table.size() - 1);
}

void Matcher::grow() {
  std::vector<Open> old(table.size() * 2, Open{0, 0, 0, kEmpty});
  old.swap(table);
  for (const Open &open : old) {
    if (open.bytesAndType == kEmpty)
      continue;
    size_t i = home(open.key, open.number);
    while (table[i].bytesAndType != kEmpty)
      i = (i + 1) & (table.size() - 1);
    table[i] = open;
  }
}

LogicalResult Matcher::message(const Message &m) {
  uint64_t key = keyOf(m);
  uint64_t bytesAndType = m.bytes << 2 | static_cast<uint64_t>(m.dtype);
  size_t mask = table.size() - 1, i = home(key, m.number);
  for (; table[i].bytesAndType != kEmpty; i = (i + 1) & mask) {
    if (table[i].key != key || table[i].number != m.number)
      continue;
    if (table[i].bytesAndType != bytesAndType)
      return mismatch(m, table[i]);
    // Closed. Entries behind it that would have stood here move up, so that probing needs no
    // tombstones.
    for (size_t j = i;;) {
      table[i].bytesAndType = kEmpty;
      for (;;) {
        j = (j + 1) & mask;
        if (table[j].bytesAndType == kEmpty) {
          --used;
          return success();
        }
        size_t h = home(table[j].key, table[j].number);
        if (((j - h) & mask) >= ((j - i) & mask))
          break;
      }
      table[i] = table[j];
      i = j;
    }
  }
  table[i] = Open{key, m.number, m.instr << 1 | m.isSend, bytesAndType};
  if (++used * 2 > table.size())
    grow();
  return success();
}

LogicalResult Matcher::mismatch(const Message &m, const Open &other) const {
  auto size = [](uint64_t bytesAndType) {
    return (Twine(bytesAndType >> 2) + " bytes of " +
            sp::EnumNameDType(static_cast<sp::DType>(bytesAndType & 3)))
        .str();
  };
  std::string mine = size(m.bytes << 2 | static_cast<uint64_t>(m.dtype));
  std::string theirs = size(other.bytesAndType);
  InFlightDiagnostic diag = code.ops[m.instr]->emitOpError("message ");
  diag << m.number << " from rank " << m.from << " to rank " << m.to << " over channel \""
       << code.channels[m.channel].name << "\": " << (m.isSend ? mine : theirs) << " are sent, "
       << (m.isSend ? theirs : mine) << " are expected";
  diag.attachNote(code.ops[other.instrAndSide >> 1]->getLoc())
      << "see the " << (other.instrAndSide & 1 ? "send" : "receive");
  return diag;
}

LogicalResult Matcher::finish() {
  if (used == 0)
    return success();
  const Open *first = nullptr;
  for (const Open &open : table)
    if (open.bytesAndType != kEmpty &&
        (!first || std::tie(open.key, open.number) < std::tie(first->key, first->number)))
      first = &open;
  uint32_t from = first->key >> 24 & 0xffffff, to = first->key & 0xffffff;
  bool isSend = first->instrAndSide & 1;
  InFlightDiagnostic diag = code.ops[first->instrAndSide >> 1]->emitOpError();
  diag << "rank " << (isSend ? from : to) << (isSend ? ": sends message " : ": expects message ")
       << first->number << " from rank " << from << " to rank " << to << " over channel \""
       << code.channels[first->key >> 48].name << "\", which rank " << (isSend ? to : from)
       << (isSend ? " never receives" : " never sends");
  if (used > 1)
    diag << " (and " << used - 1 << " more messages without another side)";
  return diag;
}

LogicalResult Matcher::collective(uint32_t channel, const CollectiveCall &call) {
  const ChannelInfo &info = code.channels[channel];
  Group &group = groups[channel][info.group[rank]];
  uint32_t number = done[channel]++;
  if (group.firstRank == kNone || group.firstRank == rank) {
    group.firstRank = rank;
    group.calls.push_back(call);
    return success();
  }
  auto text = [](const CollectiveCall &c) {
    std::string s =
        (Twine(sp::EnumNameCollectiveKind(static_cast<sp::CollectiveKind>(c.kind))) + " of " +
         Twine(c.bytes) + " bytes of " + sp::EnumNameDType(static_cast<sp::DType>(c.dtype)))
            .str();
    if (c.root != kNone)
      s += (" with root " + Twine(c.root)).str();
    if (c.reduction)
      s += (Twine(" by ") + sp::EnumNameReduceOp(static_cast<sp::ReduceOp>(c.reduction))).str();
    return s;
  };
  if (number >= group.calls.size()) {
    InFlightDiagnostic diag = code.ops[call.instr]->emitOpError();
    diag << "rank " << rank << " calls collective " << number << " of channel \"" << info.name
         << "\" (" << text(call) << "), rank " << group.firstRank << " has only "
         << group.calls.size();
    return diag;
  }
  const CollectiveCall &other = group.calls[number];
  if (std::tie(other.kind, other.reduction, other.dtype, other.root, other.bytes) ==
      std::tie(call.kind, call.reduction, call.dtype, call.root, call.bytes))
    return success();
  InFlightDiagnostic diag = code.ops[call.instr]->emitOpError();
  diag << "rank " << rank << " calls " << text(call) << " as collective " << number
       << " of channel \"" << info.name << "\", rank " << group.firstRank << " calls "
       << text(other);
  diag.attachNote(code.ops[other.instr]->getLoc())
      << "see the operation of rank " << group.firstRank;
  return diag;
}

LogicalResult Matcher::endRank() {
  for (auto [channel, info] : llvm::enumerate(code.channels)) {
    if (info.group[rank] < 0)
      continue;
    Group &group = groups[channel][info.group[rank]];
    if (group.firstRank == kNone)
      group.firstRank = rank;
    if (done[channel] == group.calls.size())
      continue;
    InFlightDiagnostic diag = code.ops[group.calls[done[channel]].instr]->emitOpError();
    diag << "rank " << group.firstRank << " calls " << group.calls.size()
         << " collectives of channel \"" << info.name << "\", rank " << rank << " calls "
         << done[channel];
    return diag;
  }
  return success();
}

} // namespace mlir::tandem::target
