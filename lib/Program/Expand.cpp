//===- Expand.cpp - the parts of typed exchanges ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Expand.h"

#include "ProgramImpl.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

namespace tandem::program {

std::vector<DerivedPart> deriveParts(ExchangeKind kind, uint32_t members,
                                     const std::vector<bool> &hasCopy) {
  using V = ExchangeView;
  std::vector<DerivedPart> parts;
  auto add = [&](CommandKind command, uint32_t value, V out, V in, uint32_t distance = 0,
                 uint32_t shot = 0) { parts.push_back({command, value, out, in, distance, shot}); };
  auto toPeers = [&](uint32_t value, V out, V in) {
    for (uint32_t d = 1; d < members; ++d)
      add(CommandKind::Put, value, out, in, d);
  };
  auto barrier = [&](uint32_t shot) {
    for (CommandKind command : {CommandKind::Signal, CommandKind::WaitSignal})
      for (uint32_t d = 1; d < members; ++d)
        add(command, 0, {}, {}, d, shot);
  };
  auto copyArrived = [&] {
    for (uint32_t value = 0; value < hasCopy.size(); ++value)
      for (uint32_t d = 1; hasCopy[value] && d < members; ++d)
        add(CommandKind::Copy, value, {V::Copy, V::OfPeer}, {V::Out, V::OfPeer}, d);
  };
  if (isAllGather(kind)) {
    for (uint32_t value = 0; value < hasCopy.size(); ++value) {
      add(CommandKind::Copy, value, {V::Out, V::OfSelf}, {V::In, V::All});
      if (hasCopy[value])
        add(CommandKind::Copy, value, {V::Copy, V::OfSelf}, {V::In, V::All});
      toPeers(value, {V::Out, V::OfSelf}, {V::In, V::All});
    }
    barrier(0);
    copyArrived();
    return parts;
  }
  if (kind == ExchangeKind::Push) {
    for (uint32_t d = 1; d < members; ++d)
      for (uint32_t value = 0; value < hasCopy.size(); ++value) {
        add(CommandKind::Put, value, {V::Out, V::All}, {V::In, V::All}, d);
        add(CommandKind::Signal, value, {}, {}, d);
      }
    return parts;
  }
  bool inParts = kind != ExchangeKind::OneShotAllReduce, twoShot = isTwoShot(kind);
  add(CommandKind::Copy, 0, {V::Scratch, V::OfSelf}, {V::In, inParts ? V::OfSelf : V::All});
  toPeers(0, {V::Scratch, V::OfSelf}, {V::In, inParts ? V::OfPeer : V::All});
  barrier(0);
  V sum{twoShot && hasCopy[0] ? V::Copy : V::Out, twoShot ? V::OfSelf : V::All};
  add(CommandKind::Reduce, 0, sum, {V::Scratch, V::All});
  if (twoShot) {
    toPeers(0, {V::Out, V::OfSelf}, sum);
    barrier(1);
    copyArrived();
  }
  return parts;
}

const sp::Exchange *exchangeOf(const sp::RankProgram &data, const sp::Command &head) {
  return isFusedExchange(head.kind()) ? data.exchanges()->Get(head.peer()) : nullptr;
}

namespace {

/// Writes out the parts of one rank's exchanges. Indices of views, layouts and names are verified.
class Expander {
public:
  Expander(const Program &stored, sp::RankProgramT &program)
      : stored(stored), program(program), owners(program.signal_slots.size(), kNone) {}

