//===- Load.cpp - from a file to the command lists of all ranks ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReplayImpl.h"

#include "tandem/Program/CollectiveRoute.h"
#include "tandem/Program/Container.h"
#include "tandem/Program/Epilogue.h"
#include "tandem/Program/Gated.h"
#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

namespace tandem::replay {

namespace {

template <typename V> uint32_t count(const V *vector) { return vector ? vector->size() : 0; }

std::string_view text(const flatbuffers::String *string) {
  return string ? string->string_view() : std::string_view();
}

Kernel decodeKernel(const sp::Kernel &in) {
  Kernel kernel;
  kernel.name = text(in.name());
  kernel.outputs = in.outputs();
  if (in.format() == sp::KernelFormat::external) {
    kernel.config = text(in.config());
    kernel.dims.assign(in.dims()->begin(), in.dims()->end());
    kernel.flops = in.flops();
    kernel.bytes = in.bytes();
  }
  if (in.format() != sp::KernelFormat::expression)
    return kernel;
  // Copied because it may be unaligned.
  std::vector<uint64_t> bytes(in.code()->size() / 8 + 1);
  std::memcpy(bytes.data(), in.code()->data(), in.code()->size());
  const auto *expression = flatbuffers::GetRoot<sp::Expression>(bytes.data());
  kernel.isExpression = true;
  kernel.outputs = expression->outputs();
  for (const sp::ExprInstr *instr : *expression->code())
    kernel.code.push_back(
        {instr->op(), instr->type(), instr->a(), instr->b(), instr->c(), instr->bits()});
  return kernel;
}

/// Numbers objects shared by many ranks. Thread-safe.
class Interner {
public:
  explicit Interner(World &world) : world(world) {}

  uint32_t name(std::string_view text, std::string_view location) {
    std::string key = fmt::format("{}\n{}", text, location);
    std::lock_guard<std::mutex> lock(mutex);
    auto [at, isNew] = names.try_emplace(std::move(key), world.names.size());
    if (isNew)
      world.names.push_back({std::string(text), std::string(location)});
    return static_cast<uint32_t>(at->second);
  }

  uint32_t layout(const Layout &layout) {
    std::string key(1, static_cast<char>(layout.dtype));
    key.append(reinterpret_cast<const char *>(layout.shape.data()), layout.rank * sizeof(int64_t));
    key.append(reinterpret_cast<const char *>(layout.strides.data()),
               layout.rank * sizeof(int64_t));
    std::lock_guard<std::mutex> lock(mutex);
    auto [at, isNew] = layouts.try_emplace(std::move(key), world.layouts.size());
    if (isNew)
      world.layouts.push_back(layout);
    return static_cast<uint32_t>(at->second);
  }

  uint32_t kernel(const sp::Kernel &in) {
    std::string key = fmt::format("{}\n{}\n{}\n", text(in.name()),
                                  static_cast<unsigned>(in.format()), in.outputs());
    if (in.format() == sp::KernelFormat::external) {
      key += fmt::format("{} {} {}", in.flops(), in.bytes(), text(in.config())) +
             static_cast<char>(in.effects());
      key.append(reinterpret_cast<const char *>(in.dims()->data()), in.dims()->size());
    }
    if (in.code())
      key.append(reinterpret_cast<const char *>(in.code()->data()), in.code()->size());
    std::lock_guard<std::mutex> lock(mutex);
    auto [at, isNew] = kernels.try_emplace(std::move(key), world.kernels.size());
    if (isNew)
      world.kernels.push_back(decodeKernel(in));
    return static_cast<uint32_t>(at->second);
  }

  /// Number of operands that a launch of an interned kernel writes.
  uint32_t outputsOf(uint32_t kernel) {
    std::lock_guard<std::mutex> lock(mutex);
    return world.kernels[kernel].outputs;
  }

  uint32_t group(std::vector<uint32_t> members) {
    std::string key(reinterpret_cast<const char *>(members.data()), members.size() * 4);
    std::lock_guard<std::mutex> lock(mutex);
    auto [at, isNew] = groups.try_emplace(std::move(key), world.groups.size());
    if (isNew)
      world.groups.push_back(std::move(members));
    return static_cast<uint32_t>(at->second);
  }

private:
  World &world;
  std::mutex mutex;
  std::unordered_map<std::string, size_t> names, layouts, kernels, groups;
};

/// One rank's tables and commands.
class RankDecoder {
public:
  RankDecoder(const Program &program, Interner &interner, Rank &rank,
              std::vector<Command> &commands)
      : program(program), data(program.data()), interner(interner), rank(rank), commands(commands) {
  }

