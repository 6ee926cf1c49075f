//===- VerifyCommands.cpp - checks of the command list ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramImpl.h"

#include "tandem/Program/BuiltinKernels.h"
#include "tandem/Program/ByteSet.h"
#include "tandem/Program/Commands.h"
#include "tandem/Program/ExchangeProtocol.h"
#include "tandem/Program/FusedExchange.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace tandem::program {

namespace {

/// A view operand, with the address it would have if all memory of its space lay at 0.
struct Ref {
  bool present = false;
  sp::Space space = sp::Space::arena;
  uint32_t argument = 0;
  uint64_t address = 0;
  const Layout *layout = nullptr;
};

Overlap overlap(const Ref &a, const Ref &b) {
  if (!a.present || !b.present || a.space != b.space ||
      (a.space == sp::Space::argument && a.argument != b.argument))
    return Overlap::None;
  return program::overlap(a.address, *a.layout, b.address, *b.layout);
}

/// Whether `whole` has one more dimension than `part`, outermost, of extent `count`.
bool isStackOf(const Layout &whole, const Layout &part, uint64_t count) {
  if (whole.rank != part.rank + 1u || static_cast<uint64_t>(whole.shape[0]) != count)
    return false;
  return std::equal(part.shape.begin(), part.shape.begin() + part.rank, whole.shape.begin() + 1);
}

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
      const sp::Command &head = *table.commands()->Get(partsHead);
      if (i != partsHead + head.aux())
        continue;
      if (head.kind() == sp::CommandKind::gated_matmul)
        TANDEM_RETURN_IF_ERROR(
            describeGated(gatedParts(program, partsHead)).status().withPrefix(where(partsHead)));
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
    TANDEM_RETURN_IF_ERROR(groupStructure(i, command));
    TANDEM_RETURN_IF_ERROR(partStructure(command));
    TANDEM_RETURN_IF_ERROR(channelField(command));
    TANDEM_RETURN_IF_ERROR(operandFields(command));
    switch (command.kind()) {
    case sp::CommandKind::record:
    case sp::CommandKind::wait:
      return event(command);
    case sp::CommandKind::copy:
    case sp::CommandKind::accumulate:
      return elementwise(command);
    case sp::CommandKind::matmul:
      return matmul(command);
    case sp::CommandKind::reduce:
      return reduce(command);
    case sp::CommandKind::collective:
      return collective(command);
    case sp::CommandKind::group:
      return group(i, command);
    case sp::CommandKind::send:
    case sp::CommandKind::recv:
      return message(command);
    case sp::CommandKind::put:
      return put(command);
    case sp::CommandKind::signal:
    case sp::CommandKind::wait_signal:
      return signal(command);
    case sp::CommandKind::launch:
      return launch(command);
    case sp::CommandKind::call:
      return call(command);
    case sp::CommandKind::gated_matmul:
    case sp::CommandKind::fused_exchange:
      return headOfParts(i, command);
    }
    return Status();
  }

  /// Sends and receives stand right behind their group, on its stream and channel, and nowhere
  /// else.
  Status groupStructure(uint32_t i, const sp::Command &command) {
    bool isMessage = program::isMessage(command.kind());
    if (groupLeft == 0)
      return isMessage ? invalid("is outside a group") : Status();
    const sp::Command &head = *table.commands()->Get(groupHead);
    if (!isMessage)
      return invalid("is inside the group of command {}, which has {} more messages", groupHead,
                     groupLeft);
    if (command.stream() != head.stream() || command.channel() != head.channel())
      return invalid("is on stream {} and channel {}, its group (command {}) on {} and {}",
                     command.stream(), command.channel(), groupHead, head.stream(), head.channel());
    --groupLeft;
    return Status();
  }

  /// The parts of a gated matmul or fused exchange are right behind it, on its stream.
  Status partStructure(const sp::Command &command) {
    if (partsLeft == 0)
      return Status();
    const sp::Command &head = *table.commands()->Get(partsHead);
    bool ofGated = head.kind() == sp::CommandKind::gated_matmul;
    const char *name = ofGated ? "gated matmul" : "fused exchange";
    auto allowed = static_cast<unsigned>(ofGated ? PartOf::Gated : PartOf::Exchange);
    if (!(static_cast<unsigned>(infoOf(command.kind()).partOf) & allowed))
      return invalid("is inside the {} of command {}, which has {} more parts", name, partsHead,
                     partsLeft);
    if (command.stream() != head.stream())
      return invalid("is on stream {}, its {} (command {}) on {}", command.stream(), name,
                     partsHead, head.stream());
    bool isMatmul = command.kind() == sp::CommandKind::matmul;
    if (isMatmul && (command.flags() & static_cast<uint8_t>(sp::CommandFlags::transpose_a) ||
                     command.operands()->Get(3) != sp::kNoView))
      return invalid("expected no transpose_a and no bias in a gated matmul");
    if (ofGated && command.kind() == sp::CommandKind::put && isView(command.operands()->Get(1)))
      staged.insert(table.views()->Get(command.operands()->Get(1))->buffer());
    --partsLeft;
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
      if (command.kind() == sp::CommandKind::gated_matmul)
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
      refs[k] = Ref();
      if (view == sp::kNoView) {
        if (info.operands[k].exists && !info.operands[k].isOptional)
          return invalid("operand {}: missing", k);
        continue;
      }
      if (!info.operands[k].exists)
        return invalid("operand {}: expected none, found view {}", k, view);
      if (view >= sizeOfVector(table.views()))
        return invalid("operand {}: view {} of {}", k, view, sizeOfVector(table.views()));
      refs[k] = resolve(view);
    }
    return Status();
  }

  Ref resolve(uint32_t index) const {
    const sp::View &view = *table.views()->Get(index);
    const sp::Buffer &buffer = *table.buffers()->Get(view.buffer());
    Ref ref;
    ref.present = true;
    ref.space = buffer.space();
    ref.argument = buffer.argument();
    ref.address = buffer.offset() + view.offset();
    ref.layout = &program.layouts[view.layout()];
    return ref;
  }

  Status written(const Ref &ref, std::string_view what) const {
    if (ref.space == sp::Space::argument && !program.args[ref.argument].isResult)
      return invalid("{}: writes to the input argument \"{}\"", what,
                     program.args[ref.argument].name);
    if (!isInjective(*ref.layout))
      return invalid("{}: {} writes elements more than once", what, ref.layout->str());
    return Status();
  }

  static Status sameDType(const Ref &a, const Ref &b, std::string_view what) {
    if (a.layout->dtype != b.layout->dtype)
      return invalid("{}: expected {}, found {}", what, toString(a.layout->dtype),
                     toString(b.layout->dtype));
    return Status();
  }

  static Status sameShape(const Ref &a, const Ref &b, std::string_view what) {
    if (!a.layout->sameShape(*b.layout))
      return invalid("{}: expected the shape of {}, found {}", what, a.layout->str(),
                     b.layout->str());
    return Status();
  }

  static Status disjoint(const Ref &a, const Ref &b, std::string_view what, bool orSame = false) {
    Overlap found = overlap(a, b);
    if (found == Overlap::Partial || (found == Overlap::Same && !orSame))
      return invalid("{}: overlaps the output", what);
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

  Status elementwise(const sp::Command &command) {
    TANDEM_RETURN_IF_ERROR(sameDType(refs[0], refs[1], "src"));
    TANDEM_RETURN_IF_ERROR(sameShape(refs[0], refs[1], "src"));
    TANDEM_RETURN_IF_ERROR(written(refs[0], "dst"));
    if (command.kind() == sp::CommandKind::accumulate)
      TANDEM_RETURN_IF_ERROR(combines(refs[0].layout->dtype, command.reduce_op()));
    return disjoint(refs[0], refs[1], "src", /*orSame=*/true);
  }

  Status matmul(const sp::Command &command) {
    const Layout &out = *refs[0].layout, &a = *refs[1].layout, &b = *refs[2].layout;
    if (!isFloat(out.dtype) || isFp8(out.dtype))
      return invalid("out: a matmul of {}", toString(out.dtype));
    // The types differ then: `out` has one that factors can have.
    if (!isProductType(out.dtype, a.dtype))
      return sameDType(refs[0], refs[1], "a");
    if (!areFactors(a.dtype, b.dtype))
      return sameDType(refs[1], refs[2], "b");
    if (out.rank < 2 || a.rank < 2 || b.rank < 2)
      return invalid("expected at least 2 dimensions, found out {}, a {}, b {}", out.str(), a.str(),
                     b.str());
    bool ta = command.flags() & static_cast<uint8_t>(sp::CommandFlags::transpose_a);
    bool tb = command.flags() & static_cast<uint8_t>(sp::CommandFlags::transpose_b);
    int64_t m = a.shape[a.rank - (ta ? 1 : 2)], k = a.shape[a.rank - (ta ? 2 : 1)];
    int64_t kb = b.shape[b.rank - (tb ? 1 : 2)], n = b.shape[b.rank - (tb ? 2 : 1)];
    bool fits = k == kb && out.shape[out.rank - 2] == m && out.shape[out.rank - 1] == n &&
                out.rank == std::max(a.rank, b.rank);
    for (unsigned d = 2; fits && d < out.rank; ++d) {
      int64_t extentA = d < a.rank ? a.shape[a.rank - 1 - d] : 1;
      int64_t extentB = d < b.rank ? b.shape[b.rank - 1 - d] : 1;
      fits = (extentA == extentB || extentA == 1 || extentB == 1) &&
             out.shape[out.rank - 1 - d] == (extentA == 1 ? extentB : extentA);
    }
    if (!fits)
      return invalid("shapes do not fit: out {}, a {}{}, b {}{}", out.str(), a.str(),
                     ta ? " transposed" : "", b.str(), tb ? " transposed" : "");
    if (refs[3].present) {
      DType type = refs[3].layout->dtype;
      bool isNarrow = type == DType::F16 || type == DType::BF16;
      if (isFp8(a.dtype) ? type != out.dtype && !(isNarrow && out.dtype == DType::F32)
                         : type != out.dtype && type != a.dtype)
        return invalid("bias: expected {}, found {}", toString(out.dtype), toString(type));
      if (refs[3].layout->rank > 1) {
        if (command.flags() & static_cast<uint8_t>(sp::CommandFlags::accumulate))
          return invalid("bias: expected no accumulate beside a bias of the output's shape");
        TANDEM_RETURN_IF_ERROR(sameDType(refs[0], refs[3], "bias"));
        TANDEM_RETURN_IF_ERROR(sameShape(refs[0], refs[3], "bias"));
      } else if (refs[3].layout->rank != 1 || refs[3].layout->shape[0] != n) {
        return invalid("bias: expected [{}], found {}", n, refs[3].layout->str());
      }
    }
    TANDEM_RETURN_IF_ERROR(written(refs[0], "out"));
    TANDEM_RETURN_IF_ERROR(disjoint(refs[0], refs[1], "a"));
    TANDEM_RETURN_IF_ERROR(disjoint(refs[0], refs[2], "b"));
    return disjoint(refs[0], refs[3], "bias");
  }

  static Status combines(DType dtype, sp::ReduceOp op) {
    if (dtype == DType::I1 && op == sp::ReduceOp::sum)
      return invalid("field reduce_op: a sum of i1");
    if (!isReducible(dtype))
      return invalid("field reduce_op: a reduction of {}", toString(dtype));
    return Status();
  }

  Status reduce(const sp::Command &command) {
    const Layout &dst = *refs[0].layout, &src = *refs[1].layout;
    TANDEM_RETURN_IF_ERROR(combines(src.dtype, command.reduce_op()));
    TANDEM_RETURN_IF_ERROR(sameDType(refs[0], refs[1], "src"));
    if (command.value() == 0 || (command.value() >> src.rank) != 0)
      return invalid("field value: dimensions {:#x} of {}", command.value(), src.str());
    unsigned d = 0;
    bool fits = true;
    for (unsigned s = 0; s < src.rank; ++s) {
      if (command.value() >> s & 1)
        continue;
      fits &= d < dst.rank && dst.shape[d] == src.shape[s];
      ++d;
    }
    if (!fits || d != dst.rank)
      return invalid("dst: {} is not {} without dimensions {:#x}", dst.str(), src.str(),
                     command.value());
    TANDEM_RETURN_IF_ERROR(written(refs[0], "dst"));
    return disjoint(refs[0], refs[1], "src");
  }

  Status collective(const sp::Command &command) {
    if (command.op() > static_cast<uint8_t>(sp::CollectiveKind::scatter))
      return invalid("field op: unknown collective {}", command.op());
    auto kind = static_cast<CollectiveKind>(command.op());
    const sp::Channel &channel = *table.channels()->Get(command.channel());
    uint32_t size = channel.group()->size();
    bool rooted = kind >= CollectiveKind::Broadcast;
    if (rooted && command.peer() >= size)
      return invalid("field peer: root {} of {}", command.peer(), size);
    bool isRoot = command.peer() == channel.self();
    bool stackIn = kind == CollectiveKind::ReduceScatter || kind == CollectiveKind::AllToAll ||
                   kind == CollectiveKind::Scatter;
    bool stackOut = kind == CollectiveKind::AllGather || kind == CollectiveKind::AllToAll ||
                    kind == CollectiveKind::Gather;
    bool needsIn = isRoot || (kind != CollectiveKind::Broadcast && kind != CollectiveKind::Scatter);
    bool needsOut = isRoot || (kind != CollectiveKind::Reduce && kind != CollectiveKind::Gather);
    const Ref &out = refs[0], &in = refs[1];
    if (needsOut && !out.present)
      return invalid("out: missing");
    if (needsIn && !in.present)
      return invalid("in: missing");
    if (out.present && needsOut)
      TANDEM_RETURN_IF_ERROR(written(out, "out"));
    auto isStack = [&](const Layout &layout) {
      return layout.rank > 0 && static_cast<uint64_t>(layout.shape[0]) == size;
    };
    if (out.present && stackOut && !isStack(*out.layout))
      return invalid("out: expected {} slices, found {}", size, out.layout->str());
    if (in.present && stackIn && !isStack(*in.layout))
      return invalid("in: expected {} slices, found {}", size, in.layout->str());
    bool reduces = kind == CollectiveKind::AllReduce || kind == CollectiveKind::ReduceScatter ||
                   kind == CollectiveKind::Reduce;
    if (reduces && in.present)
      TANDEM_RETURN_IF_ERROR(combines(in.layout->dtype, command.reduce_op()));
    if (!out.present || !in.present)
      return Status();
    TANDEM_RETURN_IF_ERROR(sameDType(out, in, "in"));
    bool fits = stackIn == stackOut ? out.layout->sameShape(*in.layout)
                : stackOut          ? isStackOf(*out.layout, *in.layout, size)
                                    : isStackOf(*in.layout, *out.layout, size);
    if (!fits)
      return invalid("shapes do not fit: out {}, in {}, group of {}", out.layout->str(),
                     in.layout->str(), size);
    return collectiveAliasing(kind, out, in, channel.self());
  }

  /// In place means: `in` is exactly `out`, or its own slice of it (and the other way round).
  Status collectiveAliasing(CollectiveKind kind, const Ref &out, const Ref &in, uint32_t self) {
    auto own = [&](const Ref &stack, Layout &layout) {
      TensorView slice = TensorView{nullptr, *stack.layout}.slice(0);
      layout = slice.layout;
      Ref ref = stack;
      ref.address +=
          uint64_t(self) * static_cast<uint64_t>(stack.layout->strides[0]) * sizeOf(layout.dtype);
      ref.layout = &layout;
      return ref;
    };
    Layout layout;
    if (overlap(out, in) == Overlap::None)
      return Status();
    Overlap found = Overlap::Partial;
    if (kind == CollectiveKind::AllGather || kind == CollectiveKind::Gather)
      found = overlap(own(out, layout), in);
    else if (kind == CollectiveKind::ReduceScatter || kind == CollectiveKind::Scatter)
      found = overlap(out, own(in, layout));
    else if (kind != CollectiveKind::AllToAll)
      found = overlap(out, in);
    if (found != Overlap::Same)
      return invalid("in: overlaps the output");
    return Status();
  }

  Status group(uint32_t i, const sp::Command &command) {
    if (command.aux() > sizeOfVector(table.commands()) - i - 1)
      return invalid("field aux: {} messages, only {} commands follow", command.aux(),
                     sizeOfVector(table.commands()) - i - 1);
    groupHead = i;
    groupLeft = command.aux();
    groupRefs.clear();
    return Status();
  }

  /// Of a gated matmul or fused exchange.
  Status headOfParts(uint32_t i, const sp::Command &command) {
    uint32_t after = sizeOfVector(table.commands()) - i - 1;
    if (command.aux() > after)
      return invalid("field aux: {} parts, only {} commands follow", command.aux(), after);
    if (command.value() > kMostSms)
      return invalid("field value: expected at most {} SMs, found {}", kMostSms, command.value());
    if (command.kind() == sp::CommandKind::fused_exchange &&
        (command.value() == 0 || command.value() > kMostExchangeBlocks))
      return invalid("field value: expected 1 to {} thread blocks, found {}", kMostExchangeBlocks,
                     command.value());
    if (command.kind() == sp::CommandKind::fused_exchange && command.op() >= kNumExchangeProtocols)
      return invalid("field op: expected a protocol below {}, found {}", kNumExchangeProtocols,
                     command.op());
    // Its parts are compared with each other.
    if (command.kind() == sp::CommandKind::fused_exchange && command.aux() > kMostExchangeParts)
      return invalid("field aux: expected at most {} parts, found {}", kMostExchangeParts,
                     command.aux());
    partsHead = i;
    partsLeft = command.aux();
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
      TANDEM_RETURN_IF_ERROR(written(refs[0], "buffer"));
    // A receive must not touch what another message of the group touches. Bounded: a group may be
    // large.
    constexpr size_t kMaxCompared = 64;
    if (groupRefs.size() < kMaxCompared) {
      for (const auto &[other, otherSends] : groupRefs)
        if (!(isSend && otherSends) && overlap(refs[0], other) != Overlap::None)
          return invalid("buffer: overlaps another message's of its group");
      groupRefs.push_back({refs[0], isSend});
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
    if (refs[0].space != sp::Space::symmetric)
      return invalid("dst: expected symmetric memory");
    TANDEM_RETURN_IF_ERROR(sameDType(refs[0], refs[1], "src"));
    TANDEM_RETURN_IF_ERROR(sameShape(refs[0], refs[1], "src"));
    TANDEM_RETURN_IF_ERROR(written(refs[0], "dst"));
    if (command.peer() == table.channels()->Get(command.channel())->self())
      return disjoint(refs[0], refs[1], "src", /*orSame=*/true);
    return Status();
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

  /// The kernel and the operands of a launch or call.
  Status kernelFields(const sp::Command &command) {
    if (command.aux() >= sizeOfVector(table.kernels()))
      return invalid("field aux: kernel {} of {}", command.aux(), sizeOfVector(table.kernels()));
    const sp::Kernel &kernel = *table.kernels()->Get(command.aux());
    bool isCall = command.kind() == sp::CommandKind::call;
    if (isCall != (kernel.format() == sp::KernelFormat::external))
      return invalid("field aux: kernel \"{}\" is {}", kernel.name()->string_view(),
                     isCall ? "not external" : "external");
    uint32_t first = command.operands()->Get(0), count = command.operands()->Get(1);
    uint32_t all = sizeOfVector(table.launch_operands());
    if (first > all || count > all - first)
      return invalid("operands: {} from {} of {} launch_operands", count, first, all);
    return Status();
  }

  Status call(const sp::Command &command) {
    TANDEM_RETURN_IF_ERROR(kernelFields(command));
    const sp::Kernel &kernel = *table.kernels()->Get(command.aux());
    uint32_t first = command.operands()->Get(0), count = command.operands()->Get(1);
    if (count != sizeOfVector(kernel.operand_types()))
      return invalid("operands: kernel \"{}\" has {}, found {}", kernel.name()->string_view(),
                     sizeOfVector(kernel.operand_types()), count);
    const uint32_t outputs = kernel.outputs();
    std::vector<Ref> written;
    std::vector<Layout> layouts;
    std::vector<int64_t> extents; // of parallel dimensions
    uint32_t dim = 0;
    for (uint32_t k = 0; k < count; ++k) {
      std::string what = fmt::format("operand {}", k);
      Ref operand = resolve(table.launch_operands()->Get(first + k));
      if (k < outputs)
        TANDEM_RETURN_IF_ERROR(this->written(operand, what));
      const Layout &layout = *operand.layout;
      layouts.push_back(layout);
      if (auto expected = static_cast<DType>(kernel.operand_types()->Get(k));
          layout.dtype != expected)
        return invalid("{}: kernel \"{}\" expects {}, found {}", what, kernel.name()->string_view(),
                       toString(expected), toString(layout.dtype));
      for (const Ref &output : written)
        TANDEM_RETURN_IF_ERROR(disjoint(output, operand, what));
      if (k < outputs)
        written.push_back(operand);
      if (!kernel.strided() && !layout.isDense())
        return invalid("{}: kernel \"{}\" expects dense views, found {}", what,
                       kernel.name()->string_view(), layout.str());
      if (layout.rank > sizeOfVector(kernel.dims()) - dim)
        return invalid("{}: kernel \"{}\" has dims of {} dimensions, found more", what,
                       kernel.name()->string_view(), sizeOfVector(kernel.dims()));
      TANDEM_RETURN_IF_ERROR(
          parallelDims(kernel, dim, layout, k, outputs, extents).withPrefix(what));
      dim += layout.rank;
    }
    if (dim != sizeOfVector(kernel.dims()))
      return invalid("operands: kernel \"{}\" has dims of {} dimensions, found {}",
                     kernel.name()->string_view(), sizeOfVector(kernel.dims()), dim);
    if (std::string_view name = kernel.name()->string_view(); isBuiltin(name)) {
      if (name != kGroupedMatmul)
        return invalid("field aux: expected a kernel that the runtime has, found \"{}\"", name);
      std::string_view config = kernel.config() ? kernel.config()->string_view() : "";
      TANDEM_RETURN_IF_ERROR(describeGroupedMatmul(config, outputs, layouts)
                                 .status()
                                 .withPrefix(fmt::format("kernel \"{}\": ", name)));
    }
    for (uint32_t v = 0; v < sizeOfVector(kernel.varying()); ++v)
      if (kernel.varying()->Get(v) >= extents.size())
        return invalid("kernel \"{}\": varying parallel dimension {} of {}",
                       kernel.name()->string_view(), kernel.varying()->Get(v), extents.size());
    uint64_t places = sizeOfVector(table.call_places());
    if (command.value() > places || extents.size() > places - command.value())
      return invalid("field value: {} from {} of {} call_places", extents.size(), command.value(),
                     places);
    for (uint32_t n = 0; n < extents.size(); ++n) {
      const sp::CallPlace &place =
          *table.call_places()->Get(static_cast<uint32_t>(command.value()) + n);
      if (place.offset() < 0 || place.extent() < extents[n] ||
          place.offset() > place.extent() - extents[n])
        return invalid("parallel dimension {}: {} indices from {} on of {}", n, extents[n],
                       place.offset(), place.extent());
    }
    return Status();
  }

  /// The parallel dimensions of operand `k`, whose dims begin at `dim`: the first output adds its
  /// `extents`, all outputs have them in this order.
  static Status parallelDims(const sp::Kernel &kernel, uint32_t dim, const Layout &layout,
                             uint32_t k, uint32_t outputs, std::vector<int64_t> &extents) {
    size_t next = 0;
    for (unsigned d = 0; d < layout.rank; ++d) {
      const int8_t number = kernel.dims()->Get(dim + d);
      if (number < 0)
        continue;
      auto n = size_t{static_cast<uint8_t>(number)};
      if (k < outputs && n != next++)
        return invalid(", dimension {}: expected parallel dimension {}, found {}", d, next - 1, n);
      if (k == 0)
        extents.push_back(layout.shape[d]);
      else if (n >= extents.size() || extents[n] != layout.shape[d]) {
        return invalid(", dimension {}: {} indices of parallel dimension {}, which the output {}",
                       d, layout.shape[d], n,
                       n >= extents.size() ? std::string("lacks")
                                           : fmt::format("has {} of", extents[n]));
      }
    }
    if (k < outputs && next != extents.size())
      return invalid(": expected {} parallel dimensions, found {}", extents.size(), next);
    return Status();
  }

  Status launch(const sp::Command &command) {
    TANDEM_RETURN_IF_ERROR(kernelFields(command));
    const sp::Kernel &kernel = *table.kernels()->Get(command.aux());
    uint32_t first = command.operands()->Get(0), count = command.operands()->Get(1);
    // Of native code only this is known: how many operands there are, and which it writes.
    bool isExpression = kernel.format() == sp::KernelFormat::expression;
    const ExpressionTypes &types = program.expressions[command.aux()];
    const auto *declared = kernel.operand_types();
    uint32_t outputs = isExpression ? types.outputs : kernel.outputs();
    uint32_t expected = isExpression ? outputs + types.inputs : sizeOfVector(declared);
    if (expected == 0 ? count < outputs : count != expected)
      return invalid("operands: kernel \"{}\" has {}, found {}", kernel.name()->string_view(),
                     std::max(outputs, expected), count);
    std::vector<Ref> operands(count);
    for (uint32_t k = 0; k < count; ++k)
      operands[k] = resolve(table.launch_operands()->Get(first + k));
    for (uint32_t k = 0; k < count; ++k) {
      std::string what = fmt::format("operand {}", k);
      DType dtype = operands[k].layout->dtype;
      if (sizeOfVector(declared) != 0 && dtype != static_cast<DType>(declared->Get(k)))
        return invalid("{}: kernel \"{}\" expects {}, found {}", what, kernel.name()->string_view(),
                       toString(static_cast<DType>(declared->Get(k))), toString(dtype));
      if (k < outputs)
        TANDEM_RETURN_IF_ERROR(written(operands[k], what));
      if (!isExpression)
        continue;
      TANDEM_RETURN_IF_ERROR(sameShape(operands[0], operands[k], what));
      if (Status status = checkAccess(types, k, dtype); !status.ok())
        return status.withPrefix(what + ": ");
      for (uint32_t out = 0; out < outputs && out < k; ++out)
        TANDEM_RETURN_IF_ERROR(
            disjoint(operands[out], operands[k], what, /*orSame=*/k >= types.outputs));
    }
    return Status();
  }

  const ProgramImpl &program;
  const sp::RankProgram &table;
  std::vector<char> recorded;
  std::unordered_set<uint32_t> staged; ///< buffers that puts of gated matmuls read
  Ref refs[4];
  uint32_t groupHead = 0, groupLeft = 0, partsHead = 0, partsLeft = 0;
  std::vector<std::pair<Ref, bool>> groupRefs;
  std::unordered_map<uint64_t, std::unordered_set<uint32_t>> tags;
};

} // namespace

/// The same elements in the same order; ignores strides of dimensions of size 1.
static bool sameElements(const Layout &a, const Layout &b) {
  if (a.dtype != b.dtype || !a.sameShape(b))
    return false;
  for (unsigned d = 0; d < a.rank; ++d)
    if (a.shape[d] > 1 && a.strides[d] != b.strides[d])
      return false;
  return true;
}

Overlap overlap(uint64_t a, const Layout &layoutA, uint64_t b, const Layout &layoutB) {
  uint64_t spanA = layoutA.spanBytes(), spanB = layoutB.spanBytes();
  if (spanA == 0 || spanB == 0 || a + spanA <= b || b + spanB <= a)
    return Overlap::None;
  if (a == b && sameElements(layoutA, layoutB))
    return Overlap::Same;
  return commonBytes(a, ByteSet(layoutA), b, ByteSet(layoutB)).value_or(0) ? Overlap::Partial
                                                                           : Overlap::None;
}

Overlap overlap(const PlacedView &a, const PlacedView &b) {
  return a.buffer == b.buffer ? overlap(a.address, a.layout, b.address, b.layout) : Overlap::None;
}

bool isInjective(const Layout &layout) {
  ByteSet set(layout);
  return set.isNested && set.bytes == layout.numBytes();
}

Status verifyCommands(const ProgramImpl &program) { return CommandVerifier(program).run(); }

} // namespace tandem::program
