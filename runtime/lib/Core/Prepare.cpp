//===- Prepare.cpp - from a program to operations ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Encode.h"
#include "InstanceImpl.h"

#include "tandem/Program/Commands.h"
#include "tandem/Program/Container.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/ranges.h>

namespace tandem::core {

std::string InstanceImpl::prefix() const {
  return fmt::format("rank {}: @{}: ", context.rank(), programHandle->name());
}

Status InstanceImpl::prepare() {
  // Otherwise a rank that runs another program would wait for those that prepare this one.
  TANDEM_RETURN_IF_ERROR(context.agree(fmt::format("prepare @{}", programHandle->name())));
  TANDEM_RETURN_IF_ERROR(context.releaseRetired());
  // A failure on one rank must not leave the others waiting in a collective. So do local work
  // first, then agree.
  Status local = context.failure();
  if (local.ok())
    local = checkWorld();
  if (local.ok())
    local = allocate();
  if (local.ok())
    local = makeStreams();
  TANDEM_RETURN_IF_ERROR(agree(local, "load the program"));
  TANDEM_RETURN_IF_ERROR(agreeOnProgram());
  TANDEM_RETURN_IF_ERROR(context.connectRuns());
  TANDEM_RETURN_IF_ERROR(makeSymmetric());
  TANDEM_RETURN_IF_ERROR(makeChannels());
  Status operations = prepareOperations();
  if (operations.ok())
    operations = prepareRunBarrier();
  if (operations.ok() && context.device().hasGraphs())
    operations = prepareCaptureBarrier();
  TANDEM_RETURN_IF_ERROR(agree(operations, "prepare the program"));
  TANDEM_RETURN_IF_ERROR(agreeOnCommands());
  // Trying to capture may already wait for peers.
  context.watch(this);
  watched = true;
  return agreeOnGraphs();
}

Status InstanceImpl::checkWorld() const {
  const Program &p = *programHandle;
  if (p.numRanks() != context.worldSize())
    return Status(Code::InvalidArgument, fmt::format("the program is for {} ranks, this job has {}",
                                                     p.numRanks(), context.worldSize()));
  if (p.rank() != context.rank())
    return Status(
        Code::InvalidArgument,
        fmt::format("loaded the program of rank {}, this is rank {}", p.rank(), context.rank()));
  return Status();
}

Status InstanceImpl::allocate() {
  TANDEM_ASSIGN_OR_RETURN(arena, shared->join(context.device(), *this, data.arena_bytes()));
  bound.assign(programHandle->arguments().size(), nullptr);
  isBound.assign(bound.size(), 0);
  for (const ArgumentInfo &argument : programHandle->arguments())
    alignments.push_back(sizeOf(argument.dtype));
  given = bound;
  TANDEM_ASSIGN_OR_RETURN(varying,
                          VaryingArguments::create(context.device(), *programHandle, kInFlight));
  for (uint32_t i = 0; i < bound.size(); ++i)
    if (programHandle->arguments()[i].isMask)
      setAddress(i, nullptr);
  return Status();
}

/// Streams that communicate and do not compute have priority: their commands are short, and a peer
/// waits for them. On a GPU a signal's kernel would otherwise wait for all blocks of a matmul.
/// Streams that only copy within the device come last: a copy is quick, but on all SMs of a GPU, so
/// it would hold up a matmul that begins at the same time.
static std::vector<StreamPriority> getPriorities(const sp::RankProgram &data) {
  std::vector<char> computes(data.num_streams(), 0), communicates(data.num_streams(), 0);
  for (uint32_t i = 0; i < count(data.commands()); ++i) {
    const sp::Command &command = *data.commands()->Get(i);
    const program::CommandInfo &info = program::infoOf(command.kind());
    computes[command.stream()] |= info.computes;
    communicates[command.stream()] |= info.category == program::Category::Communication ||
                                      info.needs != program::ChannelNeed::None;
    if (info.isHead()) // its parts run within its kernel
      i += command.aux();
  }
  std::vector<StreamPriority> priorities;
  for (size_t s = 0; s < computes.size(); ++s)
    priorities.push_back(s == 0 || computes[s] ? StreamPriority::Normal // 0: perhaps the embedder's
                         : communicates[s]     ? StreamPriority::High
                                               : StreamPriority::Low);
  return priorities;
}

static std::vector<char> streamsWithMatmuls(const sp::RankProgram &data) {
  std::vector<char> streams(data.num_streams(), 0);
  for (const sp::Command *command : *data.commands())
    if (command->kind() == sp::CommandKind::matmul)
      streams[command->stream()] = 1;
  return streams;
}

Status InstanceImpl::makeStreams() {
  priorities = getPriorities(data);
  multiplies = streamsWithMatmuls(data);
  bool onHost = context.device().hostMemory();
  for (uint32_t i = 0; i < (onHost || context.device().hasGraphs() ? kInFlight : kRuns); ++i) {
    Slot &slot = slots.emplace_back();
    slot.number = i;
    TANDEM_ASSIGN_OR_RETURN(slot.begin, context.device().createEvent());
    if (onHost) {
      TANDEM_ASSIGN_OR_RETURN(slot.mayBegin, context.device().createEvent());
    }
    slot.pointers.assign(count(data.views()), nullptr);
    slot.frame.pointers = slot.pointers.data();
    slot.frame.parity = i % 2;
    slot.frame.errors = this;
  }
  for (uint32_t s = 0; s < data.num_streams(); ++s) {
    TANDEM_ASSIGN_OR_RETURN(Stream * stream, context.stream(s, priorities[s]));
    streams.push_back(stream);
    if (multiplies[s])
      TANDEM_RETURN_IF_ERROR(stream->allocateWorkspace());
    for (Slot &slot : slots) {
      TANDEM_ASSIGN_OR_RETURN(auto event, context.device().createEvent());
      slot.ends.push_back(std::move(event));
    }
  }
  usesStream.assign(streams.size(), 0);
  usesStream[0] = 1;
  return Status();
}

/// The first use of a communication library may take half a minute on a machine, and shows no
/// progress. So a short timeout, which is meant for the commands of runs, does not end it. A rank
/// that is lost does.
static constexpr std::chrono::milliseconds kLeastToMake{60000};

Status InstanceImpl::makeChannels() {
  for (uint32_t c = 0; c < count(data.channels()); ++c) {
    const sp::Channel &in = *data.channels()->Get(c);
    ChannelDesc desc;
    desc.id = uint64_t(number) << 16 | c;
    desc.name = in.name() ? in.name()->str() : "";
    desc.linkClass = in.link_class() ? in.link_class()->str() : "";
    desc.capabilities = in.capabilities();
    if (in.group())
      desc.group.assign(in.group()->begin(), in.group()->end());
    desc.self = in.self();
    desc.runsFollow = context.sharesMemory();
    desc.timeout = std::max(context.timeout(), kLeastToMake);
    if ((desc.capabilities & OneSided) && symmetric)
      desc.symmetric = symmetric->memory;
    std::string where = fmt::format("channel c{} \"{}\": ", c, desc.name);
    // Equal capabilities were agreed upon, so all ranks choose the same transport, or fail alike.
    auto transport = context.transport(desc);
    if (!transport)
      return transport.status().withPrefix(prefix() + where);
    auto channel = (*transport)->createChannel(desc, context.device(), context.bootstrap());
    // A rank that fails alone must not leave the others waiting in the next channel's exchange.
    TANDEM_RETURN_IF_ERROR(agree(channel.status().withPrefix(where), "make its channels"));
    channels.push_back(std::move(*channel));
    transports.emplace_back((*transport)->name());
  }
  collectivesSeen.assign(channels.size(), 0);
  return Status();
}

Status InstanceImpl::prepareOperations() {
  const char *epilogues = std::getenv("TANDEM_EPILOGUES");
  fusesEpilogues = context.device().hasEpilogues() && (!epilogues || *epilogues != '0');
  for (uint32_t e = 0; e < data.num_events(); ++e)
    events.push_back(nullptr); // made when recorded: a program may number more than it uses
  for (uint32_t i = 0, endOfParts = 0; i < count(data.commands()); ++i) {
    const sp::Command &command = *data.commands()->Get(i);
    bool isGated = program::isGatedMatmul(command.kind());
    if (isGated || program::isFusedExchange(command.kind())) {
      uint32_t commands = 1 + command.aux();
      auto one = isGated ? prepareGated(i, commands) : prepareExchange(i);
      if (!one)
        return one.status().withPrefix(describe(i) + ": ");
      if (*one) {
        addStep(command, i, std::move(*one));
        i += commands - 1;
      } else {
        endOfParts = i + commands;
      }
      continue;
    }
    if (command.kind() == sp::CommandKind::matmul && i >= endOfParts && fusesEpilogues) {
      auto one = prepareEpilogue(i);
      if (!one)
        return one.status().withPrefix(describe(i) + ": ");
      if (*one) {
        Step &step = addStep(command, i++, std::move(*one));
        step.isLocal = step.isLocal && isLocal(*data.commands()->Get(i)); // the launch behind it
        continue;
      }
    }
    Status status = prepareCommand(i);
    if (!status.ok())
      return status.withPrefix(describe(i) + ": ");
  }
  for (const Step &step : steps)
    if (step.operation) {
      Status status = noteAlignments(*step.operation);
      if (!status.ok())
        return status.withPrefix(describe(static_cast<uint32_t>(step.marker)) + ": ");
    }
  return Status();
}

Status InstanceImpl::prepareCommand(uint32_t i) {
  const sp::Command &command = *data.commands()->Get(i);
  if (command.kind() == sp::CommandKind::send || command.kind() == sp::CommandKind::recv)
    return Status(); // prepared with their group
  if (command.kind() != sp::CommandKind::record && command.kind() != sp::CommandKind::wait) {
    TANDEM_ASSIGN_OR_RETURN(auto operation, prepareOperation(command, i));
    addStep(command, i, std::move(operation));
    return Status();
  }
  std::unique_ptr<Event> &event = events[command.aux()];
  if (!event) {
    TANDEM_ASSIGN_OR_RETURN(event, context.device().createEvent());
  }
  Step &step = addStep(command, i, nullptr);
  step.records = command.kind() == sp::CommandKind::record;
  step.event = event.get();
  return Status();
}

Status InstanceImpl::noteAlignments(const Operation &operation) {
  Status status;
  operation.alignments([&](uint32_t slot, uint32_t bytes) {
    if (slot == Operand::kNone)
      return;
    const sp::View &view = *data.views()->Get(slot);
    if (view.offset() % bytes != 0)
      status = Status(Code::Unsupported,
                      fmt::format("expected an operand at a multiple of {} bytes, found one {} "
                                  "bytes into its buffer",
                                  bytes, view.offset()));
    const sp::Buffer &buffer = *data.buffers()->Get(view.buffer());
    if (buffer.space() == sp::Space::argument) {
      uint32_t &needed = alignments[buffer.argument()];
      needed = std::max(needed, bytes);
    }
  });
  return status;
}

bool InstanceImpl::isLocal(const sp::Command &command) const {
  auto isSymmetric = [&](uint32_t view) {
    return view != sp::kNoView &&
           data.buffers()->Get(data.views()->Get(view)->buffer())->space() == sp::Space::symmetric;
  };
  const program::CommandInfo &info = program::infoOf(command.kind());
  if (info.needs != program::ChannelNeed::None || info.isHead() ||
      command.kind() == sp::CommandKind::call)
    return false;
  if (!info.takesList)
    return std::none_of(command.operands()->begin(), command.operands()->end(), isSymmetric);
  const uint32_t *first = data.launch_operands()->data() + command.operands()->Get(0);
  return std::none_of(first, first + command.operands()->Get(1), isSymmetric);
}

Step &InstanceImpl::addStep(const sp::Command &command, uint32_t i,
                            std::unique_ptr<Operation> operation) {
  Step &step = steps.emplace_back();
  step.stream = command.stream();
  step.marker = uint64_t(number) << 32 | i;
  step.isLocal = isLocal(command);
  usesStream[step.stream] = 1;
  if (operation) {
    operation->marker = step.marker;
    operation->name = programHandle->nameText(command.name()).data(); // ends in a null
    step.operation = operation.get();
    operations.push_back(std::move(operation));
  }
  return step;
}

Status InstanceImpl::agree(const Status &mine, const char *what) {
  // Code and message in one string; empty = success.
  std::string text =
      mine.ok() ? "" : std::to_string(static_cast<int>(mine.code())) + " " + mine.message();
  auto all = allGatherStrings(context.bootstrap(), text);
  if (!mine.ok()) {
    // A library may report a lost rank as an error of its own, without the cause.
    bool hasCause = all || mine.message().find(all.status().message()) != std::string::npos;
    return Status(mine.code(),
                  prefix() + mine.message() + (hasCause ? "" : "; " + all.status().message()));
  }
  if (!all)
    return all.status().withPrefix(prefix());
  for (uint32_t r = 0; r < all->size(); ++r)
    if (!(*all)[r].empty()) {
      const std::string &theirs = (*all)[r];
      return Status(Code::Aborted, fmt::format("{}rank {} could not {}: {}", prefix(), r, what,
                                               theirs.substr(theirs.find(' ') + 1)));
    }
  return Status();
}

Status InstanceImpl::agreeOnProgram() {
  // What must be equal on all ranks, also where each loaded a file of its own (`--rank=r`).
  struct Said {
    uint64_t version, id;
  } mine{kProtocolVersion, programHandle->id()};
  std::vector<Said> all(context.worldSize());
  TANDEM_RETURN_IF_ERROR(
      context.bootstrap().allGather(&mine, sizeof mine, all.data()).withPrefix(prefix()));
  for (uint32_t r = 0; r < all.size(); ++r)
    if (all[r].version != mine.version)
      return Status(
          Code::InvalidArgument,
          fmt::format("{}rank {} speaks version {} of the protocol, this rank version {}: "
                      "all ranks need the same version of Tandem",
                      prefix(), r, all[r].version, mine.version));
  auto other = std::find_if(all.begin(), all.end(),
                            [&](const Said &said) { return said.id != all.front().id; });
  if (other == all.end())
    return Status();
  // All ranks know of it, so all of them exchange what may be the reason.
  auto first = static_cast<uint32_t>(other - all.begin());
  TANDEM_ASSIGN_OR_RETURN(auto arguments, allGatherStrings(context.bootstrap(), logicalShapes()));
  std::string text =
      fmt::format("{}rank {} loaded another program: its id is {:016x}, that of rank "
                  "0 {:016x}",
                  prefix(), first, other->id, all.front().id);
  auto differs = std::find_if(arguments.begin(), arguments.end(),
                              [&](const std::string &one) { return one != arguments.front(); });
  if (differs != arguments.end())
    text +=
        fmt::format("; logical shapes are {} on rank 0, {} on rank {}: an extent that the ranks "
                    "do not divide is stated when the program is compiled (in Python: "
                    "compile(shapes=...)), since it does not follow from a rank's part",
                    arguments.front(), *differs, differs - arguments.begin());
  return Status(Code::InvalidArgument, text);
}

std::string InstanceImpl::logicalShapes() const {
  std::string text;
  for (const ArgumentInfo &argument : programHandle->arguments())
    text += fmt::format("{}\"{}\" [{}]", text.empty() ? "" : ", ", argument.name,
                        fmt::join(argument.shape, ", "));
  return text;
}

Status InstanceImpl::agreeOnCommands() {
  // Of all channels in one exchange.
  std::vector<std::string> mine;
  for (const auto &channel : channels)
    mine.push_back(channel ? channel->prepared() : std::string());
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(context.bootstrap(), encode(std::tie(mine))));
  std::vector<std::vector<std::string>> said(all.size());
  Status status;
  for (uint32_t r = 0; r < all.size() && status.ok(); ++r)
    if (!decode(all[r], std::tie(said[r])) || said[r].size() != channels.size())
      status =
          Status(Code::Io, fmt::format("rank {} says nothing of {} channels", r, channels.size()));
  for (uint32_t c = 0; c < channels.size() && status.ok(); ++c) {
    if (!channels[c])
      continue;
    std::vector<std::string> members;
    for (uint32_t rank : *data.channels()->Get(c)->group())
      members.push_back(said[rank][c]);
    Marker culprit = kNoMarker;
    status = channels[c]->compare(members, culprit);
    if (culprit != kNoMarker)
      status = status.withPrefix(describe(static_cast<uint32_t>(culprit)) + ": ");
  }
  Status device = context.device().agree(context.bootstrap());
  return agree(status.ok() ? device : status, "prepare the program");
}

} // namespace tandem::core

