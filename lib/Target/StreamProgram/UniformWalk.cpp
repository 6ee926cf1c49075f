//===- UniformWalk.cpp - one evaluation for all ranks -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UniformWalk.h"

#include "tandem/Program/Expand.h"

using namespace mlir;

namespace tandem::target {

UniformWalk::UniformWalk(Evaluator &evaluator, UniformRanks &result)
    : evaluator(evaluator), code(evaluator.code), result(result), arithmetic(code.numRanks) {
  numbers.reserve(code.ints.size());
  for (int64_t value : code.ints)
    numbers.push_back(Number::constant(value));
}

FailureOr<bool> UniformWalk::run() {
  result = UniformRanks();
  result.numRanks = code.numRanks;
  for (const ChannelInfo &channel : code.channels)
    result.channels.push_back({channel.groupSize, channel.members});
  evaluator.begin(/*rank=*/0, /*matcher=*/nullptr);
  if (failed(hostir::runInstrs(code, *this, 0, code.instrs.size())))
    return uniform ? FailureOr<bool>(failure()) : FailureOr<bool>(false);
  return true;
}

FailureOr<uint32_t> UniformWalk::branch(uint32_t pc) {
  if (!isConstant(code.instrs[pc].a))
    return differ();
  return evaluator.branch(pc);
}

FailureOr<bool> UniformWalk::enterLoop(uint32_t pc) {
  const Instr &instr = code.instrs[pc];
  if (!isConstant(instr.a) || !isConstant(instr.b) || !isConstant(instr.c))
    return differ();
  FailureOr<bool> enters = evaluator.enterLoop(pc);
  numbers[instr.dst] = Number::constant(evaluator.valueOf(instr.dst));
  return enters;
}

FailureOr<bool> UniformWalk::nextLoop(const Instr &instr) {
  FailureOr<bool> again = evaluator.nextLoop(instr);
  numbers[instr.dst] = Number::constant(evaluator.valueOf(instr.dst));
  return again;
}

LogicalResult UniformWalk::execute(const Instr &instr) {
  if (!isUniform(instr))
    return differ();
  if (failed(evaluator.execute(instr)))
    return failure();
  switch (static_cast<Opcode>(instr.op)) {
  case Opcode::Send:
  case Opcode::Recv:
  case Opcode::Put:
  case Opcode::Signal:
  case Opcode::WaitSignal:
    return communicate(instr);
  case Opcode::Exchange:
    communicateParts();
    return success();
  default:
    // Views and streams have separate slots that are not numbers.
    if (instr.op < hostir::opcode::FirstOfClient ||
        (instr.op >= static_cast<uint8_t>(Opcode::Dim) &&
         instr.op <= static_cast<uint8_t>(Opcode::Worker)))
      numbers[instr.dst] = evaluate(instr);
    return success();
  }
}

bool UniformWalk::isChannelOfAll(uint32_t slot) const {
  if (!isConstant(slot))
    return false;
  const ChannelInfo &channel = code.channels[evaluator.valueOf(slot)];
  return channel.members.size() == code.numRanks;
}

bool UniformWalk::isUniform(const Instr &instr) const {
  auto isKnown = [&](uint32_t slot) { return numbers[slot].isKnown(); };
  switch (static_cast<Opcode>(instr.op)) {
  case Opcode::Map: {
    const ViewMap &map = code.maps[instr.b];
    auto isSame = [&](const Operand &o) { return !o.isSlot || isConstant(o.value); };
    return map.layoutIsStatic ||
           (llvm::all_of(map.sizes, isSame) && llvm::all_of(map.strides, isSame));
  }
  case Opcode::SelectView:
    return isConstant(instr.a);
  case Opcode::Dim:
    return isConstant(instr.b);
  case Opcode::Sync:
    return isConstant(instr.a) && isConstant(instr.b);
  case Opcode::Alloc:
  case Opcode::Local:
  case Opcode::GatedBegin:
  case Opcode::Launch:
  case Opcode::Call:
    return isConstant(instr.e);
  case Opcode::Collective: // with a root, ranks differ in operands
    return isConstant(instr.e) && isChannelOfAll(instr.d) && instr.c == kNone;
  case Opcode::GroupBegin:
    return isConstant(instr.e) && isChannelOfAll(instr.d);
  case Opcode::Send:
  case Opcode::Recv:
    return isKnown(instr.c);
  case Opcode::Put:
    return isConstant(instr.e) && isChannelOfAll(instr.d) && isKnown(instr.c);
  case Opcode::Exchange:
    return isConstant(instr.e) && isChannelOfAll(instr.d) &&
           (code.exchanges[instr.a].value == kNone || isConstant(code.exchanges[instr.a].value));
  case Opcode::Signal:
    return isConstant(instr.e) && isChannelOfAll(instr.d) && isConstant(instr.b) &&
           isKnown(instr.a) && isKnown(instr.c);
  case Opcode::WaitSignal:
    return isConstant(instr.e) && isChannelOfAll(instr.d) && isConstant(instr.b) &&
           isKnown(instr.a);
  default:
    return true;
  }
}

template <typename Function> hostir::Number UniformWalk::tabulate(Function entryOf) {
  std::vector<int64_t> entries(code.numRanks);
  for (uint32_t rank = 0; rank < code.numRanks; ++rank)
    entries[rank] = entryOf(rank);
  return arithmetic.table(std::move(entries));
}

/// An instruction's result on all ranks.
hostir::Number UniformWalk::evaluate(const Instr &instr) {
  switch (instr.op) {
  case hostir::opcode::Integer:
    if (isConstant(instr.a) && isConstant(instr.b))
      break;
    return arithmetic.evaluate(instr.integer(), numbers[instr.a], numbers[instr.b]);
  case hostir::opcode::Select:
    return arithmetic.select(numbers[instr.a], numbers[instr.b], numbers[instr.c]);
  case hostir::opcode::Move:
    return numbers[instr.a];
  default:
    break;
  }
  switch (static_cast<Opcode>(instr.op)) {
  case Opcode::DeviceIndex:
    return tabulate([&](uint32_t r) { return code.meshes[instr.a].indexOf(r, instr.b); });
  case Opcode::InMesh:
    return tabulate([&](uint32_t r) { return code.meshes[instr.a].position[r] >= 0; });
  case Opcode::Translate: {
    const hostir::MeshRanks &from = code.meshes[instr.b], &to = code.meshes[instr.c];
    Number position = numbers[instr.a];
    if (!position.isKnown() || position.getLeast() < 0 ||
        arithmetic.getGreatest(position) >= from.mesh.numDevices())
      return Number();
    return tabulate(
        [&](uint32_t r) { return to.position[from.mesh.worldRank(arithmetic.at(position, r))]; });
  }
  case Opcode::Worker:
    if (!isConstant(instr.a))
      return Number();
    break;
  default:
    break;
  }
  return Number::constant(evaluator.valueOf(instr.dst)); // on rank 0, as on all ranks
}

template <typename Function>
uint32_t UniformWalk::table(int channel, Number number, Function entryOf) {
  auto [known, isNew] =
      tables.try_emplace({channel, number}, static_cast<uint32_t>(result.tables.size()));
  if (isNew) {
    std::vector<uint32_t> &entries = result.tables.emplace_back(code.numRanks);
    for (uint32_t rank = 0; rank < code.numRanks; ++rank)
      entries[rank] = entryOf(rank, arithmetic.at(number, rank));
  }
  return known->second;
}

uint32_t UniformWalk::peersTable(uint16_t number, Number peer) {
  const ChannelInfo &channel = code.channels[number];
  return table(number, peer, [&](uint32_t rank, int64_t peer) {
    return channel.membersOf(channel.group[rank])[peer];
  });
}

uint32_t UniformWalk::slotsTable(Number slot) {
  return table(-1, slot, [](uint32_t, int64_t slot) { return static_cast<uint32_t>(slot); });
}

void UniformWalk::communicateParts() {
  using Kind = program::CommandKind;
  const sp::ExchangeT &exchange = evaluator.tables.exchanges.back();
  const ChannelInfo &channel = code.channels[exchange.channel];
  std::vector<bool> hasCopy;
  for (uint32_t copy : exchange.copy)
    hasCopy.push_back(copy != kNone);
  for (const program::DerivedPart &part : program::deriveParts(
           static_cast<program::ExchangeKind>(exchange.kind), channel.groupSize, hasCopy)) {
    if (part.kind == Kind::Copy || part.kind == Kind::Reduce)
      continue;
    auto peer = [&](uint32_t rank) { return part.peer(channel.self[rank], channel.groupSize); };
    uint32_t firstSlot = exchange.slot + part.shot * channel.groupSize;
    UniformRanks::Communication communication;
    if (part.kind != Kind::WaitSignal)
      communication.peers = peersTable(exchange.channel, tabulate(peer));
    if (part.kind != Kind::Put)
      communication.slots = slotsTable(tabulate([&](uint32_t rank) {
        return firstSlot + (part.kind == Kind::Signal ? channel.self[rank] : peer(rank));
      }));
    result.communications.push_back(communication);
  }
}

LogicalResult UniformWalk::communicate(const Instr &instr) {
  auto op = static_cast<Opcode>(instr.op);
  UniformRanks::Communication communication;
  auto isWithin = [&](Number number, int64_t end) {
    return number.getLeast() >= 0 && arithmetic.getGreatest(number) < end;
  };
  if (op != Opcode::WaitSignal) {
    uint16_t number = evaluator.tables.commands.back().channel;
    const ChannelInfo &channel = code.channels[number];
    if (!isWithin(numbers[instr.c], channel.groupSize))
      return differ();
    communication.peers = peersTable(number, numbers[instr.c]);
  }
  if (op == Opcode::Signal || op == Opcode::WaitSignal) {
    if (!isWithin(numbers[instr.a], int64_t(1) << 20)) // more slots than the runtime's limit
      return differ();
    communication.slots = slotsTable(numbers[instr.a]);
  }
  result.communications.push_back(communication);
  return success();
}

} // namespace tandem::target
