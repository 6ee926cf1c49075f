//===- Dump.cpp - stream programs as text ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The format is read by FileCheck tests: change it only together with them.

#include "ProgramImpl.h"
#include "tandem/Program/AppendTo.h"
#include "tandem/Program/CollectiveRoute.h"
#include "tandem/Program/Commands.h"

#include <cstring>
#include <fmt/ranges.h>
#include <iterator>

namespace tandem {

namespace {

using program::infoOf;
using program::sizeOfVector;
using Out = std::back_insert_iterator<std::string>;

std::string_view text(const flatbuffers::String *string) {
  return string ? string->string_view() : std::string_view();
}

template <typename V> std::string list(const V *vector) {
  return vector ? fmt::format("[{}]", fmt::join(vector->begin(), vector->end(), ",")) : "[]";
}

class Dumper {
public:
  explicit Dumper(const program::ProgramImpl &program)
      : program(program), table(program.data()), out(result) {}

  std::string run() {
    appendTo(out, "program @{} {}of {}\n", program.name(),
             program.isReference() ? "reference " : fmt::format("rank {} ", program.rank()),
             program.numRanks());
    appendTo(out, "  streams {}, events {}, arena {}, symmetric 2x{}, signals {}, commands {}\n",
             table.num_streams(), table.num_events(), table.arena_bytes(), table.symmetric_bytes(),
             list(table.signal_slots()), sizeOfVector(table.commands()));
    arguments();
    buffers();
    channels();
    kernels();
    commands();
    return std::move(result);
  }

private:
  void arguments() {
    for (uint32_t i = 0; i < program.args.size(); ++i) {
      const ArgumentInfo &info = program.args[i];
      appendTo(out, "  argument arg{} {} \"{}\" {}[{}]", i, info.isResult ? "result" : "input",
               info.name, toString(info.dtype), fmt::join(info.shape, ","));
      if (!info.axes.empty())
        appendTo(out, " axes {}", info.axes);
      if (info.partial)
        appendTo(out, " partial {} term {} of {}", toString(info.partialOp), info.term, info.terms);
      if (!info.present) {
        appendTo(out, " absent\n");
        continue;
      }
      const sp::Shard &shard = *table.shards()->Get(i);
      appendTo(out, " local [{}] shard {}+{}:{}\n", fmt::join(info.localShape, ","), shard.offset(),
               list(shard.shape()), list(shard.strides()));
    }
  }

  void buffers() {
    for (uint32_t i = 0, e = sizeOfVector(table.buffers()); i < e; ++i) {
      const sp::Buffer &buffer = *table.buffers()->Get(i);
      if (buffer.space() == sp::Space::argument)
        continue;
      appendTo(out, "  buffer {} {} at {} size {} \"{}\"\n", bufferName(i),
               sp::EnumNameSpace(buffer.space()), buffer.offset(), buffer.size(),
               program.nameText(buffer.name()));
    }
  }

  void channels() {
    for (uint32_t i = 0, e = sizeOfVector(table.channels()); i < e; ++i) {
      const sp::Channel &channel = *table.channels()->Get(i);
      appendTo(out, "  channel c{} \"{}\" {} link \"{}\" group {} self {}\n", i,
               text(channel.name()), program::capabilitiesToString(channel.capabilities()),
               text(channel.link_class()), list(channel.group()), channel.self());
    }
  }

  void kernels() {
    for (uint32_t i = 0, e = sizeOfVector(table.kernels()); i < e; ++i) {
      const sp::Kernel &kernel = *table.kernels()->Get(i);
      appendTo(out, "  kernel k{} \"{}\" {} target \"{}\" bytes {}", i, text(kernel.name()),
               sp::EnumNameKernelFormat(kernel.format()), text(kernel.target()),
               sizeOfVector(kernel.code()));
      for (uint32_t k = 0; k < sizeOfVector(kernel.native()); ++k) {
        const sp::NativeCode &native = *kernel.native()->Get(k);
        appendTo(out, ", {} target \"{}\" bytes {}", sp::EnumNameKernelFormat(native.format()),
                 text(native.target()), sizeOfVector(native.code()));
      }
      if (kernel.format() == sp::KernelFormat::external) {
        appendTo(out, " dims {} config \"{}\" flops {}", list(kernel.dims()), text(kernel.config()),
                 kernel.flops());
        if (kernel.bytes() >= 0)
          appendTo(out, " moves {}", kernel.bytes());
        if (kernel.strided())
          appendTo(out, " strided");
        if (kernel.effects() != sp::KernelEffects::none)
          appendTo(out, " {}", sp::EnumNameKernelEffects(kernel.effects()));
        if (sizeOfVector(kernel.varying()) > 0)
          appendTo(out, " varying {}", list(kernel.varying()));
      }
      *out++ = '\n';
    }
  }

  std::string bufferName(uint32_t i) const {
    const sp::Buffer &buffer = *table.buffers()->Get(i);
    switch (buffer.space()) {
    case sp::Space::argument:
      return fmt::format("arg{}", buffer.argument());
    case sp::Space::symmetric:
      return fmt::format("sym{}", i);
    default:
      return fmt::format("buf{}", i);
    }
  }