/// Of operands with gaps in messages and collectives, where the channel copies them.
static uint64_t bytesOfCopies(const tandem::Program &program,
                              const tandem::core::ContextImpl &context) {
  namespace sp = tandem::sp;
  uint64_t bytes = 0;
  for (const sp::Command *command : *program.data().commands()) {
    bool isMessage =
        command->kind() == sp::CommandKind::send || command->kind() == sp::CommandKind::recv;
    if ((!isMessage && command->kind() != sp::CommandKind::collective) ||
        !context.copiesGaps(program.data().channels()->Get(command->channel())->capabilities()))
      continue;
    for (uint32_t k = 0; k < (isMessage ? 1u : 2u); ++k)
      if (uint32_t view = command->operands()->Get(k); view != sp::kNoView)
        if (const tandem::Layout &layout =
                program.layout(program.data().views()->Get(view)->layout());
            !layout.isDense())
          bytes += layout.numBytes();
  }
  return bytes;
}

tandem::MemoryNeeds tandem::memoryNeeds(const Program &program, const Context &context) {
  MemoryNeeds needs;
  needs.arena = program.data().arena_bytes();
  needs.symmetric = core::layoutSymmetric(program.data(), program.numRanks()).totalBytes;
  needs.own = core::VaryingArguments::bytesOf(program) +
              bytesOfCopies(program, static_cast<const core::ContextImpl &>(context));
  for (char multiplies : core::streamsWithMatmuls(program.data()))
    needs.workspaces += multiplies ? 1 : 0;
  return needs;
}