  void run() {
    rank.numStreams = data.num_streams();
    rank.numEvents = data.num_events();
    rank.arenaBytes = data.arena_bytes();
    rank.symmetricBytes = data.symmetric_bytes();
    for (const ArgumentInfo &argument : program.arguments()) {
      rank.argumentPresent.push_back(argument.present);
      rank.argumentBytes.push_back(argument.present ? argument.localBytes() : 0);
    }
    for (uint32_t n = 0; n < count(data.names()); ++n)
      names.push_back(interner.name(text(data.names()->Get(n)->text()),
                                    text(data.names()->Get(n)->location())));
    for (uint32_t k = 0; k < count(data.kernels()); ++k) {
      rank.kernels.push_back(interner.kernel(*data.kernels()->Get(k)));
      rank.kernelOutputs.push_back(interner.outputsOf(rank.kernels.back()));
    }
    rank.shards = shardsOf(program);
    for (uint32_t c = 0; c < count(data.channels()); ++c) {
      const auto *group = data.channels()->Get(c)->group();
      rank.groups.push_back(count(group) ? interner.group({group->begin(), group->end()}) : kNone);
    }
    for (uint32_t p = 0; p < count(data.call_places()); ++p)
      rank.callPlaces.push_back(
          {data.call_places()->Get(p)->offset(), data.call_places()->Get(p)->extent()});
    decodeViews();
    decodeCommands();
  }

private:
  void decodeViews() {
    std::vector<uint32_t> layouts(count(data.layouts()));
    for (uint32_t l = 0; l < layouts.size(); ++l)
      layouts[l] = interner.layout(program.layout(l));
    for (uint32_t b = 0; b < count(data.buffers()); ++b) {
      const sp::Buffer &in = *data.buffers()->Get(b);
      auto space = static_cast<Space>(in.space());
      rank.buffers.push_back({in.offset(), in.size(), space == Space::Argument ? in.argument() : 0,
                              in.name() < names.size() ? names[in.name()] : 0, space});
    }
    rank.views.reserve(count(data.views()));
    for (uint32_t v = 0; v < count(data.views()); ++v) {
      const sp::View &in = *data.views()->Get(v);
      const Buffer &buffer = rank.buffers[in.buffer()];
      rank.views.push_back({buffer.offset + in.offset(), layouts[in.layout()], in.buffer(),
                            buffer.argument, buffer.space});
    }
  }

  void decodeCommands() {
    uint32_t total = count(data.commands());
    commands.resize(total);
    rank.operands.reserve(size_t(total) * 2);
    bool hasEpilogue = false; // the gated matmul
    for (uint32_t i = 0, parts = 0, head = 0; i < total; ++i) {
      decode(*data.commands()->Get(i), commands[i]);
      Kind kind = commands[i].kind;
      commands[i].isGated = parts > 0 && commands[head].kind == Kind::GatedMatmul;
      commands[i].isFused = parts > 0 && commands[head].kind == Kind::FusedExchange;
      if (parts == 0 && (kind == Kind::Matmul || kind == Kind::GatedMatmul)) {
        auto epilogue = program::findEpilogue(program, i);
        hasEpilogue = epilogue.has_value();
        // Libraries have no silu.
        if (hasEpilogue &&
            (epilogue->activation != program::Activation::Silu || kind == Kind::GatedMatmul))
          commands[kind == Kind::GatedMatmul ? i + commands[i].aux + 1 : i + 1].isEpilogue = true;
      }
      if (kind == Kind::Matmul && hasEpilogue)
        commands[i].flags |= kHasEpilogue;
      if (infoOf(kind).isHead()) {
        parts = commands[i].aux;
        head = i;
        if (program::whyNoKernel(program, i).empty())
          commands[i].flags |= kHasKernel;
      } else {
        if (parts > 0 && kind == Kind::Put)
          commands[head].flags |= kHasPuts;
        parts -= parts > 0;
      }
    }
  }