  std::string view(uint32_t index) const {
    if (index == sp::kNoView)
      return "none";
    const sp::View &v = *table.views()->Get(index);
    std::string name = bufferName(v.buffer());
    if (v.offset())
      name += fmt::format("+{}", v.offset());
    return name + ":" + program.layouts[v.layout()].str();
  }

  void commands() {
    uint32_t parts = 0; // left of a gated matmul or fused exchange
    for (uint32_t i = 0, e = sizeOfVector(table.commands()); i < e; ++i) {
      const sp::Command &command = *table.commands()->Get(i);
      bool isMember = parts > 0 || program::isMessage(command.kind());
      parts = infoOf(command.kind()).isHead() ? command.aux() : parts > 0 ? parts - 1 : 0;
      appendTo(out, "{:>5} s{} {}{}", i, command.stream(), isMember ? "  " : "",
               sp::EnumNameCommandKind(command.kind()));
      body(command);
      const sp::Name &name = *table.names()->Get(command.name());
      appendTo(out, " \"{}\"", text(name.text()));
      if (!text(name.location()).empty())
        appendTo(out, " loc \"{}\"", text(name.location()));
      result += '\n';
    }
  }

  std::string peer(const sp::Command &command) const {
    return fmt::format("{}",
                       table.channels()->Get(command.channel())->group()->Get(command.peer()));
  }

  /// By the format of Commands.def.
  void body(const sp::Command &command) {
    if (command.channel() != sp::kNoChannel)
      appendTo(out, " c{}", command.channel());
    std::string_view format = infoOf(command.kind()).format;
    while (!format.empty()) {
      size_t open = std::min(format.find('{'), format.size());
      result += format.substr(0, open);
      format.remove_prefix(open);
      if (format.empty())
        break;
      size_t close = format.find('}');
      result += field(command, format.substr(1, close - 1));
      format.remove_prefix(close + 1);
    }
  }

  std::string field(const sp::Command &command, std::string_view name) const {
    auto flag = [&](sp::CommandFlags f) { return command.flags() & static_cast<uint8_t>(f); };
    auto operand = [&](unsigned k) { return view(command.operands()->Get(k)); };
    if (name.size() == 1)
      return operand(static_cast<unsigned>(name[0] - '0'));
    if (name == "aux")
      return std::to_string(command.aux());
    if (name == "value")
      return std::to_string(command.value());
    if (name == "peer")
      return peer(command);
    if (name == "bytes")
      return std::to_string(bytes(command, 0));
    if (name == "assign")
      return flag(sp::CommandFlags::accumulate) ? "+=" : "=";
    if (name == "transpose_a")
      return flag(sp::CommandFlags::transpose_a) ? "^T" : "";
    if (name == "transpose_b")
      return flag(sp::CommandFlags::transpose_b) ? "^T" : "";
    if (name == "exclusive")
      return flag(sp::CommandFlags::exclusive) ? " exclusive" : "";
    if (name == "bias")
      return command.operands()->Get(3) == sp::kNoView ? "" : " + " + operand(3);
    if (name == "reduce")
      return sp::EnumNameReduceOp(command.reduce_op());
    if (name == "dims")
      return fmt::format("{:#x}", command.value());
    if (name == "protocol") {
      const char *names[] = {"", " protocol block", " protocol ll"};
      return names[command.op()];
    }
    auto kind = static_cast<CollectiveKind>(command.op());
    if (name == "root")
      return program::isRooted(kind) ? " root " + peer(command) : "";
    if (name == "collective")
      return std::string(toString(kind)) +
             (program::isReduction(kind)
                  ? fmt::format(" {}", sp::EnumNameReduceOp(command.reduce_op()))
                  : "");
    return name == "list" ? operandList(command) : places(command);
  }

  /// The operands of a kernel.
  std::string operandList(const sp::Command &command) const {
    std::string all;
    for (uint32_t k = 0; k < command.operands()->Get(1); ++k)
      all += (k ? ", " : "") + view(table.launch_operands()->Get(command.operands()->Get(0) + k));
    return all;
  }

  /// " at [8, 0] of [32, 16]": offsets and extents of the parallel dimensions.
  std::string places(const sp::Command &command) const {
    const sp::Kernel &kernel = *table.kernels()->Get(command.aux());
    uint32_t count = 0;
    for (int8_t dim : *kernel.dims())
      if (dim >= 0)
        count = std::max(count, static_cast<uint8_t>(dim) + 1u);
    std::string offsets, extents;
    for (uint32_t n = 0; n < count; ++n) {
      const sp::CallPlace &place =
          *table.call_places()->Get(static_cast<uint32_t>(command.value()) + n);
      offsets += fmt::format("{}{}", n ? ", " : "", place.offset());
      extents += fmt::format("{}{}", n ? ", " : "", place.extent());
    }
    return fmt::format(" at [{}] of [{}]", offsets, extents);
  }

  uint64_t bytes(const sp::Command &command, unsigned k) const {
    return program.layouts[table.views()->Get(command.operands()->Get(k))->layout()].numBytes();
  }

