//===- VerifyTables.cpp - checks of everything but the commands ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramImpl.h"
#include "tandem/Program/Printable.h"

#include <cmath>
#include <unordered_set>

namespace tandem::program {

namespace {

constexpr uint32_t kAllCapabilities = 7;
constexpr uint32_t kMaxChannels = 4096;
constexpr uint32_t kMaxShardRank = 64;
/// Signals count in 64 bits over all runs: limits the increase per run.
constexpr uint64_t kMaxSignalValue = uint64_t(1) << 32;

bool validDType(sp::DType type) { return static_cast<uint8_t>(type) < kNumDTypes; }
bool validReduceOp(sp::ReduceOp op) { return static_cast<uint8_t>(op) <= 2; }

/// Number of elements; fails on a negative extent or if the bytes do not fit in 62 bits.
Status countBytes(const flatbuffers::Vector<int64_t> *shape, DType dtype, uint64_t &elements) {
  if (!isAligned(shape))
    return invalid("not a valid FlatBuffer: the elements are not aligned");
  uint64_t product = 1, nonZero = 1;
  for (uint32_t d = 0, e = sizeOfVector(shape); d < e; ++d) {
    int64_t extent = shape->Get(d);
    if (extent < 0)
      return invalid("extent {} of dimension {} is negative", extent, d);
    product *= static_cast<uint64_t>(extent);
    if (extent != 0 && __builtin_mul_overflow(nonZero, static_cast<uint64_t>(extent), &nonZero))
      return invalid("the number of elements overflows");
  }
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(nonZero, uint64_t(sizeOf(dtype)), &bytes) || bytes >> 62)
    return invalid("the number of bytes overflows");
  elements = product;
  return Status();
}

/// The largest offset in elements that shape and strides reach; `shape` passed countBytes.
Status reach(const flatbuffers::Vector<int64_t> *shape, const flatbuffers::Vector<int64_t> *strides,
             uint64_t &last) {
  last = 0;
  if (!isAligned(strides))
    return invalid("not a valid FlatBuffer: the elements are not aligned");
  for (uint32_t d = 0, e = sizeOfVector(shape); d < e; ++d) {
    int64_t stride = strides->Get(d);
    if (stride < 0)
      return invalid("stride {} of dimension {} is negative", stride, d);
    uint64_t extent = static_cast<uint64_t>(shape->Get(d)), step = 0;
    if (extent > 1 && (__builtin_mul_overflow(extent - 1, static_cast<uint64_t>(stride), &step) ||
                       __builtin_add_overflow(last, step, &last) || last >> 60))
      return invalid("the offset of the last element overflows");
  }
  return Status();
}

/// Names are printed, and could forge lines.
static Status verifyName(const char *what, const flatbuffers::String *name) {
  if (!name || escapeName(name->string_view()) == name->string_view())
    return Status();
  return invalid("{}: expected no control characters, found \"{}\"", what,
                 escapeName(name->string_view()));
}

class TableVerifier {
public:
  TableVerifier(ProgramImpl &program, const ProgramLimits &limits)
      : program(program), index(*program.indexTable), table(*program.table), limits(limits) {}

  Status run() {
    TANDEM_RETURN_IF_ERROR(alignment());
    TANDEM_RETURN_IF_ERROR(counts());
    for (uint32_t i = 0; i < sizeOfVector(table.names()); ++i) {
      TANDEM_RETURN_IF_ERROR(verifyName("names: text", table.names()->Get(i)->text()));
      TANDEM_RETURN_IF_ERROR(verifyName("names: location", table.names()->Get(i)->location()));
    }
    TANDEM_RETURN_IF_ERROR(shards());
    TANDEM_RETURN_IF_ERROR(each(table.buffers(), "buffers", &TableVerifier::buffer));
    TANDEM_RETURN_IF_ERROR(each(table.layouts(), "layouts", &TableVerifier::layout));
    TANDEM_RETURN_IF_ERROR(each(table.views(), "views", &TableVerifier::view));
    TANDEM_RETURN_IF_ERROR(launchOperands());
    TANDEM_RETURN_IF_ERROR(each(table.channels(), "channels", &TableVerifier::channel));
    return kernels();
  }

private:
  /// Verifies each element of a table; an error names it.
  template <typename Table, typename Element>
  Status each(const Table *all, const char *name,
              Status (TableVerifier::*verify)(const Element &)) {
    for (uint32_t i = 0, e = sizeOfVector(all); i < e; ++i)
      if (Status status = (this->*verify)(*all->Get(i)); !status.ok())
        return status.withPrefix(fmt::format("{}[{}]: ", name, i));
    return Status();
  }

