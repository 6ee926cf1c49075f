//===- Program.h - reading stream programs ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_PROGRAM_H
#define TANDEM_PROGRAM_PROGRAM_H

#include "tandem/Program/Certificate.h"
#include "tandem/Program/Shard.h"
#include "tandem/Program/Status.h"
#include "tandem/Program/Types.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {
namespace sp {
enum class ExprOp : uint8_t;
enum class RegisterType : uint8_t;
struct Index;
struct RankProgram;
} // namespace sp

/// The largest programs that a reader accepts.
struct ProgramLimits {
  /// Bytes per rank of the arena plus both buffers of the symmetric arena. Also limits the bytes of
  /// elements of one view, since strides of 0 could repeat elements without end.
  uint64_t maxArenaBytes = uint64_t(1) << 40;
  uint32_t maxStreams = 256;
  uint32_t maxEvents = 1u << 22;
  uint32_t maxSignals = 1u << 20;
};

/// One argument as one rank sees it.
struct ArgumentInfo {
  std::string name;
  bool isResult = false;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;      ///< logical
  std::vector<int64_t> localShape; ///< this rank's; bind a dense tensor of this shape
  bool present = true;             ///< false: this rank holds no part of it; do not bind it
  std::string axes, mesh;          ///< for display
  bool partial = false;            ///< ranks hold partial sums (or other terms of `partialOp`)
  ReduceOp partialOp = ReduceOp::Sum;
  uint32_t terms = 1; ///< number of terms of a partial argument
  uint32_t term = 0;  ///< the term that this rank holds
  /// Dimensions whose extent is said at each run, up to that of `shape` (docs/families.md).
  std::vector<uint32_t> varying;
  bool isMask = false; ///< the runtime binds it
  /// Of an argument with varying dimensions: the logical index of local index 0, per dimension.
  std::vector<int64_t> begin;
  uint64_t localBytes() const;
  /// The argument of a run with extent `extent` in the varying dimensions.
  ArgumentInfo at(int64_t extent) const;
};

/// One rank's verified program, or the unsharded reference. Immutable and thread-safe;
/// keeps its file's bytes alive.
class Program {
public:
  virtual ~Program();
  virtual std::string_view name() const = 0;
  /// Its origin for messages: a path, or "memory".
  virtual std::string_view source() const = 0;
  virtual uint32_t rank() const = 0;
  /// World size; 1 for the reference.
  virtual uint32_t numRanks() const = 0;
  virtual bool isReference() const = 0;
  /// Equal for all programs of one file.
  virtual uint64_t contentHash() const = 0;
  /// Of the whole program: equal for ranks that may run together, also where each has a file of its
  /// own (`--rank=r`).
  uint64_t id() const;
  virtual const std::vector<ArgumentInfo> &arguments() const = 0;
  /// The rank's pieces, one per argument.
  virtual std::vector<Shard> shards() const = 0;
  /// Layout i of RankProgram.layouts, decoded.
  virtual const Layout &layout(uint32_t i) const = 0;
  /// The text of a name, or "".
  virtual std::string_view nameText(uint32_t name) const = 0;
  virtual const sp::Index &index() const = 0;
  virtual const sp::RankProgram &data() const = 0;
};

/// An open .tsp file. Header and index are verified at once, rank programs on request.
class ProgramFile : public std::enable_shared_from_this<ProgramFile> {
public:
  virtual ~ProgramFile();
  /// Reads a file. Errors name the path and the field.
  static Expected<std::shared_ptr<const ProgramFile>> open(const std::string &path,
                                                           const ProgramLimits &limits = {});
  /// Copies `bytes`.
  static Expected<std::shared_ptr<const ProgramFile>> fromMemory(std::string_view bytes,
                                                                 const ProgramLimits &limits = {});

  virtual std::string_view name() const = 0;
  virtual uint32_t numRanks() const = 0;
  /// True if the file holds that rank's program (`--rank=r` writes only one).
  virtual bool hasRank(uint32_t rank) const = 0;
  virtual bool hasReference() const = 0;
  /// Returns the program after full verification. Any thread.
  virtual Expected<std::shared_ptr<const Program>> rankProgram(uint32_t rank) const = 0;
  virtual Expected<std::shared_ptr<const Program>> reference() const = 0;
  virtual const sp::Index &index() const = 0;
  /// What was proven of the file's programs; null if it has no certificate, or one of another
  /// content.
  virtual const Certificate *certificate() const = 0;
  /// An error if not everything is proven that a certificate can state, but for the comparison of
  /// data, which may be sampled; the message says what is missing.
  Status requireProof() const;
};

/// The rank's pieces, one per argument.
inline std::vector<Shard> shardsOf(const Program &program) { return program.shards(); }

/// The largest extent of the varying dimensions; none if there are none.
std::optional<int64_t> boundOf(const Program &program);
/// The program as a run with extent `extent` (0 to boundOf) sees it: arguments and shards are
/// smaller, all else is that of `program`. For tools that make and compare data.
std::shared_ptr<const Program> atExtent(std::shared_ptr<const Program> program, int64_t extent);

/// Number of registers that an instruction reads: its fields a, b and c, in this order.
unsigned registersRead(sp::ExprOp op);
/// The result type of an instruction with operation `op` and type `type`.
sp::RegisterType resultType(sp::ExprOp op, sp::RegisterType type);
/// The type in which expression code computes elements of `dtype`.
sp::RegisterType registerOf(DType dtype);

/// Readable text of one rank's program: a header, then one command per line.
std::string dumpProgram(const Program &program);
/// The code of its kernels: expressions (one instruction per line) and PTX.
std::string dumpKernels(const Program &program);
/// Text of the file's header and index, without the ranks.
std::string dumpIndex(const ProgramFile &file);

} // namespace tandem

#endif // TANDEM_PROGRAM_PROGRAM_H
