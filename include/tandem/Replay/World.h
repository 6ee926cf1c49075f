//===- World.h - the stream programs of all ranks at once -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The data shared by checker and simulator: the decoded command lists of all ranks and their
// dependences (`World`). Walker.h walks them. Needs no device.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REPLAY_WORLD_H
#define TANDEM_REPLAY_WORLD_H

#include "tandem/Program/Commands.h"
#include "tandem/Program/Program.h"
#include "tandem/Program/Status.h"
#include "tandem/Program/Types.h"
#include "tandem/Program/UniformRanks.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tandem::replay {

/// Index into World::commands.
using CommandId = uint32_t;
inline constexpr uint32_t kNone = 0xffffffffu;

using Kind = program::CommandKind;
using program::infoOf;
using program::isMessage;
using program::Sync;

/// How far away the peer of a command is.
enum class Reach : uint8_t {
  Unknown, ///< as the numbers of the two ranks say
  Self,
  Node,
  Network
};

/// Numbers as in the stream program.
enum class Space : uint8_t { Argument = 0, Arena = 1, Symmetric = 2 };

/// In Command::flags, of a matmul: a device may run the launch after it with it, and leave the
/// product unrounded (program::findEpilogue).
inline constexpr uint8_t kHasEpilogue = 0x80;
/// Of a gated matmul or fused exchange: one kernel of a GPU can run all parts; it has puts.
inline constexpr uint8_t kHasKernel = 0x40, kHasPuts = 0x20;

struct Command {
  Kind kind = Kind::Record;
  uint8_t flags = 0;        ///< sp::CommandFlags, and the flags above
  uint8_t op = 0;           ///< CollectiveKind
  uint8_t reduceOp = 0;     ///< ReduceOp
  uint16_t stream = 0;      ///< of its rank; 0 = main
  uint16_t channel = 0;     ///< index in the channel table; 0xffff = none
  uint32_t name = 0;        ///< into World::names
  uint32_t operands = 0;    ///< first of numOperands in Rank::operands
  uint32_t numOperands = 0; ///< without trailing absent operands
  uint32_t peer = kNone;    ///< *world* rank: peer of a message, put or signal; root
  uint32_t aux = 0;         ///< as in the stream program: event, tag, slot, kernel, count
  Reach reach = Reach::Unknown;
  bool isGated = false; ///< a part of a gated matmul: a wait_signal or matmul after it
  bool isFused = false; ///< a part of a fused exchange, whose head is before it
  /// A launch that GPUs run with the matmul before it (docs/kernels.md, "Epilogues of matmuls").
  bool isEpilogue = false;
  uint64_t value = 0; ///< as in the stream program
  /// Next top-level command of the stream; for a message: its group.
  CommandId next = kNone;
  /// wait: its record. send, recv: the other end. collective: index into World::collectives. A part
  /// of a gated matmul or fused exchange: that. kNone if missing (see World::mismatches).
  CommandId partner = kNone;
};

/// A view of one rank. `address`: bytes from the start of the argument, the arena, or one buffer of
/// the symmetric arena.
struct View {
  uint64_t address = 0;
  uint32_t layout = 0;   ///< into World::layouts
  uint32_t buffer = 0;   ///< into Rank::buffers
  uint32_t argument = 0; ///< only of Space::Argument, else 0
  Space space = Space::Arena;
};

struct Buffer {
  uint64_t offset = 0, size = 0; ///< bytes
  uint32_t argument = 0;
  uint32_t name = 0; ///< into World::names
  Space space = Space::Arena;
};

/// One instruction of expression code, as in the stream program.
struct Instruction {
  sp::ExprOp op{};
  sp::RegisterType type{};
  uint32_t a = 0, b = 0, c = 0;
  uint64_t bits = 0;
};

struct Kernel {
  std::string name;
  bool isExpression = false; ///< else its code is opaque
  uint32_t outputs = 0;      ///< leading operands of a launch
  std::vector<Instruction> code;
  // Of a kernel of the embedder, as in the schema:
  std::string config;
  std::vector<int8_t> dims;
  double flops = 0, bytes = -1;
};