  Status run() {
    std::vector<sp::Command> before;
    before.swap(program.commands);
    for (uint32_t i = 0; i < before.size(); ++i) {
      program.commands.push_back(before[i]);
      const sp::Command &head = before[i];
      if (isFusedExchange(head.kind()))
        TANDEM_RETURN_IF_ERROR(
            expand(head).withPrefix(fmt::format("exchanges[{}]: ", head.peer())));
    }
    for (const sp::Command &command : before)
      if ((command.kind() == sp::CommandKind::signal ||
           command.kind() == sp::CommandKind::wait_signal) &&
          owners[command.aux()] != kNone &&
          (command.kind() == sp::CommandKind::signal || !isPush(owners[command.aux()])))
        return invalid("field aux: slot {} belongs to an exchange", command.aux());
    return Status();
  }

private:
  Status expand(const sp::Command &head) {
    const sp::ExchangeT &exchange = *program.exchanges[head.peer()];
    TANDEM_RETURN_IF_ERROR(verify(exchange, head));
    auto kind = static_cast<ExchangeKind>(exchange.kind);
    const sp::ChannelT &channel = *program.channels[exchange.channel];
    auto members = static_cast<uint32_t>(channel.group.size());
    std::vector<bool> hasCopy;
    for (uint32_t copy : exchange.copy)
      hasCopy.push_back(copy != sp::kNoView);
    std::vector<DerivedPart> parts = deriveParts(kind, members, hasCopy);
    const uint32_t none[4] = {sp::kNoView, sp::kNoView, sp::kNoView, sp::kNoView};
    program.commands.back() = sp::Command(
        head.kind(), head.flags(), head.op(), head.reduce_op(), head.stream(), head.channel(),
        head.name(), none, head.peer(), static_cast<uint32_t>(parts.size()), head.value(), 0);
    for (const DerivedPart &part : parts) {
      uint32_t self = channel.self, peer = part.peer(self, members);
      TANDEM_ASSIGN_OR_RETURN(uint32_t out,
                              view(exchange, kind, part.out, part.value, self, peer, members));
      TANDEM_ASSIGN_OR_RETURN(uint32_t in,
                              view(exchange, kind, part.in, part.value, self, peer, members));
      const uint32_t operands[4] = {out, in, sp::kNoView, sp::kNoView};
      bool isSignal = part.kind == CommandKind::Signal,
           isWait = part.kind == CommandKind::WaitSignal,
           reduces = part.kind == CommandKind::Reduce;
      bool sends = isSignal || part.kind == CommandKind::Put;
      uint32_t slot = exchange.slot + part.shot * members + (isSignal ? self : peer);
      program.commands.emplace_back(
          static_cast<sp::CommandKind>(part.kind),
          isSignal ? static_cast<uint8_t>(sp::CommandFlags::exclusive) : uint8_t(0), uint8_t(0),
          reduces ? exchange.reduce_op : sp::ReduceOp::sum, head.stream(),
          sends || isWait ? exchange.channel : sp::kNoChannel, name(head.name(), part.kind),
          operands, sends ? peer : 0, isSignal || isWait ? slot : 0,
          reduces              ? 1
          : isSignal || isWait ? exchange.value + part.value
                               : 0,
          uint64_t(0));
    }
    return Status();
  }