  void decode(const sp::Command &in, Command &out) {
    out.kind = static_cast<Kind>(in.kind());
    out.flags = in.flags();
    out.op = in.op();
    out.reduceOp = static_cast<uint8_t>(in.reduce_op());
    out.stream = in.stream();
    out.channel = in.channel();
    out.name = names[in.name()];
    out.aux = in.aux();
    out.value = in.value();
    bool rooted = out.kind == Kind::Collective &&
                  program::isRooted(static_cast<tandem::CollectiveKind>(in.op()));
    if (rooted || isMessage(out.kind) || out.kind == Kind::Put || out.kind == Kind::Signal)
      out.peer = data.channels()->Get(in.channel())->group()->Get(in.peer());
    out.operands = static_cast<uint32_t>(rank.operands.size());
    if (out.kind == Kind::Launch || out.kind == Kind::Call) {
      uint32_t first = in.operands()->Get(0);
      out.numOperands = in.operands()->Get(1);
      for (uint32_t k = 0; k < out.numOperands; ++k)
        rank.operands.push_back(data.launch_operands()->Get(first + k));
      return;
    }
    uint32_t last = 4;
    while (last > 0 && in.operands()->Get(last - 1) == sp::kNoView)
      --last;
    out.numOperands = last;
    for (uint32_t k = 0; k < last; ++k)
      rank.operands.push_back(in.operands()->Get(k));
  }

  const Program &program;
  const sp::RankProgram &data;
  Interner &interner;
  Rank &rank;
  std::vector<Command> &commands;
  std::vector<uint32_t> names;
};

/// The properties that must be equal on all ranks.
std::string common(const Program &program) {
  std::string text;
  for (uint32_t c = 0; c < count(program.data().channels()); ++c) {
    const sp::Channel &channel = *program.data().channels()->Get(c);
    text += fmt::format("{}:{:x} ", channel.name() ? channel.name()->string_view() : "",
                        channel.capabilities());
  }
  text += "signals";
  for (uint32_t s = 0; s < count(program.data().signal_slots()); ++s)
    text += fmt::format(" {}", program.data().signal_slots()->Get(s));
  return text;
}

class Loader {
public:
  Loader(const ProgramFile &file, World &world, uint32_t ranks, unsigned threads)
      : file(file), world(world), interner(world), lists(ranks), threads(threads) {}

  Status run() {
    for (uint32_t r = 0; r < file.numRanks(); ++r)
      if (!file.hasRank(r))
        return Status(Code::InvalidArgument,
                      fmt::format("{}: expected the programs of all ranks, found none of rank {}",
                                  file.name(), r));
    world.ranks.resize(file.numRanks());
    if (file.hasReference())
      TANDEM_RETURN_IF_ERROR(loadReference());
    TANDEM_RETURN_IF_ERROR(loadRank(0));
    std::vector<std::thread> pool;
    for (unsigned t = 1; t < std::min<unsigned>(threads, file.numRanks()); ++t)
      pool.emplace_back([&] { work(); });
    work();
    for (std::thread &thread : pool)
      thread.join();
    TANDEM_RETURN_IF_ERROR(failure);
    return concatenate();
  }

  /// Of a file with rank 0: see World::loadClasses.
  Status runClasses(const UniformRanks &ranks, uint32_t devicesPerNode) {
    world.ranks.resize(1);
    TANDEM_RETURN_IF_ERROR(loadRank(0));
    std::optional<RankClasses> classes = findClasses(lists[0], ranks, devicesPerNode);
    if (!classes)
      return Status(Code::Unsupported, "the ranks have no classes");
    world.groups.clear();
    world.ranks.assign(classes->size(), Rank(world.ranks[0]));
    lists.assign(classes->size(), std::vector<Command>(lists[0]));
    std::map<std::pair<uint32_t, std::vector<uint32_t>>, uint32_t> groups; // by channel and classes
    for (uint32_t c = 0; c < classes->size(); ++c) {
      for (uint32_t channel = 0; channel < classes->groups.size(); ++channel) {
        const auto &[members, span] = classes->groups[channel][c];
        auto [known, isNew] =
            groups.try_emplace({channel, members}, static_cast<uint32_t>(world.groups.size()));
        world.ranks[c].groups[channel] = known->second;
        if (!isNew)
          continue;
        world.groups.push_back(members);
        world.spans.push_back(span);
      }
      const RankClasses::Communication *next = classes->communications[c].data();
      for (Command &command : lists[c])
        if (isCommunication(command.kind)) {
          command.peer = next->peer;
          command.reach = next->reach;
          command.aux = next->aux;
          ++next;
        }
    }
    perRun.assign(classes->numSlots, 0);
    return concatenate();
  }

private:
  void work() {
    for (uint32_t r = next++; r < file.numRanks(); r = next++) {
      Status status = loadRank(r);
      std::lock_guard<std::mutex> lock(mutex);
      if (!status.ok() && r < failedRank) {
        failure = status;
        failedRank = r;
      }
      if (!failure.ok())
        return;
    }
  }

