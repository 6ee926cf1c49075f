//===- VerifyCommands.cpp - checks of the command list ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "VerifyOperands.h"

#include "tandem/Program/Commands.h"
#include "tandem/Program/ExchangeProtocol.h"
#include "tandem/Program/FusedExchange.h"

#include <unordered_map>
#include <unordered_set>

namespace tandem::program {

namespace {

/// More than any GPU has.
constexpr uint64_t kMostSms = 1 << 20;
constexpr uint32_t kMostExchangeParts = 1 << 13;

class CommandVerifier {
public:
  explicit CommandVerifier(const ProgramImpl &program)
      : program(program), table(*program.table), recorded(table.num_events(), 0) {}

  Status run() {
    uint32_t count = sizeOfVector(table.commands());
    for (uint32_t i = 0; i < count; ++i) {
      Status status = verify(i);
      if (!status.ok())
        return status.withPrefix(where(i));
      // Its parts are good by now.
      if (left == 0 && i == head + table.commands()->Get(head)->aux() &&
          isGatedMatmul(table.commands()->Get(head)->kind()))
        TANDEM_RETURN_IF_ERROR(
            describeGated(gatedParts(program, head)).status().withPrefix(where(head)));
    }
    return staged.empty() ? Status() : stagedBuffers();
  }

private:
  std::string where(uint32_t i) const {
    const sp::Command &command = *table.commands()->Get(i);
    const char *kind = sp::EnumNameCommandKind(command.kind());
    return fmt::format("command {} ({} \"{}\"): ", i, *kind ? kind : "?",
                       program.nameText(command.name()));
  }

  Status verify(uint32_t i) {
    const sp::Command &command = *table.commands()->Get(i);
    if (static_cast<size_t>(command.kind()) >= kNumCommandKinds)
      return invalid("field kind: unknown command {}", static_cast<unsigned>(command.kind()));
    if (command.name() >= sizeOfVector(table.names()))
      return invalid("field name: {} of {}", command.name(), sizeOfVector(table.names()));
    if (command.stream() >= table.num_streams())
      return invalid("field stream: {} of {}", command.stream(), table.num_streams());
    if (command.reserved() != 0)
      return invalid("field reserved: expected 0, found {}", command.reserved());
    if (static_cast<uint8_t>(command.reduce_op()) > 2)
      return invalid("field reduce_op: unknown operation {}",
                     static_cast<unsigned>(command.reduce_op()));
    unsigned allowed = infoOf(command.kind()).flags;
    if (command.flags() & ~allowed)
      return invalid("field flags: unexpected {:#x}", command.flags() & ~allowed);
    TANDEM_RETURN_IF_ERROR(place(command));
    TANDEM_RETURN_IF_ERROR(channelField(command));
    TANDEM_RETURN_IF_ERROR(operandFields(command));
    switch (command.kind()) {
    case sp::CommandKind::record:
    case sp::CommandKind::wait:
      return event(command);
    case sp::CommandKind::copy:
    case sp::CommandKind::accumulate:
      return verifyElementwise(program, command, refs);
    case sp::CommandKind::matmul:
      return verifyMatmul(program, command, refs);
    case sp::CommandKind::reduce:
      return verifyReduce(program, command, refs);
    case sp::CommandKind::collective:
      return verifyCollective(program, command, refs);
    case sp::CommandKind::group:
    case sp::CommandKind::gated_matmul:
    case sp::CommandKind::fused_exchange:
      return opens(i, command);
    case sp::CommandKind::send:
    case sp::CommandKind::recv:
      return message(command);
    case sp::CommandKind::put:
      return put(command);
    case sp::CommandKind::signal:
    case sp::CommandKind::wait_signal:
      return signal(command);
    case sp::CommandKind::launch:
    case sp::CommandKind::call:
      return verifyKernel(program, command);
    }
    return Status();
  }