  /// What the derived commands do not show.
  Status verify(const sp::ExchangeT &exchange, const sp::Command &head) {
    if (static_cast<unsigned>(exchange.kind) >= kNumExchangeKinds)
      return invalid("field kind: unknown kind {}", static_cast<unsigned>(exchange.kind));
    auto kind = static_cast<ExchangeKind>(exchange.kind);
    if (exchange.channel >= program.channels.size())
      return invalid("field channel: {} of {}", exchange.channel, program.channels.size());
    const sp::ChannelT &channel = *program.channels[exchange.channel];
    uint64_t members = channel.group.size(), slots = members * (isTwoShot(kind) ? 2 : 1);
    if (members < 2)
      return invalid("field channel: expected at least 2 members, found {}", members);
    if (exchange.slot + slots > owners.size())
      return invalid("field slot: slots {} to {} of {}", exchange.slot, exchange.slot + slots - 1,
                     owners.size());
    for (uint64_t slot = exchange.slot; slot < exchange.slot + slots; ++slot) {
      uint32_t owner = owners[slot] == kNone ? head.peer() : owners[slot];
      const sp::ExchangeT &other = *program.exchanges[owner];
      if (other.slot != exchange.slot || other.kind != exchange.kind ||
          other.channel != exchange.channel)
        return invalid("field slot: slot {} belongs to exchange {}", slot, owner);
      owners[slot] = owner;
    }
    size_t values = exchange.in.size();
    if (values == 0 || (values > 1 && reduces(kind)) || exchange.out.size() != values ||
        exchange.copy.size() != values)
      return invalid(
          "expected one value, or as many in, out and copy of an all_gather or push; found {}, "
          "{} and {}",
          values, exchange.out.size(), exchange.copy.size());
    bool mayCopy = isAllGather(kind) || isTwoShot(kind);
    for (const std::vector<uint32_t> *list : {&exchange.in, &exchange.out, &exchange.copy})
      for (uint32_t view : *list)
        if (view >= program.views.size() && !(list == &exchange.copy && view == sp::kNoView))
          return invalid("view {} of {}", view, program.views.size());
    for (uint32_t copy : exchange.copy)
      if (!mayCopy && copy != sp::kNoView)
        return invalid("field copy: expected none, found view {}", copy);
    if (reduces(kind) ? exchange.scratch >= program.views.size() : exchange.scratch != sp::kNoView)
      return invalid("field scratch: view {} of {}", exchange.scratch, program.views.size());
    if (head.aux() != 0)
      return invalid("expected no parts in the file, found {}", head.aux());
    TANDEM_RETURN_IF_ERROR(verifyMemory(exchange, kind));
    if (kind == ExchangeKind::Push && head.op() != 0)
      return invalid("expected one signal per step of a push, which other commands await");
    if (head.op() == static_cast<uint8_t>(ExchangeProtocol::LL) && (isTwoShot(kind) || values > 1))
      return invalid("protocol LL: expected one shot and one value, found {} shots and {} values",
                     isTwoShot(kind) ? 2 : 1, values);
    return Status();
  }

  /// Views that are written overlap no other, but that an all-reduce may be in place. So a thread
  /// of a kernel needs from others, of this rank and of all, only what a protocol orders.
  Status verifyMemory(const sp::ExchangeT &exchange, ExchangeKind kind) const {
    std::vector<std::pair<const char *, uint32_t>> views;
    for (uint32_t view : exchange.in)
      views.emplace_back("in", view);
    if (kind == ExchangeKind::Push)
      views.clear(); // all it writes is memory of others
    size_t written = views.size();
    for (uint32_t view : exchange.out)
      views.emplace_back("out", view);
    for (uint32_t view : exchange.copy)
      views.emplace_back("copy", view);
    views.emplace_back("scratch", exchange.scratch);
    bool mayBeInPlace = kind == ExchangeKind::OneShotAllReduce || isTwoShot(kind);
    for (size_t j = written; j < views.size(); ++j)
      for (size_t i = 0; i < j && views[j].second != sp::kNoView; ++i) {
        if (views[i].second == sp::kNoView || (mayBeInPlace && i == 0 && j == 1))
          continue;
        if (overlap(placedView(stored, views[i].second), placedView(stored, views[j].second)) !=
            Overlap::None)
          return invalid("field {}: overlaps {}", views[j].first, views[i].first);
      }
    if (mayBeInPlace && overlap(placedView(stored, exchange.in[0]),
                                placedView(stored, exchange.out[0])) == Overlap::Partial)
      return invalid("field out: overlaps other elements of in");
    return Status();
  }

  const sp::LayoutT &layoutOf(uint32_t view) const {
    return *program.layouts[program.views[view].layout()];
  }