  const program::ProgramImpl &program;
  const sp::RankProgram &table;
  std::string result;
  Out out;
};

/// The number that an instruction's bits are.
std::string constantText(const sp::ExprInstr &instr) {
  uint64_t bits = instr.bits();
  auto as = [&](auto value) {
    std::memcpy(&value, &bits, sizeof value);
    return fmt::format("{}", value);
  };
  switch (instr.type()) {
  case sp::RegisterType::f32:
    return as(float());
  case sp::RegisterType::f64:
    return as(double());
  case sp::RegisterType::i32:
    return as(int32_t());
  case sp::RegisterType::i64:
    return as(int64_t());
  }
  return "";
}

/// One line per instruction, with the fields that it has.
void expression(Out out, const sp::Kernel &kernel) {
  uint64_t size = sizeOfVector(kernel.code());
  auto copy = program::allocateAligned(size);
  if (!copy)
    return;
  std::memcpy(copy.get(), kernel.code()->data(), size);
  const auto *code = flatbuffers::GetRoot<sp::Expression>(copy.get())->code();
  for (uint32_t i = 0; i < code->size(); ++i) {
    const sp::ExprInstr &instr = *code->Get(i);
    std::string_view name = sp::EnumNameExprOp(instr.op());
    std::string_view type = sp::EnumNameRegisterType(instr.type());
    if (instr.op() == sp::ExprOp::store) {
      appendTo(out, "  output {} = store {} %{}\n", instr.b(), type, instr.a());
      continue;
    }
    appendTo(out, "  %{} = {} {}", i, name, type);
    if (instr.op() == sp::ExprOp::constant)
      appendTo(out, " {}", constantText(instr));
    if (instr.op() == sp::ExprOp::load)
      appendTo(out, " input {}", instr.a());
    const uint32_t fields[] = {instr.a(), instr.b(), instr.c()};
    for (unsigned k = 0; k < registersRead(instr.op()); ++k)
      appendTo(out, " %{}", fields[k]);
    *out++ = '\n';
  }
}

} // namespace

std::string dumpProgram(const Program &program) {
  // Programs come from ProgramFile only, which makes one kind.
  return Dumper(static_cast<const program::ProgramImpl &>(program)).run();
}

std::string dumpIndex(const ProgramFile &file) {
  const sp::Index &index = file.index();
  std::string result = fmt::format(
      "stream program @{} version {} ranks {} target \"{}\" capabilities {}{}{}\n"
      "  producer \"{}\"\n",
      file.name(), sp::kVersion, index.num_ranks(), text(index.target()),
      program::capabilitiesToString(index.capabilities()),
      index.reduced_wire() ? " reduced-wire" : "",
      index.deterministic() == sp::Determinism::none
          ? ""
          : fmt::format(" deterministic {}", sp::EnumNameDeterminism(index.deterministic())),
      text(index.producer()));
  if (index.id())
    result += fmt::format("  id {:016x}\n", index.id());
  for (uint32_t i = 0, e = sizeOfVector(index.arguments()); i < e; ++i) {
    const sp::Argument &argument = *index.arguments()->Get(i);
    result += fmt::format("  argument arg{} {} \"{}\" {}{}", i,
                          sp::EnumNameArgumentRole(argument.role()), text(argument.name()),
                          sp::EnumNameDType(argument.dtype()), list(argument.shape()));
    if (!text(argument.axes()).empty())
      result += fmt::format(" axes {}", text(argument.axes()));
    if (!text(argument.mesh()).empty())
      result += fmt::format(" mesh {}", text(argument.mesh()));
    if (argument.partial())
      result += fmt::format(" partial {} of {}", sp::EnumNameReduceOp(argument.partial_op()),
                            argument.partial_axes_size());
    if (sizeOfVector(argument.varying()) > 0)
      result +=
          fmt::format(" varying {}{}", list(argument.varying()), argument.mask() ? " mask" : "");
    result += '\n';
  }
  if (file.hasReference())
    result += fmt::format("  reference bytes {}\n", index.reference()->size());
  if (const Certificate *certificate = file.certificate())
    result += toText(*certificate);
  return result;
}

std::string dumpKernels(const Program &program) {
  std::string result;
  Out out(result);
  const auto *kernels = program.data().kernels();
  for (uint32_t i = 0; i < sizeOfVector(kernels); ++i) {
    const sp::Kernel &kernel = *kernels->Get(i);
    appendTo(out, "kernel k{} \"{}\"\n", i, kernel.name()->string_view());
    if (kernel.format() == sp::KernelFormat::expression)
      expression(out, kernel);
    for (uint32_t k = 0; k < sizeOfVector(kernel.native()); ++k) {
      const sp::NativeCode &native = *kernel.native()->Get(k);
      appendTo(out, "kernel k{} {} target \"{}\"\n", i, sp::EnumNameKernelFormat(native.format()),
               native.target() ? native.target()->string_view() : std::string_view());
      if (native.format() == sp::KernelFormat::ptx)
        result.append(reinterpret_cast<const char *>(native.code()->data()), native.code()->size());
      *out++ = '\n';
    }
  }
  return result;
}

} // namespace tandem
