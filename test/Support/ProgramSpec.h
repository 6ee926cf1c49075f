//===- ProgramSpec.h - stream programs built by hand ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_SUPPORT_PROGRAMSPEC_H
#define TANDEM_TEST_SUPPORT_PROGRAMSPEC_H

#include "tandem/Program/Container.h"
#include "tandem/Program/Types.h"
#include "tandem/Program/stream_program_generated.h"

#include <optional>
#include <string>
#include <vector>

namespace tandem::test {

using Shape = std::vector<int64_t>;

struct LayoutSpec {
  sp::DType dtype = sp::DType::f32;
  Shape shape, strides;
};

struct ShardSpec {
  bool present = true;
  int64_t offset = 0;
  Shape shape, strides, local;
  uint32_t term = 0;
};

struct ChannelSpec {
  std::string name = "ch";
  uint32_t capabilities = 7;
  std::vector<uint32_t> group;
  uint32_t self = 0;
  std::string linkClass = {};
};

struct NativeCodeSpec {
  sp::KernelFormat format = sp::KernelFormat::ptx;
  std::string target = "sm_90";
  std::vector<uint8_t> code;
};

struct KernelSpec {
  std::string name = "kernel";
  sp::KernelFormat format = sp::KernelFormat::expression;
  std::string target = "cpu";
  std::vector<uint8_t> code;
  std::vector<uint8_t> operandTypes = {}; ///< sp::DType
  std::vector<NativeCodeSpec> native = {};
  uint32_t outputs = 0; ///< 0: as the expression says
  // Of an external kernel.
  std::optional<std::vector<int8_t>> dims = std::nullopt;
  std::string config = {};
  double flops = 0, bytes = -1;
  bool strided = false;
  sp::KernelEffects effects = sp::KernelEffects::none;
  std::vector<uint8_t> varying = {};
};

struct CommandSpec {
  sp::CommandKind kind = sp::CommandKind::record;
  uint8_t flags = 0, op = 0;
  sp::ReduceOp reduceOp = sp::ReduceOp::sum;
  uint16_t stream = 0, channel = sp::kNoChannel;
  uint32_t name = 0;
  uint32_t operands[4] = {sp::kNoView, sp::kNoView, sp::kNoView, sp::kNoView};
  uint32_t peer = 0, aux = 0;
  uint64_t value = 0, reserved = 0;
};

struct ArgumentSpec {
  std::string name;
  sp::ArgumentRole role = sp::ArgumentRole::input;
  sp::DType dtype = sp::DType::f32;
  Shape shape;
  /// More than 0: every rank holds one of so many terms of the logical value.
  uint32_t partialTerms = 0;
  sp::ReduceOp partialOp = sp::ReduceOp::sum;
  std::vector<uint32_t> varying = {};
  bool mask = false;
};

/// Everything that a RankProgram holds, open to be changed: tests make it wrong on purpose.
struct RankSpec {
  uint32_t rank = 0, numStreams = 1, numEvents = 0;
  uint64_t arenaBytes = 0, symmetricBytes = 0;
  std::vector<uint64_t> slots;
  std::vector<ShardSpec> shards;
  std::vector<sp::Buffer> buffers;
  std::vector<LayoutSpec> layouts;
  std::vector<sp::View> views;
  std::vector<uint32_t> launchOperands;
  std::vector<sp::CallPlace> callPlaces;
  std::vector<ChannelSpec> channels;
  std::vector<KernelSpec> kernels;
  std::vector<std::string> names{"test"};
  std::vector<CommandSpec> commands;
  std::vector<sp::ExchangeT> exchanges;

  /// A buffer for argument `i` of `bytes` bytes; or a piece of an arena, which grows by it.
  uint32_t argument(uint32_t i, uint64_t bytes);
  uint32_t arena(uint64_t bytes);
  uint32_t symmetric(uint64_t bytes);

