//===- ProgramSpec.cpp - stream programs built by hand ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramSpec.h"

#include <cstring>
#include <set>
#include <xxhash.h>

namespace tandem::test {

Shape denseStrides(const Shape &shape) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d] ? shape[d] : 1;
  }
  return strides;
}

int64_t product(const Shape &shape) {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

static uint64_t roundUp(uint64_t bytes) {
  return (bytes + sp::kAlignment - 1) / sp::kAlignment * sp::kAlignment;
}

uint32_t RankSpec::argument(uint32_t i, uint64_t bytes) {
  buffers.emplace_back(sp::Space::argument, i, 0, bytes, 0);
  return static_cast<uint32_t>(buffers.size() - 1);
}

uint32_t RankSpec::arena(uint64_t bytes) {
  buffers.emplace_back(sp::Space::arena, 0, arenaBytes, bytes, 0);
  arenaBytes += roundUp(bytes);
  return static_cast<uint32_t>(buffers.size() - 1);
}

uint32_t RankSpec::symmetric(uint64_t bytes) {
  buffers.emplace_back(sp::Space::symmetric, 0, symmetricBytes, bytes, 0);
  symmetricBytes += roundUp(bytes);
  return static_cast<uint32_t>(buffers.size() - 1);
}

uint32_t RankSpec::view(uint32_t buffer, DType dtype, const Shape &shape, uint64_t offset) {
  return view(buffer, dtype, shape, denseStrides(shape), offset);
}

uint32_t RankSpec::view(uint32_t buffer, DType dtype, const Shape &shape, const Shape &strides,
                        uint64_t offset) {
  layouts.push_back({static_cast<sp::DType>(dtype), shape, strides});
  views.emplace_back(buffer, static_cast<uint32_t>(layouts.size() - 1), offset);
  return static_cast<uint32_t>(views.size() - 1);
}

uint16_t RankSpec::channel(const std::vector<uint32_t> &group, uint32_t capabilities,
                           const std::string &name) {
  ChannelSpec spec{name, capabilities, group, 0};
  for (uint32_t m = 0; m < group.size(); ++m)
    if (group[m] == rank)
      spec.self = m;
  channels.push_back(spec);
  return static_cast<uint16_t>(channels.size() - 1);
}

CommandSpec &RankSpec::add(sp::CommandKind kind, uint16_t stream, std::vector<uint32_t> operands) {
  CommandSpec command;
  command.kind = kind;
  command.stream = stream;
  for (size_t k = 0; k < operands.size() && k < 4; ++k)
    command.operands[k] = operands[k];
  names.push_back(std::string(sp::EnumNameCommandKind(kind)) + " #" +
                  std::to_string(commands.size()));
  command.name = static_cast<uint32_t>(names.size() - 1);
  if (stream >= numStreams)
    numStreams = stream + 1u;
  commands.push_back(command);
  return commands.back();
}

void RankSpec::copy(uint16_t stream, uint32_t dst, uint32_t src) {
  add(sp::CommandKind::copy, stream, {dst, src});
}

uint32_t RankSpec::record(uint16_t stream) {
  add(sp::CommandKind::record, stream).aux = numEvents;
  return numEvents++;
}

void RankSpec::wait(uint16_t stream, uint32_t event) {
  add(sp::CommandKind::wait, stream).aux = event;
}

void RankSpec::group(uint16_t stream, uint16_t channel, uint32_t messages) {
  CommandSpec &command = add(sp::CommandKind::group, stream);
  command.channel = channel;
  command.aux = messages;
}

void RankSpec::send(uint16_t stream, uint16_t channel, uint32_t view, uint32_t peer, uint32_t tag) {
  CommandSpec &command = add(sp::CommandKind::send, stream, {view});
  command.channel = channel;
  command.peer = peer;
  command.aux = tag;
}

void RankSpec::recv(uint16_t stream, uint16_t channel, uint32_t view, uint32_t peer, uint32_t tag) {
  CommandSpec &command = add(sp::CommandKind::recv, stream, {view});
  command.channel = channel;
  command.peer = peer;
  command.aux = tag;
}

void RankSpec::put(uint16_t stream, uint16_t channel, uint32_t dst, uint32_t src, uint32_t peer) {
  CommandSpec &command = add(sp::CommandKind::put, stream, {dst, src});
  command.channel = channel;
  command.peer = peer;
}

void RankSpec::signal(uint16_t stream, uint16_t channel, uint32_t peer, uint32_t slot,
                      uint64_t value, bool exclusive) {
  CommandSpec &command = add(sp::CommandKind::signal, stream);
  command.flags = exclusive ? static_cast<uint8_t>(sp::CommandFlags::exclusive) : 0;
  command.channel = channel;
  command.peer = peer;
  command.aux = slot;
  command.value = value;
}

void RankSpec::waitSignal(uint16_t stream, uint16_t channel, uint32_t slot, uint64_t value) {
  CommandSpec &command = add(sp::CommandKind::wait_signal, stream);
  command.channel = channel;
  command.aux = slot;
  command.value = value;
}

CommandSpec &RankSpec::collective(uint16_t stream, uint16_t channel, CollectiveKind kind,
                                  uint32_t out, uint32_t in) {
  CommandSpec &command = add(sp::CommandKind::collective, stream, {out, in});
  command.channel = channel;
  command.op = static_cast<uint8_t>(kind);
  return command;
}

void RankSpec::launch(uint16_t stream, uint32_t kernel, const std::vector<uint32_t> &operands) {
  auto first = static_cast<uint32_t>(launchOperands.size());
  launchOperands.insert(launchOperands.end(), operands.begin(), operands.end());
  add(sp::CommandKind::launch, stream, {first, static_cast<uint32_t>(operands.size())}).aux =
      kernel;
}

void RankSpec::call(uint16_t stream, uint32_t kernel, const std::vector<uint32_t> &operands,
                    const std::vector<sp::CallPlace> &places) {
  launch(stream, kernel, operands);
  commands.back().kind = sp::CommandKind::call;
  commands.back().value = callPlaces.size();
  callPlaces.insert(callPlaces.end(), places.begin(), places.end());
}

ProgramSpec::ProgramSpec(uint32_t numRanks) : ranks(numRanks) {
  for (uint32_t r = 0; r < numRanks; ++r)
    ranks[r].rank = r;
}

uint32_t ProgramSpec::stacked(const std::string &name, bool isResult, DType dtype,
                              const Shape &local) {
  Shape logical{static_cast<int64_t>(ranks.size())};
  logical.insert(logical.end(), local.begin(), local.end());
  arguments.push_back({name, isResult ? sp::ArgumentRole::result : sp::ArgumentRole::input,
                       static_cast<sp::DType>(dtype), logical});
  for (RankSpec &rank : ranks)
    rank.shards.push_back({true, product(local) * rank.rank, local, denseStrides(local), local});
  return static_cast<uint32_t>(arguments.size() - 1);
}

std::vector<uint8_t> encodeExpression(uint32_t inputs, uint32_t outputs,
                                      const std::vector<Instr> &code) {
  std::vector<sp::ExprInstr> encoded;
  for (const Instr &instr : code) {
    // A number of another type may not fit into a register of this one: each is written as its own.
    uint64_t bits = 0;
    if (instr.type == sp::RegisterType::f64) {
      std::memcpy(&bits, &instr.imm, sizeof bits);
    } else if (instr.type == sp::RegisterType::f32) {
      auto single = static_cast<float>(instr.imm);
      uint32_t low = 0;
      std::memcpy(&low, &single, sizeof low);
      bits = low;
    } else {
      bits = static_cast<uint64_t>(static_cast<int64_t>(instr.imm));
    }
    encoded.emplace_back(instr.op, instr.type, instr.a, instr.b, instr.c, bits);
  }
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(
      sp::CreateExpression(builder, inputs, outputs, builder.CreateVectorOfStructs(encoded)));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

static std::string encodeRank(const RankSpec &rank) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<sp::Shard>> shards;
  for (const ShardSpec &s : rank.shards)
    shards.push_back(sp::CreateShardDirect(builder, s.present, s.offset, &s.shape, &s.strides,
                                           &s.local, s.term));
  std::vector<flatbuffers::Offset<sp::Layout>> layouts;
  for (const LayoutSpec &l : rank.layouts)
    layouts.push_back(sp::CreateLayoutDirect(builder, l.dtype, &l.shape, &l.strides));
  std::vector<flatbuffers::Offset<sp::Channel>> channels;
  for (const ChannelSpec &c : rank.channels)
    channels.push_back(sp::CreateChannelDirect(builder, c.name.c_str(), c.capabilities,
                                               c.linkClass.c_str(), &c.group, c.self));
  std::vector<flatbuffers::Offset<sp::Kernel>> kernels;
  for (const KernelSpec &k : rank.kernels) {
    std::vector<flatbuffers::Offset<sp::NativeCode>> native;
    for (const NativeCodeSpec &n : k.native)
      native.push_back(sp::CreateNativeCodeDirect(builder, n.format, n.target.c_str(), &n.code));
    auto name = builder.CreateString(k.name), target = builder.CreateString(k.target);
    auto code = builder.CreateVector(k.code);
    auto types = builder.CreateVector(reinterpret_cast<const sp::DType *>(k.operandTypes.data()),
                                      k.operandTypes.size());
    auto natives = builder.CreateVector(native);
    flatbuffers::Offset<flatbuffers::Vector<int8_t>> dims = 0;
    if (k.dims)
      dims = builder.CreateVector(*k.dims);
    auto config = builder.CreateString(k.config);
    auto varying = builder.CreateVector(k.varying);
    kernels.push_back(sp::CreateKernel(builder, name, k.format, target, code, types, natives,
                                       k.outputs, dims, config, k.flops, k.bytes, k.strided,
                                       k.effects, varying));
  }
  std::vector<flatbuffers::Offset<sp::Name>> names;
  for (const std::string &name : rank.names)
    names.push_back(sp::CreateNameDirect(builder, name.c_str(), ""));
  std::vector<sp::Command> commands;
  for (const CommandSpec &c : rank.commands)
    commands.emplace_back(c.kind, c.flags, c.op, c.reduceOp, c.stream, c.channel, c.name,
                          flatbuffers::span<const uint32_t, 4>(c.operands), c.peer, c.aux, c.value,
                          c.reserved);
  std::vector<flatbuffers::Offset<sp::Exchange>> exchanges;
  for (const sp::ExchangeT &exchange : rank.exchanges)
    exchanges.push_back(sp::CreateExchange(builder, &exchange));
  builder.Finish(sp::CreateRankProgramDirect(
      builder, rank.rank, rank.numStreams, rank.numEvents, rank.arenaBytes, rank.symmetricBytes,
      &rank.slots, &shards, &rank.buffers, &layouts, &rank.views, &rank.launchOperands, &channels,
      &kernels, &names, &commands, &rank.callPlaces, &exchanges));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
}

std::string ProgramSpec::encode() const {
  std::string file(roundUp(sizeof(sp::Header)), '\0');
  auto append = [&](const std::string &blob) {
    file.resize(roundUp(file.size()), '\0');
    sp::Blob place(file.size(), blob.size(), XXH3_64bits(blob.data(), blob.size()));
    file += blob;
    return place;
  };
  std::vector<sp::Blob> blobs;
  for (const RankSpec &rank : ranks)
    blobs.push_back(append(encodeRank(rank)));
  sp::Blob referenceBlob(0, 0, 0);
  if (reference)
    referenceBlob = append(encodeRank(*reference));

  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<sp::Argument>> args;
  for (const ArgumentSpec &a : arguments)
    args.push_back(sp::CreateArgumentDirect(builder, a.name.c_str(), a.role, a.dtype, &a.shape, "",
                                            "", a.partialTerms > 0, a.partialOp, a.partialTerms,
                                            a.varying.empty() ? nullptr : &a.varying, a.mask));
  builder.Finish(sp::CreateIndexDirect(builder, name.c_str(), "cpu-local", "test",
                                       static_cast<uint32_t>(ranks.size()), 7, false, &args, &blobs,
                                       &referenceBlob, deterministic));
  std::string index(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());
  sp::Blob place = append(index);

  sp::Header header{};
  std::memcpy(header.magic, sp::kMagic, sizeof header.magic);
  header.version = sp::kVersion;
  header.fileSize = file.size();
  header.indexOffset = place.offset();
  header.indexSize = place.size();
  header.indexHash = place.hash();
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

bool rehash(std::string &file) {
  sp::Header header;
  if (file.size() < sizeof header)
    return false;
  std::memcpy(&header, file.data(), sizeof header);
  auto inside = [&](uint64_t offset, uint64_t size) {
    return offset <= file.size() && size <= file.size() - offset;
  };
  if (!inside(header.indexOffset, header.indexSize) || header.indexOffset % 64 != 0)
    return false;
  header.fileSize = file.size();
  // The index is read and written where it stands, in aligned memory.
  std::vector<uint64_t> copy(header.indexSize / 8 + 1);
  auto *bytes = reinterpret_cast<uint8_t *>(copy.data());
  std::memcpy(bytes, file.data() + header.indexOffset, header.indexSize);
  flatbuffers::Verifier verifier(bytes, header.indexSize);
  if (verifier.VerifyBuffer<sp::Index>(nullptr)) {
    const auto *index = flatbuffers::GetRoot<sp::Index>(bytes);
    auto fix = [&](const sp::Blob *blob) {
      if (!blob || !inside(blob->offset(), blob->size()))
        return;
      uint64_t hash = XXH3_64bits(file.data() + blob->offset(), blob->size());
      // `hash` is the last of the struct's three words.
      std::memcpy(const_cast<uint8_t *>(reinterpret_cast<const uint8_t *>(blob)) + 16, &hash,
                  sizeof hash);
    };
    if (index->ranks())
      for (const sp::Blob *blob : *index->ranks())
        fix(blob);
    fix(index->reference());
    std::memcpy(file.data() + header.indexOffset, bytes, header.indexSize);
  }
  header.indexHash = XXH3_64bits(file.data() + header.indexOffset, header.indexSize);
  std::memcpy(file.data(), &header, sizeof header);
  return true;
}

namespace {

/// Calls visit(name, table) for each table of a rank's program.
template <typename Visit> void eachTable(const sp::RankProgram &program, Visit visit) {
  auto each = [&](const auto *tables, const char *name) {
    for (uint32_t i = 0; tables && i < tables->size(); ++i)
      visit(name, tables->Get(i));
  };
  visit("RankProgram", &program);
  each(program.shards(), "Shard");
  each(program.layouts(), "Layout");
  each(program.channels(), "Channel");
  each(program.kernels(), "Kernel");
  for (uint32_t i = 0; program.kernels() && i < program.kernels()->size(); ++i)
    each(program.kernels()->Get(i)->native(), "NativeCode");
  each(program.names(), "Name");
}

} // namespace

std::vector<Dropped> withoutEachField(const std::string &file) {
  sp::Header header;
  std::memcpy(&header, file.data(), sizeof header);
  // Tables are read in place, in aligned memory.
  std::vector<uint64_t> copy(file.size() / 8 + 1);
  auto *begin = reinterpret_cast<uint8_t *>(copy.data());
  std::memcpy(begin, file.data(), file.size());
  std::vector<Dropped> all;
  std::set<size_t> seen;
  auto visit = [&](const char *name, const void *table) {
    const uint8_t *vtable = static_cast<const flatbuffers::Table *>(table)->GetVTable();
    uint16_t size = flatbuffers::ReadScalar<uint16_t>(vtable);
    for (uint16_t entry = 4; entry < size; entry += 2) {
      auto at = static_cast<size_t>(vtable + entry - begin);
      if (flatbuffers::ReadScalar<uint16_t>(vtable + entry) == 0 || !seen.insert(at).second)
        continue;
      std::string without = file;
      without[at] = without[at + 1] = 0;
      rehash(without);
      all.push_back({std::string(name) + " field " + std::to_string(entry / 2 - 2), without});
    }
  };
  const auto *index = flatbuffers::GetRoot<sp::Index>(begin + header.indexOffset);
  visit("Index", index);
  for (uint32_t i = 0; i < index->arguments()->size(); ++i)
    visit("Argument", index->arguments()->Get(i));
  for (const sp::Blob *blob : *index->ranks())
    if (blob->size())
      eachTable(*flatbuffers::GetRoot<sp::RankProgram>(begin + blob->offset()), visit);
  return all;
}

} // namespace tandem::test