/// Where the operands of a call lie along a parallel dimension.
struct CallPlace {
  int64_t offset = 0, extent = 0;
};

struct Rank {
  CommandId begin = 0, end = 0; ///< its commands, in issue order
  uint32_t numStreams = 0, numEvents = 0;
  /// Numbers of its stream 0 and event 0 among those of all ranks.
  uint32_t firstStream = 0, firstEvent = 0;
  uint64_t arenaBytes = 0, symmetricBytes = 0;
  std::vector<View> views;
  std::vector<CallPlace> callPlaces; ///< of a call, from Command::value on
  std::vector<Buffer> buffers;
  std::vector<uint32_t> operands;      ///< into views; kNone = absent
  std::vector<uint32_t> groups;        ///< per channel: into World::groups; kNone = not a member
  std::vector<uint64_t> argumentBytes; ///< per argument: bytes of this rank's shard
  std::vector<uint8_t> argumentPresent;
  /// Per kernel of the program: number of leading operands that a launch writes.
  std::vector<uint32_t> kernelOutputs;
  std::vector<uint32_t> kernels; ///< per kernel of the program: into World::kernels
  std::vector<Shard> shards;     ///< per argument
};

struct Name {
  std::string text, location;
};

struct Argument {
  std::string name;
  bool isResult = false;
  DType dtype = DType::F32;
  std::vector<int64_t> shape; ///< logical
  bool partial = false;       ///< ranks hold partial sums (or other terms of `partialOp`)
  ReduceOp partialOp = ReduceOp::Sum;
  uint32_t terms = 1; ///< of a partial argument
};

struct ChannelInfo {
  std::string name, linkClass;
  uint32_t capabilities = 0;
};

/// The k-th collective of a channel among the members of one group.
struct MatchedCollective {
  uint32_t channel = 0, group = 0; ///< into World::channels, World::groups
  uint32_t sequence = 0;
  uint32_t members = 0; ///< first index into World::members; one per member of the group, in order
};

/// A signal slot of one rank.
struct Slot {
  uint32_t rank = 0, slot = 0;
  uint64_t perRun = 0;           ///< the largest value of a run
  std::vector<CommandId> raises; ///< signal commands (of any rank), by value, then by id
  std::vector<CommandId> waits;  ///< wait_signal commands of `rank`, by id
};

/// A reason why two ends do not match. `a` (and `b`, if any) are the commands.
struct Mismatch {
  enum Problem : uint8_t {
    SendWithoutRecv,
    RecvWithoutSend,
    MessageSize,       ///< the ends have different numbers of elements
    MessageType,       ///< ... or different dtypes
    GroupsDiffer,      ///< `rank` and `other` have different groups for `channel`
    CollectiveMissing, ///< rank `rank` issues fewer collectives of the channel than a's rank
    CollectiveDiffers, ///< in `field`
    WaitWithoutSignal, ///< no command raises the slot that far
    PutOutside         ///< put past the end of the target's symmetric memory
  } problem = SendWithoutRecv;
  CommandId a = kNone, b = kNone;
  uint32_t rank = kNone, other = kNone, channel = kNone;
  const char *field = "";
};

struct LoadOptions {
  unsigned threads = 0; ///< 0: one per core, at most 8
};

/// The ranks that a group of a world of classes stands for.
struct Span {
  uint32_t ranks = 0, nodes = 0;
};

/// All ranks of one program. Immutable once loaded.
struct World {
  /// Decodes and matches all ranks. An error if the file is malformed, lacks ranks (`--rank`), or
  /// has 2^32 commands or more. Mismatches are no error: see mismatches.
  static Expected<std::shared_ptr<const World>> load(const ProgramFile &file,
                                                     const LoadOptions &options = {});