  /// Views: row-major, or with strides; `offset` in bytes from the buffer's start.
  uint32_t view(uint32_t buffer, DType dtype, const Shape &shape, uint64_t offset = 0);
  uint32_t view(uint32_t buffer, DType dtype, const Shape &shape, const Shape &strides,
                uint64_t offset);

  /// A channel over `group`; this rank must be in it.
  uint16_t channel(const std::vector<uint32_t> &group, uint32_t capabilities = 7,
                   const std::string &name = "ch");

  /// Appends a command named `kind #n`; the reference is good until the next.
  CommandSpec &add(sp::CommandKind kind, uint16_t stream, std::vector<uint32_t> operands = {});
  void copy(uint16_t stream, uint32_t dst, uint32_t src);
  /// Returns the event.
  uint32_t record(uint16_t stream);
  void wait(uint16_t stream, uint32_t event);
  /// Stream `after` waits for all that `before` has so far.
  void sync(uint16_t after, uint16_t before) { wait(after, record(before)); }
  void group(uint16_t stream, uint16_t channel, uint32_t messages);
  void send(uint16_t stream, uint16_t channel, uint32_t view, uint32_t peer, uint32_t tag);
  void recv(uint16_t stream, uint16_t channel, uint32_t view, uint32_t peer, uint32_t tag);
  void put(uint16_t stream, uint16_t channel, uint32_t dst, uint32_t src, uint32_t peer);
  void signal(uint16_t stream, uint16_t channel, uint32_t peer, uint32_t slot, uint64_t value,
              bool exclusive = false);
  void waitSignal(uint16_t stream, uint16_t channel, uint32_t slot, uint64_t value);
  CommandSpec &collective(uint16_t stream, uint16_t channel, CollectiveKind kind, uint32_t out,
                          uint32_t in);
  void launch(uint16_t stream, uint32_t kernel, const std::vector<uint32_t> &views);
  /// A call of a kernel of format external; `places`: one per parallel dimension.
  void call(uint16_t stream, uint32_t kernel, const std::vector<uint32_t> &views,
            const std::vector<sp::CallPlace> &places);
};

struct ProgramSpec {
  std::string name = "program";
  std::vector<ArgumentSpec> arguments;
  std::vector<RankSpec> ranks;
  std::optional<RankSpec> reference;
  sp::Determinism deterministic = sp::Determinism::none;

  explicit ProgramSpec(uint32_t numRanks = 1);

  /// An argument whose local shape on every rank is `local`; the logical one is that of all ranks
  /// stacked on an outermost dimension. Returns its number; `RankSpec::argument` makes the buffer.
  uint32_t stacked(const std::string &name, bool isResult, DType dtype, const Shape &local);

  /// The bytes of a .tsp file.
  std::string encode() const;
};

/// An instruction of expression code; `imm` is the value of a constant.
struct Instr {
  Instr(sp::ExprOp op, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0, double imm = 0,
        sp::RegisterType type = sp::RegisterType::f32)
      : op(op), type(type), a(a), b(b), c(c), imm(imm) {}
  sp::ExprOp op;
  sp::RegisterType type;
  uint32_t a, b, c;
  double imm;
};
inline constexpr auto kI32 = sp::RegisterType::i32, kI64 = sp::RegisterType::i64,
                      kF64 = sp::RegisterType::f64;
/// An `Expression` buffer.
std::vector<uint8_t> encodeExpression(uint32_t inputs, uint32_t outputs,
                                      const std::vector<Instr> &code);

/// Sets the hashes of a container right again after its bytes were changed; false if its header or
/// index cannot be read.
bool rehash(std::string &file);

/// A file without one of its fields.
struct Dropped {
  std::string field; ///< "Index field 2", "RankProgram field 13"
  std::string bytes;
};
/// The file once without each field that one of its FlatBuffers tables has: tables that share a
/// vtable lose it together. Hashes are right.
std::vector<Dropped> withoutEachField(const std::string &file);

/// Row-major strides.
Shape denseStrides(const Shape &shape);
int64_t product(const Shape &shape);

} // namespace tandem::test

#endif // TANDEM_TEST_SUPPORT_PROGRAMSPEC_H