  Status alignment() {
    auto check = [](bool aligned, const char *field) {
      return aligned
                 ? Status()
                 : invalid("field {}: not a valid FlatBuffer: the elements are not aligned", field);
    };
    TANDEM_RETURN_IF_ERROR(check(isAligned(table.signal_slots()), "signal_slots"));
    TANDEM_RETURN_IF_ERROR(check(isAligned(table.buffers()), "buffers"));
    TANDEM_RETURN_IF_ERROR(check(isAligned(table.views()), "views"));
    return check(isAligned(table.commands()), "commands");
  }

  Status counts() {
    // Without commands a program has an empty list.
    if (!table.commands())
      return invalid("field commands: missing");
    if (table.rank() != program.thisRank)
      return invalid("field rank: expected {}, found {}", program.thisRank, table.rank());
    if (table.num_streams() < 1 || table.num_streams() > limits.maxStreams)
      return invalid("field num_streams: expected 1 to {}, found {}", limits.maxStreams,
                     table.num_streams());
    if (table.num_events() > limits.maxEvents)
      return invalid("field num_events: expected at most {}, found {}", limits.maxEvents,
                     table.num_events());
    if (sizeOfVector(table.channels()) > kMaxChannels)
      return invalid("field channels: expected at most {}, found {}", kMaxChannels,
                     sizeOfVector(table.channels()));
    uint32_t slots = sizeOfVector(table.signal_slots());
    if (slots > limits.maxSignals)
      return invalid("field signal_slots: expected at most {} slots, found {}", limits.maxSignals,
                     slots);
    for (uint32_t s = 0; s < slots; ++s)
      if (table.signal_slots()->Get(s) > kMaxSignalValue)
        return invalid("signal_slots[{}]: expected at most {}, found {}", s, kMaxSignalValue,
                       table.signal_slots()->Get(s));
    if (table.symmetric_bytes() % sp::kAlignment != 0)
      return invalid("field symmetric_bytes: {} is not a multiple of {}", table.symmetric_bytes(),
                     sp::kAlignment);
    uint64_t left = limits.maxArenaBytes;
    if (table.arena_bytes() > left)
      return invalid("field arena_bytes: {} is over the limit of {} bytes", table.arena_bytes(),
                     left);
    left -= table.arena_bytes();
    if (table.symmetric_bytes() > left / 2)
      return invalid(
          "field symmetric_bytes: arena and two buffers of {} bytes are over the limit of "
          "{} bytes",
          table.symmetric_bytes(), limits.maxArenaBytes);
    return Status();
  }

  Status shards() {
    uint32_t count = sizeOfVector(index.arguments());
    if (sizeOfVector(table.shards()) != count)
      return invalid("field shards: expected one per argument ({}), found {}", count,
                     sizeOfVector(table.shards()));
    for (uint32_t i = 0; i < count; ++i) {
      Status status = shard(*index.arguments()->Get(i), *table.shards()->Get(i));
      if (!status.ok())
        return status.withPrefix(fmt::format("shards[{}] (argument \"{}\"): ", i,
                                             index.arguments()->Get(i)->name()->string_view()));
    }
    return Status();
  }

