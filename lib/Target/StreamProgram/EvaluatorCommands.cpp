//===- EvaluatorCommands.cpp - operations that make commands ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include "tandem/Program/Commands.h"
#include "tandem/Program/Gated.h"

using namespace mlir;

namespace tandem::target {

/// The runtime's limit.
constexpr int64_t kMaxSignalValue = int64_t(1) << 32;

static Opcode opcodeOf(const Instr &instr) { return static_cast<Opcode>(instr.op); }

LogicalResult Evaluator::operand(const Instr &instr, uint32_t slot, uint32_t &result) {
  if (surveying) { // the run that writes the command resolves it
    result = 0;
    return success();
  }
  const View &view = views[slot];
  std::optional<uint32_t> number = tables.view(view);
  if (LLVM_UNLIKELY(!number)) {
    const BufferInfo &buffer = tables.bufferOf(view);
    InFlightDiagnostic diag = error(instr);
    diag << "view out of bounds: " << code.layouts[view.layout].str() << " at byte " << view.offset
         << " of a buffer of " << buffer.bytes << " bytes";
    if (buffer.firstPart != kNone)
      diag << " in parts of " << code.buffers[buffer.firstPart].bytes;
    return diag;
  }
  result = *number;
  return success();
}

const ChannelInfo *Evaluator::channel(const Instr &instr, uint32_t slot, uint16_t &number) {
  number = static_cast<uint16_t>(ints[slot]);
  const ChannelInfo &info = code.channels[number];
  if (LLVM_LIKELY(info.group[rank] >= 0))
    return &info;
  error(instr) << "takes no part in channel \"" << info.name << "\": it is outside " << info.mesh;
  return nullptr;
}

LogicalResult Evaluator::peer(const Instr &instr, const ChannelInfo &channel, StringRef what,
                              int64_t value) {
  if (LLVM_LIKELY(value >= 0 && value < channel.groupSize))
    return success();
  return error(instr) << what << " " << value << " is outside the group of " << channel.groupSize
                      << " of channel \"" << channel.name << "\"";
}

LogicalResult Evaluator::command(const Instr &instr) {
  using K = sp::CommandKind;
  switch (opcodeOf(instr)) {
  case Opcode::Local: {
    auto kind = static_cast<K>(instr.width);
    const program::CommandInfo &info = program::infoOf(kind);
    const uint32_t slots[] = {instr.a, instr.b, instr.c, instr.d};
    uint32_t operands[] = {kNone, kNone, kNone, kNone};
    for (unsigned k :
         {1, 2, 3, 0}) // buffers are numbered in the order of their use: what is read first
      if (info.operands[k].exists && slots[k] != kNone &&
          failed(operand(instr, slots[k], operands[k])))
        return failure();
    RawCommand &raw = tables.command(kind, instr, ints[instr.e]);
    llvm::copy(operands, raw.operands);
    (info.flags ? raw.flags : raw.reduceOp) = instr.aux;
    raw.value = instr.target;
    return success();
  }
  case Opcode::GroupBegin: {
    uint16_t number;
    if (!channel(instr, instr.d, number))
      return failure();
    openGroup = &instr;
    groupCommand = tables.commands.size();
    tables.command(K::group, instr, ints[instr.e]).channel = number;
    return success();
  }
  case Opcode::GroupEnd: {
    size_t members = tables.commands.size() - groupCommand - 1;
    openGroup = nullptr;
    if (members == 0)
      tables.cancel();
    else
      tables.commands[groupCommand].aux = static_cast<uint32_t>(members);
    return success();
  }
  case Opcode::GatedBegin:
    gatedCommand = tables.commands.size();
    tables.command(K::gated_matmul, instr, ints[instr.e]).value = instr.a;
    return success();
  case Opcode::GatedEnd:
    return endGated(instr);
  case Opcode::Send:
  case Opcode::Recv:
    return message(instr);
  case Opcode::Put: {
    uint16_t number;
    uint32_t source, target;
    const ChannelInfo *info = channel(instr, instr.d, number);
    if (!info || failed(peer(instr, *info, "peer", ints[instr.c])) ||
        failed(operand(instr, instr.a, source)) || failed(operand(instr, instr.b, target)))
      return failure();
    RawCommand &raw = tables.command(K::put, instr, ints[instr.e]);
    raw.channel = number;
    raw.operands[0] = target;
    raw.operands[1] = source;
    raw.peer = static_cast<uint32_t>(ints[instr.c]);
    return success();
  }
  case Opcode::Collective:
    return collective(instr);
  case Opcode::Signal:
  case Opcode::WaitSignal:
    return signal(instr);
  case Opcode::Exchange:
    return exchange(instr);
  case Opcode::Launch:
  case Opcode::Call:
    return launch(instr);
  default:
    return error(instr) << "unknown instruction";
  }
}

static program::PlacedView placeOf(const Evaluator &evaluator, const RawCommand &raw, unsigned k) {
  View view = evaluator.tables.viewAt(raw.operands[k]);
  return {view.buffer, static_cast<uint64_t>(view.offset), evaluator.code.layouts[view.layout]};
}

LogicalResult Evaluator::endGated(const Instr &instr) {
  std::vector<program::GatedPart> parts;
  ArrayRef<RawCommand> commands = ArrayRef(tables.commands).drop_front(gatedCommand + 1);
  tables.commands[gatedCommand].aux = static_cast<uint32_t>(commands.size());
  if (surveying) // operands are not resolved
    return success();
  for (const RawCommand &raw : commands) {
    program::GatedPart &part = parts.emplace_back();
    using Kind = program::GatedPart::Kind;
    part.kind = static_cast<program::CommandKind>(raw.kind);
    if (part.kind == Kind::Put || part.kind == Kind::Signal) {
      part.channel = raw.channel;
      part.peer = raw.peer;
      part.toSelf = raw.peer == code.channels[raw.channel].self[rank];
    }
    if (part.kind == Kind::WaitSignal || part.kind == Kind::Signal)
      continue;
    part.out = placeOf(*this, raw, 0);
    part.a = placeOf(*this, raw, 1);
    if (part.kind == Kind::Put)
      continue;
    part.transposeB = raw.flags & static_cast<uint8_t>(sp::CommandFlags::transpose_b);
    part.accumulate = raw.flags & static_cast<uint8_t>(sp::CommandFlags::accumulate);
    part.b = placeOf(*this, raw, 2);
  }
  auto product = program::describeGated(parts);
  if (!product)
    return error(instr) << product.status().message();
  return success();
}

LogicalResult Evaluator::exchange(const Instr &instr) {
  const ExchangeCode &from = code.exchanges[instr.a];
  hostir::PeerExchangeOp op = from.op;
  sp::ExchangeT typed;
  const ChannelInfo *info = channel(instr, instr.d, typed.channel);
  if (!info)
    return failure();
  typed.kind = static_cast<sp::ExchangeKind>(op.getKind());
  if (op.getReduction())
    typed.reduce_op = static_cast<sp::ReduceOp>(*op.getReduction());
  typed.cut = static_cast<uint32_t>(op.getCut());
  typed.slot = static_cast<uint32_t>(op.getSlot());
  auto resolve = [&](ArrayRef<uint32_t> slots, std::vector<uint32_t> &into) {
    into.resize(slots.size());
    for (auto [slot, view] : llvm::zip_equal(slots, into))
      if (failed(operand(instr, slot, view)))
        return failure();
    return success();
  };
  if (failed(resolve(from.inputs, typed.in)) || failed(resolve(from.outputs, typed.out)) ||
      failed(resolve(from.copies, typed.copy)) ||
      (from.scratch != kNone && failed(operand(instr, from.scratch, typed.scratch))))
    return failure();
  typed.copy.resize(typed.out.size(), kNone);
  int64_t value = from.value == kNone ? 1 : ints[from.value];
  if (value < 1 || value > kMaxSignalValue)
    return error(instr) << "expected a signal value from 1 to " << kMaxSignalValue << ", found "
                        << value;
  typed.value = static_cast<uint64_t>(value);
  uint64_t last = typed.value + (op.isPush() ? typed.out.size() - 1 : 0);
  size_t slots = typed.slot + size_t(info->groupSize) * (op.isTwoShot() ? 2 : 1);
  if (slots > signalSlots.size())
    signalSlots.resize(slots, 0);
  for (size_t slot = typed.slot; slot < slots; ++slot)
    signalSlots[slot] = std::max(signalSlots[slot], last);
  RawCommand &head = tables.command(sp::CommandKind::fused_exchange, instr, ints[instr.e]);
  head.value = static_cast<uint64_t>(op.getBlocks());
  head.op = static_cast<uint8_t>(op.getProtocol());
  head.peer = static_cast<uint32_t>(tables.exchanges.size());
  tables.exchanges.push_back(std::move(typed));
  return success();
}

LogicalResult Evaluator::message(const Instr &instr) {
  bool isSend = opcodeOf(instr) == Opcode::Send;
  if (!openGroup)
    return error(instr) << "expected to be inside a hostir.group";
  uint16_t number;
  uint32_t buffer;
  const ChannelInfo *info = channel(instr, openGroup->d, number);
  int64_t other = ints[instr.c];
  if (!info || failed(peer(instr, *info, "peer", other)) || failed(operand(instr, instr.a, buffer)))
    return failure();
  std::vector<uint32_t> &counts = isSend ? sent : received;
  uint32_t tag = counts[info->firstPeer + other]++;
  RawCommand &raw = tables.command(isSend ? sp::CommandKind::send : sp::CommandKind::recv, instr,
                                   ints[openGroup->e]);
  raw.channel = number;
  raw.operands[0] = buffer;
  raw.peer = static_cast<uint32_t>(other);
  raw.aux = tag;
  ++messages;
  if (!matcher)
    return success();
  uint32_t peerRank = info->membersOf(info->group[rank])[other];
  const Layout &layout = code.layouts[views[instr.a].layout];
  return matcher->message({number, isSend ? rank : peerRank, isSend ? peerRank : rank, tag, isSend,
                           layout.dtype, layout.numBytes(),
                           static_cast<uint32_t>(&instr - code.instrs.data())});
}

LogicalResult Evaluator::collective(const Instr &instr) {
  using C = sp::CollectiveKind;
  auto kind = static_cast<C>(instr.aux);
  uint16_t number;
  const ChannelInfo *info = channel(instr, instr.d, number);
  if (!info)
    return failure();
  int64_t root = instr.c == kNone ? 0 : ints[instr.c];
  if (failed(peer(instr, *info, "root", root)))
    return failure();
  bool isRoot = root == info->self[rank];
  bool readsIn = isRoot || (kind != C::broadcast && kind != C::scatter);
  bool writesOut = isRoot || (kind != C::reduce && kind != C::gather);
  uint32_t in = kNone, out = kNone;
  if ((readsIn && failed(operand(instr, instr.a, in))) ||
      (writesOut && failed(operand(instr, instr.b, out))))
    return failure();
  const Layout &inLayout = code.layouts[views[instr.a].layout];
  const Layout &outLayout = code.layouts[views[instr.b].layout];
  bool stackIn = kind == C::reduce_scatter || kind == C::all_to_all || kind == C::scatter;
  bool stackOut = kind == C::all_gather || kind == C::all_to_all || kind == C::gather;
  auto fits = [&](const Layout &stack) {
    return stack.rank > 0 && stack.shape[0] == info->groupSize;
  };
  if ((stackIn && !fits(inLayout)) || (stackOut && !fits(outLayout)))
    return error(instr) << "expected " << info->groupSize << " slices for the group of channel \""
                        << info->name << "\", found "
                        << (stackIn && !fits(inLayout) ? inLayout : outLayout).str();
  RawCommand &raw = tables.command(sp::CommandKind::collective, instr, ints[instr.e]);
  raw.channel = number;
  raw.op = instr.aux;
  raw.reduceOp = instr.width;
  raw.operands[0] = out;
  raw.operands[1] = in;
  raw.peer = static_cast<uint32_t>(root);
  if (!matcher)
    return success();
  uint64_t bytes = (stackIn ? outLayout : inLayout).numBytes();
  if (kind == C::all_to_all)
    bytes /= info->groupSize;
  return matcher->collective(number, {instr.aux, instr.width, static_cast<uint8_t>(inLayout.dtype),
                                      instr.c == kNone ? kNone : static_cast<uint32_t>(root), bytes,
                                      static_cast<uint32_t>(&instr - code.instrs.data())});
}

LogicalResult Evaluator::signal(const Instr &instr) {
  constexpr int64_t maxSlots = int64_t(1) << 20;
  bool isSignal = opcodeOf(instr) == Opcode::Signal;
  uint16_t number;
  const ChannelInfo *info = channel(instr, instr.d, number);
  int64_t slot = ints[instr.a], value = ints[instr.b], other = isSignal ? ints[instr.c] : 0;
  if (!info || failed(peer(instr, *info, "peer", other)))
    return failure();
  if (slot < 0 || slot >= maxSlots)
    return error(instr) << "expected a signal slot from 0 to " << maxSlots - 1 << ", found "
                        << slot;
  if (value < 1 || value > kMaxSignalValue)
    return error(instr) << "expected a signal value from 1 to " << kMaxSignalValue << ", found "
                        << value;
  if (static_cast<size_t>(slot) >= signalSlots.size())
    signalSlots.resize(slot + 1, 0);
  signalSlots[slot] = std::max(signalSlots[slot], static_cast<uint64_t>(value));
  RawCommand &raw = tables.command(
      isSignal ? sp::CommandKind::signal : sp::CommandKind::wait_signal, instr, ints[instr.e]);
  raw.channel = number;
  raw.aux = static_cast<uint32_t>(slot);
  raw.value = static_cast<uint64_t>(value);
  raw.peer = static_cast<uint32_t>(other);
  if (isSignal && isExclusive(info->membersOf(info->group[rank])[other], raw))
    raw.flags = static_cast<uint8_t>(sp::CommandFlags::exclusive);
  return success();
}

bool Evaluator::isExclusive(uint32_t to, const RawCommand &raw) {
  uint64_t key = uint64_t(to) << 32 | raw.aux;
  if (!surveying)
    return raisers.lookup(key).alone;
  Raiser &known = raisers.try_emplace(key, Raiser{rank, raw.stream, raw.value, true}).first->second;
  if (known.rank != rank || known.stream != raw.stream || known.value > raw.value)
    known.alone = false;
  known.value = raw.value;
  return known.alone;
}

LogicalResult Evaluator::launch(const Instr &instr) {
  const KernelLaunch &launch = code.launches[instr.a];
  uint32_t first = tables.launchOperands.size();
  for (uint32_t slot : launch.operands) {
    uint32_t view;
    if (failed(operand(instr, slot, view)))
      return failure();
    tables.launchOperands.push_back(view);
  }
  bool isCall = opcodeOf(instr) == Opcode::Call;
  RawCommand &raw = tables.command(isCall ? sp::CommandKind::call : sp::CommandKind::launch, instr,
                                   ints[instr.e]);
  if (isCall)
    raw.value = tables.callPlaces.size();
  for (auto [slot, extent] : llvm::zip_equal(launch.offsets, launch.extents))
    tables.callPlaces.emplace_back(ints[slot], extent);
  raw.aux = tables.kernel(launch.kernel);
  raw.operands[0] = first;
  raw.operands[1] = launch.operands.size();
  return success();
}

} // namespace tandem::target