  /// One rank for each class of ranks between which no machine can tell a difference, whose nodes
  /// have `devicesPerNode` devices (0: there is one node), and whose devices share nothing but
  /// ports: each rank of a class issues the same commands, to peers of the same classes that are as
  /// far away, and each of its ports carries the same messages. Simulated, the ranks of a class do
  /// the same at the same time, so one of them stands for all. Peers and groups are classes.
  /// `file` holds rank 0. An error if the ranks have no such classes, or about as many as ranks.
  static Expected<std::shared_ptr<const World>>
  loadClasses(const ProgramFile &file, const UniformRanks &ranks, uint32_t devicesPerNode);

  uint32_t numRanks() const { return static_cast<uint32_t>(ranks.size()); }
  uint32_t rankOf(CommandId command) const;
  /// Of all ranks together.
  uint32_t numStreams() const {
    return ranks.empty() ? 0 : ranks.back().firstStream + ranks.back().numStreams;
  }
  uint32_t numEvents() const {
    return ranks.empty() ? 0 : ranks.back().firstEvent + ranks.back().numEvents;
  }
  /// Index in its rank's list, as in dumps.
  uint32_t indexOf(CommandId command) const { return command - ranks[rankOf(command)].begin; }
  /// Operand k of a command of `rank`; null if it is absent.
  const View *operand(const Rank &rank, const Command &command, uint32_t k) const {
    uint32_t view = k < command.numOperands ? rank.operands[command.operands + k] : kNone;
    return view == kNone ? nullptr : &rank.views[view];
  }
  const Layout &layoutOf(const View &view) const { return layouts[view.layout]; }
  /// Group size of the channel of a command.
  uint32_t groupSize(const MatchedCollective &collective) const {
    return static_cast<uint32_t>(groups[collective.group].size());
  }
  /// Ranks that a channel connects with `rank`, which is one of them; 1 if it is no member. In a
  /// world of classes all that these stand for.
  uint32_t groupSize(const Rank &rank, uint16_t channel) const {
    uint32_t group = channel < rank.groups.size() ? rank.groups[channel] : kNone;
    if (group == kNone)
      return 1;
    return group < spans.size() ? spans[group].ranks : static_cast<uint32_t>(groups[group].size());
  }
  /// The slot of a signal or wait_signal; null if the target rank has no such slot.
  const Slot *slotOf(uint32_t rank, uint32_t slot) const;
  /// 'rank 1 stream 2 command 7 (recv "recv #0" at file.mlir:3:5)'
  std::string describe(CommandId command) const;

  std::string name, target;
  /// The order of additions is a property of the program (docs/semantics.md).
  bool isDeterministic = false;
  std::vector<Argument> arguments;
  std::vector<ChannelInfo> channels;
  std::vector<Rank> ranks;
  std::vector<Command> commands;             ///< rank by rank, in issue order
  std::vector<Layout> layouts;               ///< interned over all ranks
  std::vector<Name> names;                   ///< interned over all ranks
  std::vector<Kernel> kernels;               ///< interned over all ranks
  std::vector<std::vector<uint32_t>> groups; ///< of world ranks, interned over all ranks
  std::vector<Span> spans;                   ///< per group, in a world of classes; else empty
  std::vector<MatchedCollective> collectives;
  std::vector<CommandId> members;  ///< of collectives; kNone = that rank issues none
  std::vector<Slot> slots;         ///< numSlots of rank 0, of rank 1, ...
  std::vector<uint32_t> firstSlot; ///< per rank, into slots; one more at the end
  /// Per target rank: the puts into its symmetric memory, by id.
  std::vector<std::vector<CommandId>> incoming;
  std::vector<Mismatch> mismatches;
  /// The unsharded reference on one rank; null if the file has none.
  std::shared_ptr<const World> reference;
};

/// One command's access to the memory of one rank.
struct Access {
  uint32_t view = 0; ///< into Rank::views of the rank that *issues* the command
  bool reads = false, writes = false;
};
/// Appends the accesses of one command to its own rank's memory. A put: only its source. A group:
/// none; its messages have their own.
void localAccesses(const World &world, const Rank &rank, const Command &command,
                   std::vector<Access> &out);

} // namespace tandem::replay

#endif // TANDEM_REPLAY_WORLD_H