  Status shard(const sp::Argument &argument, const sp::Shard &shard) {
    ArgumentInfo info;
    info.name = argument.name()->str();
    info.isResult = argument.role() == sp::ArgumentRole::result;
    info.dtype = static_cast<DType>(argument.dtype());
    if (argument.shape())
      info.shape.assign(argument.shape()->begin(), argument.shape()->end());
    info.present = shard.present();
    info.axes = argument.axes() ? argument.axes()->str() : "";
    info.mesh = argument.mesh() ? argument.mesh()->str() : "";
    info.partial = argument.partial();
    info.partialOp = static_cast<ReduceOp>(argument.partial_op());
    if (info.partial)
      info.terms = std::max(argument.partial_axes_size(), 1u);
    info.term = shard.term();
    if (info.term >= info.terms)
      return invalid("term: expected less than {}, found {}", info.terms, info.term);
    if (sizeOfVector(shard.shape()) > kMaxShardRank ||
        sizeOfVector(shard.shape()) != sizeOfVector(shard.strides()))
      return invalid("shape and strides: expected equal ranks of at most {}, found {} and {}",
                     kMaxShardRank, sizeOfVector(shard.shape()), sizeOfVector(shard.strides()));
    if (argument.varying())
      info.varying.assign(argument.varying()->begin(), argument.varying()->end());
    if (shard.present()) {
      uint64_t logical = 0, local = 0, walked = 0;
      TANDEM_RETURN_IF_ERROR(countBytes(argument.shape(), info.dtype, logical));
      if (sizeOfVector(shard.local_shape()) > kMaxRank)
        return invalid("local_shape: expected at most {} dimensions, found {}", kMaxRank,
                       shard.local_shape()->size());
      TANDEM_RETURN_IF_ERROR(
          countBytes(shard.local_shape(), info.dtype, local).withPrefix("local_shape: "));
      TANDEM_RETURN_IF_ERROR(countBytes(shard.shape(), info.dtype, walked).withPrefix("shape: "));
      uint64_t last = 0;
      TANDEM_RETURN_IF_ERROR(reach(shard.shape(), shard.strides(), last).withPrefix("strides: "));
      if (shard.local_shape())
        info.localShape.assign(shard.local_shape()->begin(), shard.local_shape()->end());
      Shard piece = shardOf(shard, info.localShape);
      std::vector<std::pair<size_t, size_t>> dims;
      if (!piece.local.empty() && !piece.loops(dims))
        return invalid("shape has {} elements, local_shape {}", walked, local);
      if (!piece.liesIn(info.shape))
        return invalid("offset {} and strides reach outside the {} elements of the logical tensor",
                       shard.offset(), logical);
      if (!info.varying.empty())
        TANDEM_RETURN_IF_ERROR(findBlock(shard, info));
    }
    info.isMask = argument.mask();
    program.args.push_back(std::move(info));
    return Status();
  }

  /// Finds where the block of an argument with varying dimensions begins.
  static Status findBlock(const sp::Shard &shard, ArgumentInfo &info) {
    if (info.localShape.size() != info.shape.size() ||
        sizeOfVector(shard.shape()) != info.localShape.size())
      return invalid("shape: expected one loop per dimension, since an extent varies, found {}",
                     sizeOfVector(shard.shape()));
    info.begin.assign(info.shape.size(), 0);
    int64_t rest = shard.offset(), stride = 1;
    for (size_t dim = info.shape.size(); dim-- > 0;) {
      auto d = static_cast<uint32_t>(dim);
      int64_t extent = std::max<int64_t>(info.shape[dim], 1), local = info.localShape[dim];
      info.begin[dim] = rest % extent;
      rest /= extent;
      if (shard.shape()->Get(d) != local || (local > 1 && shard.strides()->Get(d) != stride))
        return invalid("shape and strides: expected a block, since an extent varies");
      if (info.begin[dim] + local > info.shape[dim])
        return invalid("local_shape: expected indices below {} in dimension {}, found {}",
                       info.shape[dim], dim, info.begin[dim] + local);
      stride *= extent;
    }
    return Status();
  }

  Status buffer(const sp::Buffer &buffer) {
    TANDEM_RETURN_IF_ERROR(nameIndex(buffer.name()));
    if (buffer.space() == sp::Space::argument) {
      if (buffer.argument() >= program.args.size())
        return invalid("argument {} of {}", buffer.argument(), program.args.size());
      const ArgumentInfo &info = program.args[buffer.argument()];
      if (!info.present)
        return invalid("argument \"{}\" is not present on this rank", info.name);
      if (buffer.offset() != 0)
        return invalid("offset: expected 0 for an argument, found {}", buffer.offset());
      if (buffer.size() != info.localBytes())
        return invalid("size: expected the {} bytes of argument \"{}\", found {}",
                       info.localBytes(), info.name, buffer.size());
      return Status();
    }
    uint64_t space = 0;
    if (buffer.space() == sp::Space::arena)
      space = table.arena_bytes();
    else if (buffer.space() == sp::Space::symmetric)
      space = table.symmetric_bytes();
    else
      return invalid("unknown space {}", static_cast<unsigned>(buffer.space()));
    if (buffer.offset() % sp::kAlignment != 0)
      return invalid("offset {} is not a multiple of {}", buffer.offset(), sp::kAlignment);
    if (buffer.offset() > space || buffer.size() > space - buffer.offset())
      return invalid("{} bytes at {} do not lie inside the {} bytes of the arena", buffer.size(),
                     buffer.offset(), space);
    return Status();
  }

