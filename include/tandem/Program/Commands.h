//===- Commands.h - what is common to commands of a kind --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of Commands.def for code that does not care which kind a command is: verifier, printer,
// checker, simulator, timeline, reports and runtime. A new kind is a line there.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_COMMANDS_H
#define TANDEM_PROGRAM_COMMANDS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::sp {
enum class CommandKind : uint8_t;
} // namespace tandem::sp

namespace tandem::program {

/// Numbers as in the stream program.
enum class CommandKind : uint8_t {
#define TANDEM_COMMAND(Kind, ...) Kind,
#include "tandem/Program/Commands.def"
};
inline constexpr size_t kNumCommandKinds = 0
#define TANDEM_COMMAND(...) +1
#include "tandem/Program/Commands.def"
    ;

/// What a command does with an operand. In Commands.def: r, w, u (both), p (writes it in the
/// memory of the peer). A capital letter: the operand may be missing.
struct OperandUse {
  bool exists = false, isOptional = false;
  bool reads = false, writes = false; ///< memory of this rank
};

/// What a command needs of its channel: the bits of sp::Capability. None: it has no channel.
enum class ChannelNeed : uint8_t { None = 0, TwoSided = 1, OneSided = 2, Collectives = 4 };

/// "two_sided|one_sided", of these bits; "none" for 0.
std::string capabilitiesToString(uint32_t bits);

/// How a command orders others: streams of its rank by events, ranks by the rest.
enum class Sync : uint8_t { None, Record, Wait, Group, Send, Recv, Collective, Signal, WaitSignal };

/// The colour class of a command in timelines.
enum class Category : uint8_t {
  Compute,       ///< also copies within a rank
  Communication, ///< collectives, messages, puts, signals
  Waiting,       ///< also what only begins other commands, which then have the time
};

/// What runs a command on a GPU.
enum class Engine : uint8_t {
  None,    ///< the stream itself, or the group of a message
  Copy,    ///< a copy engine, or one SM where the layout needs a kernel
  Sm,      ///< a kernel that does not wait for other ranks
  Wait,    ///< a kernel that waits for other ranks
  Channel, ///< kernels of the communication library, which wait for other ranks
  Fused,   ///< one kernel for all its parts, which may wait for other ranks
};

/// The line of a machine file that has a command's fixed costs.
enum class CommandCost : uint8_t {
  Kernel,
  Matmul,
  Copy,
  Message,
  Collective,
  Event,
  Signal,
  WaitSignal
};
inline constexpr size_t kNumCommandCosts = 8;

/// What a command may be a part of. Both: of a gated matmul and of a fused exchange.
enum class PartOf : uint8_t { None = 0, Gated = 1, Exchange = 2, Both = 3, Group = 4 };

struct CommandInfo {
  const char *name; ///< as in the schema
  /// The operands are a list, outputs first; `operands` is not used. In Commands.def: *.
  bool takesList = false;
  std::array<OperandUse, 4> operands{};
  uint8_t flags; ///< sp::CommandFlags that may be set
  ChannelNeed needs;
  Sync sync;
  Category category;
  bool computes; ///< makes new values on this rank
  Engine engine;
  CommandCost cost;
  PartOf partOf;
  /// How the fields are printed. {0} to {3} are operands, other names are in Dump.cpp.
  const char *format;

  bool isHead() const { return engine == Engine::Fused; } ///< the next `aux` commands are its parts
};

/// `kind` must be one of the table's: readers check it.
const CommandInfo &infoOf(CommandKind kind);
inline const CommandInfo &infoOf(sp::CommandKind kind) {
  return infoOf(static_cast<CommandKind>(kind));
}

inline std::string_view toString(CommandKind kind) { return infoOf(kind).name; }

/// Commands of a group.
constexpr bool isMessage(CommandKind kind) {
  return kind == CommandKind::Send || kind == CommandKind::Recv;
}
constexpr bool isMessage(sp::CommandKind kind) { return isMessage(static_cast<CommandKind>(kind)); }

constexpr bool isGatedMatmul(sp::CommandKind kind) {
  return static_cast<CommandKind>(kind) == CommandKind::GatedMatmul;
}
constexpr bool isFusedExchange(sp::CommandKind kind) {
  return static_cast<CommandKind>(kind) == CommandKind::FusedExchange;
}

} // namespace tandem::program

#endif // TANDEM_PROGRAM_COMMANDS_H