  Expected<uint32_t> view(const sp::ExchangeT &exchange, ExchangeKind kind, ExchangeView which,
                          uint32_t value, uint32_t self, uint32_t peer, uint32_t members) {
    using V = ExchangeView;
    if (which.operand == V::None)
      return sp::kNoView;
    uint32_t whole = which.operand == V::In     ? exchange.in[value]
                     : which.operand == V::Out  ? exchange.out[value]
                     : which.operand == V::Copy ? exchange.copy[value]
                                                : exchange.scratch;
    if (which.part == V::All)
      return whole;
    // A part is an index of the first dimension, or one of G ranges of dimension `cut`.
    bool isRange = isTwoShot(kind) && which.operand != V::Scratch;
    uint32_t dim = isRange ? exchange.cut : 0, member = which.part == V::OfSelf ? self : peer;
    const sp::LayoutT &layout = layoutOf(whole);
    if (dim >= layout.shape.size() ||
        (isRange ? layout.shape[dim] % members != 0 : layout.shape[dim] != members))
      return invalid("expected a part for each of {} members in dimension {} of view {}", members,
                     dim, whole);
    auto [known, isNew] = views.try_emplace(std::tuple(whole, isRange, member), 0);
    if (!isNew)
      return known->second;
    int64_t extent = layout.shape[dim] / members; // 1, of an index
    uint64_t offset = uint64_t(member) * static_cast<uint64_t>(extent * layout.strides[dim]) *
                      sizeOf(static_cast<DType>(layout.dtype));
    auto [cut, isNewLayout] =
        layouts.try_emplace(std::tuple(program.views[whole].layout(), isRange, dim),
                            static_cast<uint32_t>(program.layouts.size()));
    if (isNewLayout) {
      auto part = std::make_unique<sp::LayoutT>(layout);
      part->shape[dim] = extent;
      if (!isRange) {
        part->shape.erase(part->shape.begin());
        part->strides.erase(part->strides.begin());
      }
      program.layouts.push_back(std::move(part));
    }
    const sp::View of = program.views[whole];
    known->second = static_cast<uint32_t>(program.views.size());
    program.views.emplace_back(of.buffer(), cut->second, of.offset() + offset);
    return known->second;
  }

  /// Parts are called what they are, at the location of their exchange.
  uint32_t name(uint32_t head, CommandKind kind) {
    auto [known, isNew] =
        names.try_emplace(std::pair(head, kind), static_cast<uint32_t>(program.names.size()));
    if (isNew) {
      auto name = std::make_unique<sp::NameT>(*program.names[head]);
      name->text = toString(kind);
      program.names.push_back(std::move(name));
    }
    return known->second;
  }

  static constexpr uint32_t kNone = ~uint32_t(0);
  bool isPush(uint32_t exchange) const {
    return program.exchanges[exchange]->kind == sp::ExchangeKind::push;
  }

  const Program &stored;
  sp::RankProgramT &program;
  std::vector<uint32_t> owners; ///< by slot: the first exchange that has it
  std::map<std::tuple<uint32_t, bool, uint32_t>, uint32_t> views, layouts;
  std::map<std::pair<uint32_t, CommandKind>, uint32_t> names;
};

} // namespace

Status expandExchanges(ProgramImpl &program) {
  const sp::RankProgram &stored = *program.table;
  bool hasExchange = false;
  for (uint32_t i = 0; i < sizeOfVector(stored.commands()); ++i) {
    const sp::Command &command = *stored.commands()->Get(i);
    if (!isFusedExchange(command.kind()))
      continue;
    if (command.peer() >= sizeOfVector(stored.exchanges()))
      return invalid("command {}: field peer: exchange {} of {}", i, command.peer(),
                     sizeOfVector(stored.exchanges()));
    hasExchange = true;
  }
  if (!hasExchange)
    return Status();
  sp::RankProgramT expanded;
  stored.UnPackTo(&expanded);
  TANDEM_RETURN_IF_ERROR(Expander(program, expanded).run());
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(sp::RankProgram::Pack(builder, &expanded));
  std::shared_ptr<std::byte> bytes = allocateAligned(builder.GetSize());
  if (!bytes)
    return Status(Code::OutOfMemory,
                  fmt::format("{} bytes for the parts of exchanges", builder.GetSize()));
  std::memcpy(bytes.get(), builder.GetBufferPointer(), builder.GetSize());
  program.bytes = {std::move(bytes), builder.GetSize()};
  program.table = flatbuffers::GetRoot<sp::RankProgram>(program.bytes.begin());
  program.args.clear();
  program.layouts.clear();
  program.expressions.clear();
  return Status();
}

} // namespace tandem::program