  Status layout(const sp::Layout &in) {
    if (!validDType(in.dtype()))
      return invalid("unknown dtype {}", static_cast<unsigned>(in.dtype()));
    uint32_t rank = sizeOfVector(in.shape());
    if (rank != sizeOfVector(in.strides()))
      return invalid("shape has {} dimensions, strides {}", rank, sizeOfVector(in.strides()));
    if (rank > kMaxRank)
      return invalid("expected at most {} dimensions, found {}", kMaxRank, rank);
    Layout out;
    out.dtype = static_cast<DType>(in.dtype());
    uint64_t elements = 0, last = 0;
    TANDEM_RETURN_IF_ERROR(countBytes(in.shape(), out.dtype, elements));
    TANDEM_RETURN_IF_ERROR(reach(in.shape(), in.strides(), last));
    out.rank = static_cast<uint8_t>(rank);
    for (uint32_t d = 0; d < rank; ++d) {
      out.shape[d] = in.shape()->Get(d);
      out.strides[d] = in.strides()->Get(d);
    }
    program.layouts.push_back(out);
    return Status();
  }

  Status launchOperands() {
    for (uint32_t i = 0, e = sizeOfVector(table.launch_operands()); i < e; ++i)
      if (table.launch_operands()->Get(i) >= sizeOfVector(table.views()))
        return invalid("launch_operands[{}]: view {} of {}", i, table.launch_operands()->Get(i),
                       sizeOfVector(table.views()));
    return Status();
  }

  Status view(const sp::View &view) {
    if (view.buffer() >= sizeOfVector(table.buffers()))
      return invalid("buffer {} of {}", view.buffer(), sizeOfVector(table.buffers()));
    if (view.layout() >= program.layouts.size())
      return invalid("layout {} of {}", view.layout(), program.layouts.size());
    const Layout &layout = program.layouts[view.layout()];
    uint64_t size = table.buffers()->Get(view.buffer())->size();
    if (layout.numBytes() > limits.maxArenaBytes)
      return invalid("{} has {} bytes of elements, over the limit of {}", layout.str(),
                     layout.numBytes(), limits.maxArenaBytes);
    if (view.offset() % sizeOf(layout.dtype) != 0)
      return invalid("offset {} is not a multiple of the {} bytes of {}", view.offset(),
                     sizeOf(layout.dtype), toString(layout.dtype));
    if (view.offset() > size || layout.spanBytes() > size - view.offset())
      return invalid("{} at offset {} does not lie inside the {} bytes of its buffer", layout.str(),
                     view.offset(), size);
    return Status();
  }

  Status channel(const sp::Channel &channel) {
    if (channel.capabilities() & ~kAllCapabilities)
      return invalid("unknown capabilities {:#x}", channel.capabilities());
    const flatbuffers::String *given = channel.link_class();
    std::string_view link = given ? given->string_view() : std::string_view();
    if (!link.empty() && link != "node" && link != "network")
      return invalid("link_class: expected \"node\" or \"network\", found \"{}\"", link);
    uint32_t size = sizeOfVector(channel.group());
    if (size == 0)
      return Status();
    std::unordered_set<uint32_t> seen;
    for (uint32_t member : *channel.group()) {
      if (member >= program.ranks)
        return invalid("group: rank {} of {}", member, program.ranks);
      if (!seen.insert(member).second)
        return invalid("group: rank {} is listed twice", member);
    }
    if (channel.self() >= size || channel.group()->Get(channel.self()) != program.thisRank)
      return invalid("self: group[{}] is not this rank", channel.self());
    return Status();
  }

  Status kernels() {
    uint32_t count = sizeOfVector(table.kernels());
    program.expressions.assign(count, {});
    for (uint32_t i = 0; i < count; ++i) {
      const sp::Kernel &kernel = *table.kernels()->Get(i);
      if (Status status = this->kernel(kernel, program.expressions[i]); !status.ok())
        return status.withPrefix(
            fmt::format("kernels[{}] (\"{}\"): ", i, kernel.name()->string_view()));
    }
    return Status();
  }

  static Status format(sp::KernelFormat format) {
    if (format > sp::KernelFormat::external)
      return invalid("unknown format {}", static_cast<unsigned>(format));
    return Status();
  }

