//===- StreamProgram.h - from host programs to stream programs --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_STREAMPROGRAM_STREAMPROGRAM_H
#define TANDEM_TARGET_STREAMPROGRAM_STREAMPROGRAM_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"
#include "tandem/Support/LLVM.h"
#include "tandem/Target/StreamProgram/Targets.h"

#include <cstdint>
#include <optional>
#include <string>

namespace tandem {

struct UniformRanks;

/// More than any machine has, and few enough that a typing error fails before memory runs out.
inline constexpr uint32_t kMaxRanks = 65536;

struct StreamProgramOptions {
  /// A name of Targets.h. Its channels must have the capabilities that the program's channels need.
  std::string target = kDefaultTarget.str();
  /// The only rank to write; none: all. With one rank, messages are not matched across ranks.
  std::optional<uint32_t> rank;
  /// If given: where all ranks issue the same commands, only rank 0 is written, and this says how
  /// the others differ; else it has no ranks. Rank 0 alone is checked.
  UniformRanks *uniform = nullptr;
  /// Ranks of the world; 0: one more than the largest rank of any mesh of the program. May be
  /// larger than that, not smaller.
  uint32_t numRanks = 0;
  /// Tool and version, for display.
  std::string producer = "tandem";
  /// Partial sums are rounded on the wire (a ring): doubles the tolerances. Set automatically if
  /// the program itself receives and adds f16 or bf16.
  bool reducedWire = false;
  /// Also translate the program whose `reference_of` names the entry.
  bool withReference = true;
  /// If given, and the result is without that program: the file with it, for a proof.
  std::string *withReferenceToo = nullptr;
  /// Most commands, and most evaluated operations, per rank. Exceeding it is an error at the
  /// operation reached: an endless loop, or nearly.
  uint64_t maxCommands = uint64_t(1) << 24;
  uint64_t maxSteps = uint64_t(1) << 30;
  /// Most bytes of the file. Exceeding it is an error at the program, before memory runs out.
  uint64_t maxBytes = uint64_t(1) << 32;
};

/// Statistics of a translation.
struct StreamProgramStats {
  uint32_t numRanks = 0;     ///< of the world
  uint32_t ranks = 0;        ///< rank programs written, without the reference
  uint64_t commands = 0;     ///< of all of them
  uint64_t messages = 0;     ///< sends and receives
  uint64_t droppedSyncs = 0; ///< syncs that ordered nothing new
  uint64_t bytes = 0;        ///< of the file
};

/// Evaluates `hostir.program @entry` of `module` for every rank (or one) and returns the bytes of a
/// .tsp file (see lib/Program). Buffers must be planned (`hostir-plan-buffers`). On failure, emits
/// diagnostics at the operations at fault that name the rank. Time linear in the commands.
/// Thread-safe for different contexts.
FailureOr<std::string> translateToStreamProgram(ModuleOp module, StringRef entry,
                                                const StreamProgramOptions &options = {},
                                                StreamProgramStats *stats = nullptr);

} // namespace tandem

#endif // TANDEM_TARGET_STREAMPROGRAM_STREAMPROGRAM_H