  /// Messages follow their group, on its stream and channel, and parts their gated matmul or
  /// fused exchange, on its stream.
  Status place(const sp::Command &command) {
    PartOf partOf = infoOf(command.kind()).partOf;
    if (left == 0)
      return partOf == PartOf::Group ? invalid("is outside a group") : Status();
    const sp::Command &owner = *table.commands()->Get(head);
    bool isGroup = owner.kind() == sp::CommandKind::group;
    bool isGated = isGatedMatmul(owner.kind());
    const char *name = infoOf(owner.kind()).name;
    PartOf holder = isGroup ? PartOf::Group : isGated ? PartOf::Gated : PartOf::Exchange;
    if (!(static_cast<unsigned>(partOf) & static_cast<unsigned>(holder)))
      return invalid("is inside the {} of command {}, which has {} more {}", name, head, left,
                     isGroup ? "messages" : "parts");
    if (command.stream() != owner.stream())
      return invalid("is on stream {}, its {} (command {}) on {}", command.stream(), name, head,
                     owner.stream());
    if (isGroup && command.channel() != owner.channel())
      return invalid("is on channel {}, its group (command {}) on {}", command.channel(), head,
                     owner.channel());
    uint32_t source = command.operands()->Get(1);
    if (command.kind() == sp::CommandKind::matmul &&
        (command.flags() & static_cast<uint8_t>(sp::CommandFlags::transpose_a) ||
         command.operands()->Get(3) != sp::kNoView))
      return invalid("expected no transpose_a and no bias in a gated matmul");
    if (isGated && command.kind() == sp::CommandKind::put && isView(source))
      staged.insert(table.views()->Get(source)->buffer());
    --left;
    return Status();
  }

  bool isView(uint32_t view) const { return view < sizeOfVector(table.views()); }

  /// Gated matmuls may leave what their puts send unwritten on this rank, so nothing else reads it.
  Status stagedBuffers() const {
    for (uint32_t buffer : staged)
      if (table.buffers()->Get(buffer)->space() == sp::Space::argument)
        return invalid("buffer {}: expected a put of a gated matmul to read no argument", buffer);
    auto isStaged = [&](uint32_t view) {
      return isView(view) && staged.count(table.views()->Get(view)->buffer()) > 0;
    };
    uint32_t end = 0; // of the parts of the last gated matmul
    for (uint32_t i = 0; i < sizeOfVector(table.commands()); ++i) {
      const sp::Command &command = *table.commands()->Get(i);
      if (isGatedMatmul(command.kind()))
        end = i + 1 + command.aux();
      bool launches = infoOf(command.kind()).takesList;
      uint32_t first = launches ? command.operands()->Get(0) : 0;
      for (uint32_t k = 0, count = launches ? command.operands()->Get(1) : 4; k < count; ++k) {
        bool isPlace = i < end && k == (command.kind() == sp::CommandKind::put ? 1 : 0);
        if (!isPlace && isStaged(launches ? table.launch_operands()->Get(first + k)
                                          : command.operands()->Get(k)))
          return invalid("operand {}: is in memory whose contents a gated matmul does not keep", k)
              .withPrefix(where(i));
      }
    }
    return Status();
  }

  Status channelField(const sp::Command &command) {
    auto needed = static_cast<uint32_t>(infoOf(command.kind()).needs);
    if (needed == 0)
      return command.channel() == sp::kNoChannel
                 ? Status()
                 : invalid("field channel: expected none, found {}", command.channel());
    if (command.channel() >= sizeOfVector(table.channels()))
      return invalid("field channel: {} of {}", command.channel(), sizeOfVector(table.channels()));
    const sp::Channel &channel = *table.channels()->Get(command.channel());
    if (sizeOfVector(channel.group()) == 0)
      return invalid("field channel: this rank does not take part in channel {}",
                     command.channel());
    if (!(channel.capabilities() & needed))
      return invalid("field channel: channel {} lacks {}", command.channel(),
                     sp::EnumNameCapability(static_cast<sp::Capability>(needed)));
    return Status();
  }

  /// Resolves the operands; which must be there, and which must not.
  Status operandFields(const sp::Command &command) {
    const CommandInfo &info = infoOf(command.kind());
    if (info.takesList) // their operands are not views
      return Status();
    for (unsigned k = 0; k < 4; ++k) {
      uint32_t view = command.operands()->Get(k);
      refs[k].reset();
      if (view == sp::kNoView) {
        if (info.operands[k].exists && !info.operands[k].isOptional)
          return invalid("operand {}: missing", k);
        continue;
      }
      if (!info.operands[k].exists)
        return invalid("operand {}: expected none, found view {}", k, view);
      if (view >= sizeOfVector(table.views()))
        return invalid("operand {}: view {} of {}", k, view, sizeOfVector(table.views()));
      refs[k] = placedView(program, view);
    }
    return Status();
  }