  static Status kernel(const sp::Kernel &kernel, ExpressionTypes &types) {
    TANDEM_RETURN_IF_ERROR(format(kernel.format()));
    uint32_t operands = sizeOfVector(kernel.operand_types());
    for (uint32_t k = 0; k < operands; ++k)
      if (sp::DType type = static_cast<sp::DType>(kernel.operand_types()->Get(k));
          !validDType(type))
        return invalid("operand_types[{}]: unknown dtype {}", k, static_cast<unsigned>(type));
    for (uint32_t k = 0; k < sizeOfVector(kernel.native()); ++k) {
      const sp::NativeCode &native = *kernel.native()->Get(k);
      Status status = format(native.format());
      if (status.ok() && native.format() == sp::KernelFormat::expression)
        status = invalid("expected native code, found an expression");
      if (status.ok() && native.format() == sp::KernelFormat::external)
        status = invalid("expected native code, found the name of an external kernel");
      if (status.ok() && sizeOfVector(native.code()) == 0)
        status = invalid("no code");
      if (status.ok() && operands == 0)
        status = invalid("the kernel has no operand_types");
      if (!status.ok())
        return status.withPrefix(fmt::format("native[{}]: ", k));
    }
    if (kernel.format() == sp::KernelFormat::external) {
      if (kernel.outputs() < 1 || kernel.outputs() > operands)
        return invalid("outputs: {} of {} operands", kernel.outputs(), operands);
      if (kernel.effects() > sp::KernelEffects::writes)
        return invalid("effects: found {}", static_cast<unsigned>(kernel.effects()));
      if (!(kernel.flops() >= 0) || std::isnan(kernel.bytes()))
        return invalid("flops, bytes: found {}, {}", kernel.flops(), kernel.bytes());
      if (!kernel.dims())
        return invalid("no dims");
      for (uint32_t d = 0; d < kernel.dims()->size(); ++d)
        if (const int8_t dim = kernel.dims()->Get(d); dim < -1)
          return invalid("dims[{}]: expected -1 or a parallel dimension, found {}", d, dim);
      return Status();
    }
    if (kernel.format() != sp::KernelFormat::expression) {
      if (kernel.outputs() == 0 || (operands != 0 && kernel.outputs() > operands))
        return invalid("outputs: {} of {} operands", kernel.outputs(), operands);
      return Status();
    }
    if (!kernel.code())
      return invalid("no code");
    TANDEM_RETURN_IF_ERROR(verifyExpression(kernel.code()->data(), kernel.code()->size(), types));
    if (kernel.outputs() != 0 && kernel.outputs() != types.outputs)
      return invalid("outputs: the expression has {}, found {}", types.outputs, kernel.outputs());
    if (operands == 0)
      return Status();
    if (operands != types.outputs + types.inputs)
      return invalid("operand_types: expected {}, found {}", types.outputs + types.inputs,
                     operands);
    for (uint32_t k = 0; k < operands; ++k)
      if (Status status = checkAccess(types, k, static_cast<DType>(kernel.operand_types()->Get(k)));
          !status.ok())
        return status.withPrefix(fmt::format("operand_types[{}]: ", k));
    return Status();
  }

  Status nameIndex(uint32_t name) {
    if (name >= sizeOfVector(table.names()))
      return invalid("name {} of {}", name, sizeOfVector(table.names()));
    return Status();
  }

