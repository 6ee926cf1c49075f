//===- ProgramImpl.h - what reader, verifier and dumper share ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_PROGRAM_PROGRAMIMPL_H
#define TANDEM_LIB_PROGRAM_PROGRAMIMPL_H

#include "tandem/Program/Program.h"

#include "tandem/Program/Container.h"
#include "tandem/Program/Gated.h"
#include "tandem/Program/stream_program_generated.h"

#include <cstddef>
#include <fmt/format.h>
#include <memory>
#include <optional>

namespace tandem::program {

/// Immutable bytes at a 64-byte aligned address (FlatBuffers reads them in place), kept alive by
/// the handle.
struct Bytes {
  std::shared_ptr<const std::byte> data;
  uint64_t size = 0;
  const uint8_t *begin() const { return reinterpret_cast<const uint8_t *>(data.get()); }
};

/// Uninitialised, aligned; null if out of memory.
std::shared_ptr<std::byte> allocateAligned(uint64_t size);

/// The operand types that a verified expression requires.
struct ExpressionTypes {
  uint32_t outputs = 0, inputs = 0;
  /// Per operand, outputs first; none: an input that is never loaded.
  std::vector<std::optional<sp::RegisterType>> accessedAs;
};

/// The rank's piece of an argument, of which its buffer holds `localShape`.
Shard shardOf(const sp::Shard &stored, const std::vector<int64_t> &localShape);

class ProgramImpl final : public Program {
public:
  std::string_view name() const override;
  std::string_view source() const override { return sourceName; }
  uint32_t rank() const override { return thisRank; }
  uint32_t numRanks() const override { return ranks; }
  bool isReference() const override { return reference; }
  uint64_t contentHash() const override { return hash; }
  const std::vector<ArgumentInfo> &arguments() const override { return args; }
  std::vector<Shard> shards() const override;
  const Layout &layout(uint32_t i) const override { return layouts[i]; }
  std::string_view nameText(uint32_t name) const override;
  const sp::Index &index() const override { return *indexTable; }
  const sp::RankProgram &data() const override { return *table; }

  std::string sourceName;
  uint32_t thisRank = 0, ranks = 0;
  bool reference = false;
  uint64_t hash = 0;
  std::vector<ArgumentInfo> args;
  std::vector<Layout> layouts;
  std::vector<ExpressionTypes> expressions; ///< one per kernel; empty for other code
  Bytes indexBytes, bytes;
  const sp::Index *indexTable = nullptr;
  const sp::RankProgram *table = nullptr;
};

/// Number of elements of a FlatBuffers vector that may be absent.
template <typename V> uint32_t sizeOfVector(const V *v) { return v ? v->size() : 0; }

/// FlatBuffers 2.0 checks where a vector's length lies, but not that 8-byte elements are aligned.
template <typename V> bool isAligned(const V *v) {
  return !v || v->size() == 0 || reinterpret_cast<uintptr_t>(v->Data()) % alignof(uint64_t) == 0;
}

/// An error of a malformed program.
template <typename... Args> Status invalid(fmt::format_string<Args...> format, Args &&...args) {
  return Status(Code::InvalidProgram, fmt::format(format, std::forward<Args>(args)...));
}

/// The certificate in `bytes`; none if it is of another content. An error if it is malformed.
Expected<std::optional<Certificate>> decodeCertificate(const Bytes &bytes, uint64_t content);

/// Checks the index; `fileSize` bounds the blobs.
Status verifyIndex(const sp::Index &index, uint64_t fileSize);

/// Checks all of program.table against program.indexTable (both FlatBuffers-verified) and fills
/// program.args and program.layouts. Messages name field and command; the caller adds file and
/// rank.
Status verifyRankProgram(ProgramImpl &program, const ProgramLimits &limits);

/// Derives the parts of a verified program's typed exchanges (Expand.h): program.table is then
/// another one, which has to be verified. An error names the exchange and its field.
Status expandExchanges(ProgramImpl &program);

/// The command part of it; needs args and layouts.
Status verifyCommands(const ProgramImpl &program);

/// Verifies an `Expression` buffer (any alignment) and fills `types`.
Status verifyExpression(const uint8_t *code, uint64_t size, ExpressionTypes &types);
/// An error if the expression cannot access its operand as a view of `dtype`.
Status checkAccess(const ExpressionTypes &types, uint32_t operand, DType dtype);

/// True if no two indices of `layout` are the same element; a sufficient test by nested strides
/// that every slice of a dense tensor passes.
bool isInjective(const Layout &layout);

enum class Overlap { None, Same, Partial };
/// How two views of one memory overlap; `a` and `b` in bytes. Views of too many pieces count as
/// None.
Overlap overlap(uint64_t a, const Layout &layoutA, uint64_t b, const Layout &layoutB);
/// The same; views of different buffers do not overlap.
Overlap overlap(const PlacedView &a, const PlacedView &b);

} // namespace tandem::program

#endif // TANDEM_LIB_PROGRAM_PROGRAMIMPL_H
