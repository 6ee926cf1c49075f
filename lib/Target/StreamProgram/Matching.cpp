//===- Matching.cpp - messages and collectives across ranks -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Matching.h"

#include <tuple>

using namespace mlir;

namespace tandem::target {

static uint64_t keyOf(const Message &m) {
  return uint64_t(m.channel) << 48 | uint64_t(m.from) << 24 | m.to;
}

Matcher::Matcher(const Code &code)
    : code(code), inboxes(code.numRanks), groups(code.channels.size()),
      done(code.channels.size(), 0) {
  for (auto [channel, info] : llvm::enumerate(code.channels))
    groups[channel].resize(info.members.size() / info.groupSize);
}

void Matcher::beginRank(uint32_t newRank) {
  rank = newRank;
  std::fill(done.begin(), done.end(), 0);
  open.clear();
  std::vector<Open> inbox;
  inbox.swap(inboxes[rank]);
  table.assign(llvm::PowerOf2Ceil(std::max<size_t>(16, 2 * inbox.size())), kNone);
  for (const Open &message : inbox)
    insert(message);
}

size_t Matcher::find(uint64_t key, uint32_t number) const {
  uint64_t h = (key ^ (uint64_t(number) << 40) ^ number) * 0x9e3779b97f4a7c15ull;
  h ^= h >> 29;
  size_t mask = table.size() - 1, i = (h * 0xbf58476d1ce4e5b9ull >> 20) & mask;
  while (table[i] != kNone && (open[table[i]].key != key || open[table[i]].number != number))
    i = (i + 1) & mask;
  return i;
}

void Matcher::insert(const Open &message) {
  if (2 * open.size() >= table.size()) {
    // Only messages of a rank to itself are inserted later.
    table.assign(2 * table.size(), kNone);
    for (auto [place, other] : llvm::enumerate(open))
      table[find(other.key, other.number)] = place;
  }
  table[find(message.key, message.number)] = open.size();
  open.push_back(message);
}

LogicalResult Matcher::message(const Message &m) {
  Open mine = {keyOf(m), m.number, m.instr << 1 | m.isSend,
               m.bytes << 8 | static_cast<uint64_t>(m.dtype), false};
  uint32_t peer = m.isSend ? m.to : m.from;
  if (peer > rank) {
    inboxes[peer].push_back(mine);
    return success();
  }
  uint32_t place = table[find(mine.key, mine.number)];
  if (place != kNone) {
    Open &other = open[place];
    other.closed = true;
    return other.bytesAndType == mine.bytesAndType ? success() : mismatch(m, other);
  }
  if (peer < rank)
    return alone(mine, 0);
  insert(mine); // a rank with itself: the other side may follow
  return success();
}

LogicalResult Matcher::mismatch(const Message &m, const Open &other) const {
  auto size = [](uint64_t bytesAndType) {
    return (Twine(bytesAndType >> 8) + " bytes of " +
            sp::EnumNameDType(static_cast<sp::DType>(bytesAndType & 255)))
        .str();
  };
  std::string mine = size(m.bytes << 8 | static_cast<uint64_t>(m.dtype));
  std::string theirs = size(other.bytesAndType);
  InFlightDiagnostic diag = code.ops[m.instr]->emitOpError("message ");
  diag << m.number << " from rank " << m.from << " to rank " << m.to << " over channel \""
       << code.channels[m.channel].name << "\": " << (m.isSend ? mine : theirs) << " are sent, "
       << (m.isSend ? theirs : mine) << " are expected";
  diag.attachNote(code.ops[other.instrAndSide >> 1]->getLoc())
      << "see the " << (other.instrAndSide & 1 ? "send" : "receive");
  return diag;
}

LogicalResult Matcher::alone(const Open &message, size_t more) const {
  uint32_t from = message.key >> 24 & 0xffffff, to = message.key & 0xffffff;
  bool isSend = message.instrAndSide & 1;
  InFlightDiagnostic diag = code.ops[message.instrAndSide >> 1]->emitOpError();
  diag << "rank " << (isSend ? from : to) << (isSend ? ": sends message " : ": expects message ")
       << message.number << " from rank " << from << " to rank " << to << " over channel \""
       << code.channels[message.key >> 48].name << "\", which rank " << (isSend ? to : from)
       << (isSend ? " never receives" : " never sends");
  if (more)
    diag << " (and " << more << " more messages without another side)";
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
  const Open *first = nullptr;
  size_t left = 0;
  for (const Open &message : open) {
    if (message.closed)
      continue;
    ++left;
    if (!first || std::tie(message.key, message.number) < std::tie(first->key, first->number))
      first = &message;
  }
  if (left)
    return alone(*first, left - 1);
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

} // namespace tandem::target