  Status loadRank(uint32_t r) {
    TANDEM_ASSIGN_OR_RETURN(auto program, file.rankProgram(r));
    if (r == 0)
      describeWorld(*program);
    else if (common(*program) != shared)
      return Status(Code::InvalidProgram,
                    fmt::format("rank {}: channels or signals differ from those of rank 0", r));
    RankDecoder(*program, interner, world.ranks[r], lists[r]).run();
    return Status();
  }

  void describeWorld(const Program &program) {
    world.name = program.name();
    world.target = text(program.index().target());
    world.isDeterministic = program.index().deterministic() != sp::Determinism::none;
    for (const ArgumentInfo &argument : program.arguments())
      world.arguments.push_back({argument.name, argument.isResult, argument.dtype, argument.shape,
                                 argument.partial, argument.partialOp, argument.terms});
    const sp::RankProgram &data = program.data();
    for (uint32_t c = 0; c < count(data.channels()); ++c) {
      const sp::Channel &in = *data.channels()->Get(c);
      world.channels.push_back(
          {std::string(text(in.name())), std::string(text(in.link_class())), in.capabilities()});
    }
    for (uint32_t s = 0; s < count(data.signal_slots()); ++s)
      perRun.push_back(data.signal_slots()->Get(s));
    shared = common(program);
  }

  Status loadReference() {
    TANDEM_ASSIGN_OR_RETURN(auto program, file.reference());
    auto reference = std::make_shared<World>();
    Loader loader(file, *reference, 1, 1);
    reference->ranks.resize(1);
    loader.describeWorld(*program);
    RankDecoder(*program, loader.interner, reference->ranks[0], loader.lists[0]).run();
    TANDEM_RETURN_IF_ERROR(loader.concatenate());
    matchAll(*reference);
    world.reference = std::move(reference);
    return Status();
  }

  Status concatenate() {
    uint64_t total = 0;
    for (const auto &list : lists)
      total += list.size();
    if (total >= kNone)
      return Status(Code::Unsupported, fmt::format("{} commands are too many to replay", total));
    world.commands.reserve(total);
    uint32_t streams = 0, events = 0;
    for (uint32_t r = 0; r < lists.size(); ++r) {
      world.ranks[r].begin = static_cast<CommandId>(world.commands.size());
      world.ranks[r].firstStream = streams;
      world.ranks[r].firstEvent = events;
      streams += world.ranks[r].numStreams;
      events += world.ranks[r].numEvents;
      world.commands.insert(world.commands.end(), lists[r].begin(), lists[r].end());
      world.ranks[r].end = static_cast<CommandId>(world.commands.size());
      std::vector<Command>().swap(lists[r]);
      world.firstSlot.push_back(static_cast<uint32_t>(world.slots.size()));
      for (uint32_t s = 0; s < perRun.size(); ++s)
        world.slots.push_back({r, s, perRun[s], {}, {}});
    }
    world.firstSlot.push_back(static_cast<uint32_t>(world.slots.size()));
    return Status();
  }

  const ProgramFile &file;
  World &world;
  Interner interner;
  std::vector<std::vector<Command>> lists;
  std::vector<uint64_t> perRun;
  std::string shared;
  unsigned threads;
  std::atomic<uint32_t> next{1};
  std::mutex mutex; ///< guards the fields below
  Status failure;
  uint32_t failedRank = kNone;
};

} // namespace

Expected<std::shared_ptr<const World>> World::load(const ProgramFile &file,
                                                   const LoadOptions &options) {
  auto world = std::make_shared<World>();
  unsigned threads = options.threads;
  // A thread costs more than a few ranks; asking the system for its cores, as much as a rank.
  unsigned most = file.numRanks() / 16 + 1;
  if (threads == 0)
    threads = most == 1 ? 1 : std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  threads = std::min(threads, most);
  TANDEM_RETURN_IF_ERROR(Loader(file, *world, file.numRanks(), threads).run());
  matchAll(*world);
  return std::shared_ptr<const World>(std::move(world));
}

Expected<std::shared_ptr<const World>>
World::loadClasses(const ProgramFile &file, const UniformRanks &ranks, uint32_t devicesPerNode) {
  auto world = std::make_shared<World>();
  TANDEM_RETURN_IF_ERROR(Loader(file, *world, 1, 1).runClasses(ranks, devicesPerNode));
  matchAll(*world);
  return std::shared_ptr<const World>(std::move(world));
}

} // namespace tandem::replay
