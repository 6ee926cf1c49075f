//===- Rank.cpp - the tables and commands of one rank -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rank.h"

#include "tandem/Program/Container.h"
#include "tandem/Program/Printable.h"

using namespace mlir;

namespace tandem::target {

void RankTables::reset() {
  commands.clear();
  launchOperands.clear();
  callPlaces.clear();
  exchanges.clear();
  lives.clear();
  views.clear();
  streams.reset();
  for (Renumbering *numbers : {&names, &layouts, &buffers, &kernels})
    numbers->reset();
  ++epoch;
  builder.Clear();
}

void RankTables::growViews() {
  std::vector<Slot> old(slots.size() * 2);
  old.swap(slots);
  size_t mask = slots.size() - 1;
  for (const Slot &slot : old) {
    if (slot.epoch != epoch)
      continue;
    size_t i = hashOf(slot.view) & mask;
    while (slots[i].epoch == epoch)
      i = (i + 1) & mask;
    slots[i] = slot;
  }
}

std::optional<uint32_t> RankTables::view(View view) {
  if (const BufferInfo &whole = bufferOf(view); LLVM_UNLIKELY(whole.firstPart != kNone)) {
    int64_t bytes = code.buffers[whole.firstPart].bytes;
    if (view.offset < 0 || view.offset >= whole.bytes)
      return std::nullopt;
    view.buffer = whole.firstPart + static_cast<uint32_t>(view.offset / bytes);
    view.offset %= bytes;
  }
  size_t mask = slots.size() - 1, i = hashOf(view) & mask;
  for (; slots[i].epoch == epoch; i = (i + 1) & mask) {
    const View &other = slots[i].view;
    if (other.buffer == view.buffer && other.layout == view.layout && other.offset == view.offset)
      return slots[i].local;
  }
  int64_t span = code.layouts.span(view.layout), size = bufferOf(view).bytes;
  if (span < 0 || view.offset < 0 || view.offset > size || span > size - view.offset)
    return std::nullopt;
  uint32_t local = views.size();
  slots[i] = {epoch, local, view};
  views.push_back({buffers(view.buffer), layouts(view.layout), view.offset});
  if (views.size() * 2 > slots.size())
    growViews();
  return local;
}

void RankTables::sync(const Instr &instr, int64_t waiter, int64_t signaler) {
  StreamTable::Sync sync = streams.sync(waiter, signaler);
  if (!sync.needed) {
    ++droppedSyncs;
    return;
  }
  if (sync.records)
    append(sp::CommandKind::record, instr, sync.signaler).aux = sync.event;
  append(sp::CommandKind::wait, instr, sync.waiter).aux = sync.event;
}

/// Drops the final waits of worker streams, and records without other waits; then numbers the
/// remaining streams.
void RankTables::numberStreams() {
  numEvents = streams.numEvents();
  std::vector<bool> used(streams.size(), false);
  used[0] = true;
  if (streams.hasIdleWaits()) {
    std::vector<bool> waited(numEvents, false), keep(commands.size(), false);
    for (size_t i = commands.size(); i-- > 0;) {
      const RawCommand &command = commands[i];
      if (command.kind == sp::CommandKind::wait) {
        // No later command on its stream: useless, except on the main stream, which ends the run.
        keep[i] = used[command.stream];
        if (keep[i])
          waited[command.aux] = true;
        continue;
      }
      keep[i] = command.kind != sp::CommandKind::record || waited[command.aux];
      if (keep[i])
        used[command.stream] = true;
    }
    std::vector<uint32_t> eventOf(numEvents, kNone);
    numEvents = 0;
    size_t kept = 0;
    for (size_t i = 0; i < commands.size(); ++i) {
      if (!keep[i])
        continue;
      RawCommand &command = commands[kept++] = commands[i];
      if (command.kind == sp::CommandKind::record)
        eventOf[command.aux] = numEvents++;
      if (command.kind == sp::CommandKind::record || command.kind == sp::CommandKind::wait)
        command.aux = eventOf[command.aux];
    }
    commands.resize(kept, RawCommand{sp::CommandKind::record});
  } else {
    for (const RawCommand &command : commands)
      used[command.stream] = true;
  }
  std::vector<uint16_t> numbers = streams.numbering(used);
  numStreams = llvm::count(used, true);
  for (RawCommand &command : commands)
    command.stream = numbers[command.stream];
}

using flatbuffers::FlatBufferBuilder;
template <typename T> using Offsets = std::vector<flatbuffers::Offset<T>>;

static auto createInts(FlatBufferBuilder &b, ArrayRef<int64_t> values) {
  return b.CreateVector(values.data(), values.size());
}

static flatbuffers::Offset<sp::Shard> createShard(FlatBufferBuilder &b, const ShardInfo &shard) {
  if (!shard.present)
    return sp::CreateShard(b, /*present=*/false);
  auto shape = createInts(b, shard.walk.shape), strides = createInts(b, shard.walk.strides);
  auto local = createInts(b, shard.localShape);
  return sp::CreateShard(b, true, shard.walk.offset, shape, strides, local, shard.term);
}

static flatbuffers::Offset<sp::Layout> createLayout(FlatBufferBuilder &b, const Layout &layout) {
  auto shape = createInts(b, {layout.shape.data(), layout.rank});
  auto strides = createInts(b, {layout.strides.data(), layout.rank});
  return sp::CreateLayout(b, static_cast<sp::DType>(layout.dtype), shape, strides);
}

static flatbuffers::Offset<sp::Channel> createChannel(FlatBufferBuilder &b, const ChannelInfo &info,
                                                      uint32_t rank) {
  int32_t group = info.group[rank];
  ArrayRef<uint32_t> members = group < 0 ? ArrayRef<uint32_t>() : info.membersOf(group);
  auto name = b.CreateString(info.name), linkClass = b.CreateString(info.linkClass);
  auto memberList = b.CreateVector(members.data(), members.size());
  return sp::CreateChannel(b, name, info.required, linkClass, memberList, info.self[rank]);
}

static flatbuffers::Offset<sp::Kernel> createKernel(FlatBufferBuilder &b,
                                                    const KernelCode &kernel) {
  auto name = b.CreateString(kernel.name), target = b.CreateString("cpu");
  auto bytes = b.CreateVector(kernel.expression);
  auto types = b.CreateVector(kernel.operandTypes.data(), kernel.operandTypes.size());
  Offsets<sp::NativeCode> native;
  for (const NativeKernel &each : kernel.native) {
    auto arch = b.CreateString(each.target);
    auto bytes =
        b.CreateVector(reinterpret_cast<const uint8_t *>(each.code.data()), each.code.size());
    native.push_back(sp::CreateNativeCode(b, each.format, arch, bytes));
  }
  auto natives = b.CreateVector(native);
  if (!kernel.external)
    return sp::CreateKernel(b, name, sp::KernelFormat::expression, target, bytes, types, natives,
                            kernel.outputs);
  const ExternalKernel &external = *kernel.external;
  auto dims = b.CreateVector(external.dims);
  auto config = b.CreateString(external.config);
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> varying;
  if (!external.varying.empty())
    varying = b.CreateVector(external.varying);
  return sp::CreateKernel(b, name, sp::KernelFormat::external, /*target=*/0, /*code=*/0, types,
                          /*native=*/0, kernel.outputs, dims, config, external.flops,
                          external.bytes, external.isStrided, external.effects, varying);
}

static flatbuffers::Offset<sp::Name> createName(FlatBufferBuilder &b, const Name &name) {
  auto text = b.CreateString(escapeName(name.text)),
       location = b.CreateString(escapeName(name.location));
  return sp::CreateName(b, text, location);
}

ArrayRef<uint8_t> RankTables::finish(uint32_t rank, ArrayRef<ShardInfo> shards,
                                     ArrayRef<uint64_t> signalSlots, uint64_t symmetricBytes) {
  numberStreams();
  FlatBufferBuilder &b = builder;
  uint64_t arenaBytes = 0;
  std::vector<sp::Buffer> bufferList;
  for (uint32_t number : buffers.list()) {
    const BufferInfo &info = bufferOf(number);
    bool isArgument = info.space == sp::Space::argument;
    int64_t bytes = info.bytes;
    // A device may hold less of an argument than others do.
    if (isArgument && shards[info.argument].present)
      bytes = shards[info.argument].bytes;
    bufferList.emplace_back(info.space, isArgument ? info.argument : 0, info.offset, bytes,
                            names(info.name));
    if (info.space == sp::Space::arena)
      arenaBytes = std::max<uint64_t>(arenaBytes, info.offset + info.bytes);
  }
  Offsets<sp::Shard> shardList;
  for (const ShardInfo &shard : shards)
    shardList.push_back(createShard(b, shard));
  Offsets<sp::Layout> layoutList;
  for (uint32_t number : layouts.list())
    layoutList.push_back(createLayout(b, code.layouts[number]));
  std::vector<sp::View> viewList;
  viewList.reserve(views.size());
  for (const View &view : views)
    viewList.emplace_back(view.buffer, view.layout, view.offset);
  Offsets<sp::Channel> channelList;
  for (const ChannelInfo &info : code.channels)
    channelList.push_back(createChannel(b, info, rank));
  Offsets<sp::Kernel> kernelList;
  for (uint32_t number : kernels.list())
    kernelList.push_back(createKernel(b, code.kernels[number]));
  Offsets<sp::Name> nameList;
  for (uint32_t number : names.list())
    nameList.push_back(createName(b, code.names[number]));
  auto slotVector = b.CreateVector(signalSlots.data(), signalSlots.size());
  auto shardVector = b.CreateVector(shardList);
  auto bufferVector = b.CreateVectorOfStructs(bufferList);
  auto layoutVector = b.CreateVector(layoutList);
  auto viewVector = b.CreateVectorOfStructs(viewList);
  auto operandVector = b.CreateVector(launchOperands);
  auto channelVector = b.CreateVector(channelList);
  auto kernelVector = b.CreateVector(kernelList);
  auto nameVector = b.CreateVector(nameList);
  auto commandVector = b.CreateVectorOfStructs(
      reinterpret_cast<const sp::Command *>(commands.data()), commands.size());
  auto placeVector = b.CreateVectorOfStructs(callPlaces);
  Offsets<sp::Exchange> exchangeList;
  for (const sp::ExchangeT &exchange : exchanges)
    exchangeList.push_back(sp::CreateExchange(b, &exchange));
  auto exchangeVector = b.CreateVector(exchangeList);
  arenaBytes = llvm::alignTo(arenaBytes, tandem::sp::kAlignment);
  b.Finish(sp::CreateRankProgram(b, rank, numStreams, numEvents, arenaBytes, symmetricBytes,
                                 slotVector, shardVector, bufferVector, layoutVector, viewVector,
                                 operandVector, channelVector, kernelVector, nameVector,
                                 commandVector, placeVector, exchangeVector));
  return {b.GetBufferPointer(), b.GetSize()};
}

} // namespace tandem::target