  ProgramImpl &program;
  const sp::Index &index;
  const sp::RankProgram &table;
  const ProgramLimits &limits;
};

Status verifyArgument(const sp::Argument &argument) {
  if (static_cast<uint8_t>(argument.role()) > 1)
    return invalid("unknown role {}", static_cast<unsigned>(argument.role()));
  if (!validDType(argument.dtype()))
    return invalid("unknown dtype {}", static_cast<unsigned>(argument.dtype()));
  if (!validReduceOp(argument.partial_op()))
    return invalid("unknown partial_op {}", static_cast<unsigned>(argument.partial_op()));
  if (sizeOfVector(argument.shape()) > kMaxRank)
    return invalid("shape: expected at most {} dimensions, found {}", kMaxRank,
                   argument.shape()->size());
  for (uint32_t i = 0; i < sizeOfVector(argument.varying()); ++i)
    if (uint32_t dim = argument.varying()->Get(i);
        dim >= sizeOfVector(argument.shape()) || (i > 0 && dim <= argument.varying()->Get(i - 1)))
      return invalid("varying: expected ascending dimensions of {}, found {}",
                     sizeOfVector(argument.shape()), dim);
  if (argument.mask() &&
      (sizeOfVector(argument.varying()) != 1 || sizeOfVector(argument.shape()) != 1 ||
       argument.dtype() != sp::DType::i1 || argument.role() != sp::ArgumentRole::input))
    return invalid("mask: expected an input of i1 with one dimension, which varies");
  uint64_t elements = 0;
  return countBytes(argument.shape(), static_cast<DType>(argument.dtype()), elements)
      .withPrefix("shape: ");
}

Status verifyBlob(const sp::Blob &blob, uint64_t fileSize) {
  if (blob.size() == 0)
    return Status();
  if (blob.offset() % sp::kAlignment != 0)
    return invalid("offset {} is not a multiple of {}", blob.offset(), sp::kAlignment);
  if (blob.offset() < sizeof(sp::Header) || blob.offset() > fileSize ||
      blob.size() > fileSize - blob.offset())
    return invalid("{} bytes at {} do not lie inside the file of {} bytes", blob.size(),
                   blob.offset(), fileSize);
  return Status();
}

} // namespace

Status verifyIndex(const sp::Index &index, uint64_t fileSize) {
  if (!isAligned(index.ranks()))
    return invalid("index field ranks: not a valid FlatBuffer: the elements are not aligned");
  if (index.num_ranks() == 0 || sizeOfVector(index.ranks()) != index.num_ranks())
    return invalid("index field ranks: expected num_ranks ({}, at least 1) blobs, found {}",
                   index.num_ranks(), sizeOfVector(index.ranks()));
  if (index.capabilities() & ~kAllCapabilities)
    return invalid("index field capabilities: unknown bits in {:#x}", index.capabilities());
  TANDEM_RETURN_IF_ERROR(verifyName("index: name", index.name()));
  bool sawResult = false;
  int64_t bound = -1;
  for (uint32_t i = 0, e = sizeOfVector(index.arguments()); i < e; ++i) {
    const sp::Argument &argument = *index.arguments()->Get(i);
    for (const flatbuffers::String *text : {argument.name(), argument.axes(), argument.mesh()})
      TANDEM_RETURN_IF_ERROR(verifyName("index: arguments", text));
    std::string where =
        fmt::format("index: arguments[{}] (\"{}\"): ", i, argument.name()->string_view());
    TANDEM_RETURN_IF_ERROR(verifyArgument(argument).withPrefix(where));
    if (argument.partial() && argument.partial_axes_size() > index.num_ranks())
      return invalid("{}partial_axes_size: expected at most one term per rank ({}), found {}",
                     where, index.num_ranks(), argument.partial_axes_size());
    bool isResult = argument.role() == sp::ArgumentRole::result;
    if (sawResult && !isResult)
      return invalid("{}an input after a result", where);
    sawResult |= isResult;
    for (uint32_t k = 0; k < sizeOfVector(argument.varying()); ++k) {
      int64_t extent = argument.shape()->Get(argument.varying()->Get(k));
      if (bound >= 0 && extent != bound)
        return invalid("{}varying: expected extent {}, as of other arguments, found {}", where,
                       bound, extent);
      bound = extent;
    }
  }
  for (uint32_t r = 0; r < index.num_ranks(); ++r)
    TANDEM_RETURN_IF_ERROR(verifyBlob(*index.ranks()->Get(r), fileSize)
                               .withPrefix(fmt::format("index: ranks[{}]: ", r)));
  if (const sp::Blob *blob = index.reference())
    TANDEM_RETURN_IF_ERROR(verifyBlob(*blob, fileSize).withPrefix("index: reference: "));
  return Status();
}

Status verifyRankProgram(ProgramImpl &program, const ProgramLimits &limits) {
  TANDEM_RETURN_IF_ERROR(TableVerifier(program, limits).run());
  TANDEM_RETURN_IF_ERROR(verifyCommands(program));
  for (uint32_t i = 0; program.reference && i < program.args.size(); ++i)
    if (!shardOf(*program.table->shards()->Get(i), program.args[i].localShape)
             .isWhole(program.args[i].shape))
      return invalid("shards[{}] (argument \"{}\"): expected the whole tensor in the unsharded "
                     "reference",
                     i, program.args[i].name);
  return Status();
}

} // namespace tandem::program