  Status event(const sp::Command &command) {
    uint32_t event = command.aux();
    if (event >= recorded.size())
      return invalid("field aux: event {} of {}", event, recorded.size());
    if (command.kind() == sp::CommandKind::wait)
      return recorded[event] ? Status() : invalid("event {} has not been recorded before", event);
    if (recorded[event])
      return invalid("event {} is recorded twice", event);
    recorded[event] = 1;
    return Status();
  }

  /// Of a group, gated matmul or fused exchange: what follows it.
  Status opens(uint32_t i, const sp::Command &command) {
    uint32_t after = sizeOfVector(table.commands()) - i - 1;
    bool isGroup = command.kind() == sp::CommandKind::group;
    if (command.aux() > after)
      return invalid("field aux: {} {}, only {} commands follow", command.aux(),
                     isGroup ? "messages" : "parts", after);
    if (!isGroup && command.value() > kMostSms)
      return invalid("field value: expected at most {} SMs, found {}", kMostSms, command.value());
    if (isFusedExchange(command.kind())) {
      if (command.value() == 0 || command.value() > kMostExchangeBlocks)
        return invalid("field value: expected 1 to {} thread blocks, found {}", kMostExchangeBlocks,
                       command.value());
      if (command.op() >= kNumExchangeProtocols)
        return invalid("field op: expected a protocol below {}, found {}", kNumExchangeProtocols,
                       command.op());
      // Its parts are compared with each other.
      if (command.aux() > kMostExchangeParts)
        return invalid("field aux: expected at most {} parts, found {}", kMostExchangeParts,
                       command.aux());
    }
    head = i;
    left = command.aux();
    groupRefs.clear();
    return Status();
  }

  Status message(const sp::Command &command) {
    bool isSend = command.kind() == sp::CommandKind::send;
    TANDEM_RETURN_IF_ERROR(peer(command));
    // (channel, peer, direction, tag) names a message.
    uint64_t end = uint64_t(command.channel()) << 33 | uint64_t(command.peer()) << 1 | isSend;
    if (!tags[end].insert(command.aux()).second)
      return invalid("field aux: tag {} is used twice for this channel, peer and direction",
                     command.aux());
    if (!isSend)
      TANDEM_RETURN_IF_ERROR(checkWritten(program, *refs[0], "buffer"));
    // A receive must not touch what another message of the group touches. Bounded: a group may be
    // large.
    constexpr size_t kMaxCompared = 64;
    if (groupRefs.size() < kMaxCompared) {
      for (const auto &[other, otherSends] : groupRefs)
        if (!(isSend && otherSends) && overlap(*refs[0], other) != Overlap::None)
          return invalid("buffer: overlaps another message's of its group");
      groupRefs.push_back({*refs[0], isSend});
    }
    return Status();
  }

  Status peer(const sp::Command &command) {
    uint32_t size = table.channels()->Get(command.channel())->group()->size();
    if (command.peer() >= size)
      return invalid("field peer: {} of {}", command.peer(), size);
    return Status();
  }

  Status put(const sp::Command &command) {
    TANDEM_RETURN_IF_ERROR(peer(command));
    if (refs[0]->buffer >> 32 != static_cast<uint64_t>(sp::Space::symmetric))
      return invalid("dst: expected symmetric memory");
    return verifyElementwise(program, command, refs);
  }

  Status signal(const sp::Command &command) {
    if (command.kind() == sp::CommandKind::signal)
      TANDEM_RETURN_IF_ERROR(peer(command));
    uint32_t slots = sizeOfVector(table.signal_slots());
    if (command.aux() >= slots)
      return invalid("field aux: signal slot {} of {}", command.aux(), slots);
    uint64_t most = table.signal_slots()->Get(command.aux());
    if (command.value() < 1 || command.value() > most)
      return invalid("field value: expected 1 to {}, found {}", most, command.value());
    return Status();
  }

  const ProgramImpl &program;
  const sp::RankProgram &table;
  std::vector<char> recorded;
  std::unordered_set<uint32_t> staged; ///< buffers that puts of gated matmuls read
  Operands refs;
  uint32_t head = 0, left = 0; ///< the group or fused command whose messages or parts follow
  std::vector<std::pair<PlacedView, bool>> groupRefs; ///< and whether they are sent
  std::unordered_map<uint64_t, std::unordered_set<uint32_t>> tags;
};

} // namespace

Status verifyCommands(const ProgramImpl &program) { return CommandVerifier(program).run(); }

} // namespace tandem::program
