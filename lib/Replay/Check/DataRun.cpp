//===- DataRun.cpp - one run, over a field ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Data.h"

#include "tandem/Program/stream_program_generated.h"

#include <algorithm>

namespace tandem::check {

using namespace replay;

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

Value inputTerm(DataMode mode, const Argument &info, uint32_t argument, uint64_t element,
                uint32_t term) {
  Value value = field::hash(0x696e707574, argument, element);
  if (mode.oracle || !info.partial || info.terms <= 1)
    return value;
  auto random = [&](uint32_t t) { return field::hash(argument, element, t, 0x7465726d); };
  if (info.partialOp == ReduceOp::Sum) {
    if (term > 0)
      return random(term);
    for (uint32_t t = 1; t < info.terms; ++t)
      value = field::sub(value, random(t));
    return value;
  }
  // One term is the logical value, the others are on the side that does not count.
  if (element % info.terms == term)
    return value;
  mode.rounded = false;
  for (uint32_t attempt = 0; attempt < 64; ++attempt) {
    Value other = random(term + (attempt << 16));
    if (combine(mode, info.dtype, info.partialOp, value, other) == value)
      return other;
  }
  return info.partialOp == ReduceOp::Max ? field::neg(field::kInfinity) : field::kInfinity;
}

void DataRun::fillInput(uint32_t rank, uint32_t argument) {
  const Shard &shard = world.ranks[rank].shards[argument];
  Layout element;
  element.dtype = world.arguments[argument].dtype;
  DataMemory &memory = ranks[rank].arguments[argument];
  forEachElement(shard, [&](uint64_t local, uint64_t at) {
    Value value = inputTerm(mode, world.arguments[argument], argument, at, shard.term);
    memory.write(local * sizeOf(element.dtype), element, &value);
  });
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

DataRun::DataRun(const World &world, DataMode mode)
    : InstantDriver(world), mode(mode), ranks(world.numRanks()) {
  bool symmetricIsNarrow = false;
  std::vector<bool> isNarrow(world.layouts.size());
  for (size_t l = 0; l < isNarrow.size(); ++l)
    isNarrow[l] = sizeOf(world.layouts[l].dtype) == 2;
  for (const Rank &rank : world.ranks)
    for (const View &view : rank.views)
      symmetricIsNarrow |= view.space == Space::Symmetric && isNarrow[view.layout];
  for (uint32_t r = 0; r < world.numRanks(); ++r) {
    const Rank &rank = world.ranks[r];
    std::vector<bool> narrow(world.arguments.size());
    bool arenaIsNarrow = false;
    for (uint32_t a = 0; a < narrow.size(); ++a)
      narrow[a] = sizeOf(world.arguments[a].dtype) == 2;
    for (const View &view : rank.views)
      if (isNarrow[view.layout])
        (view.space == Space::Arena ? arenaIsNarrow : symmetricIsNarrow) |=
            view.space != Space::Argument;
    for (const View &view : rank.views)
      if (isNarrow[view.layout] && view.space == Space::Argument)
        narrow[view.argument] = true;
    uint64_t salt = field::mix(mode.oracle ? ~uint64_t(0) : r);
    ranks[r].arena = DataMemory(rank.arenaBytes, arenaIsNarrow, field::mix(salt + 1));
    ranks[r].symmetric = DataMemory(rank.symmetricBytes, symmetricIsNarrow, field::mix(salt + 2));
    for (uint32_t a = 0; a < world.arguments.size(); ++a) {
      ranks[r].arguments.emplace_back(rank.argumentBytes[a], narrow[a], field::mix(salt + 3 + a));
      if (!world.arguments[a].isResult && rank.argumentPresent[a])
        fillInput(r, a);
    }
  }
}

const DataMemory &DataRun::memory(uint32_t rank, Space space, uint32_t argument) const {
  const RankMemory &memory = ranks[rank];
  return space == Space::Argument ? memory.arguments[argument]
         : space == Space::Arena  ? memory.arena
                                  : memory.symmetric;
}

DataMemory &DataRun::memory(uint32_t rank, const View &view) {
  return const_cast<DataMemory &>(std::as_const(*this).memory(rank, view.space, view.argument));
}

DType DataRun::typeOf(uint32_t rank, const Command &command) const {
  for (uint32_t k = 0; k < command.numOperands; ++k)
    if (const View *view = world.operand(world.ranks[rank], command, k))
      return world.layoutOf(*view).dtype;
  return DType::F32;
}

void DataRun::read(uint32_t rank, const Command &command, uint32_t k, Values &out) {
  out.clear();
  if (const View *view = world.operand(world.ranks[rank], command, k))
    memory(rank, *view).read(view->address, world.layoutOf(*view), out);
}

void DataRun::write(uint32_t rank, const Command &command, uint32_t k, const Values &values) {
  if (const View *view = world.operand(world.ranks[rank], command, k))
    memory(rank, *view).write(view->address, world.layoutOf(*view), values.data());
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

void DataRun::run() {
  Walker walker(world, {}, *this);
  InstantDriver::run(walker);
}

void DataRun::begin(CommandId id) {
  execute(world.rankOf(id), id);
  InstantDriver::begin(id);
}

void DataRun::execute(uint32_t rank, CommandId id) {
  const Command &command = world.commands[id];
  switch (command.kind) {
  case Kind::Copy:
    read(rank, command, 1, result);
    write(rank, command, 0, result);
    break;
  case Kind::Accumulate:
    read(rank, command, 0, result);
    read(rank, command, 1, left);
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = combine(mode, typeOf(rank, command), static_cast<ReduceOp>(command.reduceOp),
                          result[i], left[i]);
    write(rank, command, 0, result);
    break;
  case Kind::Put: {
    read(rank, command, 1, result);
    const View &target = *world.operand(world.ranks[rank], command, 0);
    memory(command.peer, target).write(target.address, world.layoutOf(target), result.data());
    break;
  }
  case Kind::Matmul:
    matmul(rank, command);
    break;
  case Kind::Reduce:
    reduceDims(rank, command);
    break;
  case Kind::Launch:
    launch(rank, command);
    break;
  default:
    return;
  }
  order.push_back(id);
}

std::vector<int64_t> batchStrides(const Layout &factor, const Layout &out) {
  std::vector<int64_t> strides(out.rank - 2u, 0);
  int64_t stride = factor.shape[factor.rank - 1] * factor.shape[factor.rank - 2];
  for (int d = factor.rank - 3, o = out.rank - 3; d >= 0 && o >= 0; --d, --o) {
    strides[static_cast<size_t>(o)] = factor.shape[d] == 1 ? 0 : stride;
    stride *= factor.shape[d];
  }
  return strides;
}

/// All matrices of a row-major tensor, each transposed.
static void transpose(Values &tensor, int64_t rows, int64_t columns) {
  Values from(tensor.size());
  from.swap(tensor);
  int64_t size = rows * columns;
  for (size_t base = 0; base < from.size(); base += static_cast<size_t>(size))
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        tensor[base + static_cast<size_t>(j * rows + i)] =
            from[base + static_cast<size_t>(i * columns + j)];
}

void DataRun::matmul(uint32_t rank, const Command &command) {
  auto layout = [&](uint32_t k) -> const Layout & {
    return world.layoutOf(*world.operand(world.ranks[rank], command, k));
  };
  auto has = [&](sp::CommandFlags flag) { return (command.flags & static_cast<int>(flag)) != 0; };
  const Layout &out = layout(0), &a = layout(1), &b = layout(2);
  read(rank, command, 1, left);
  read(rank, command, 2, right);
  if (has(sp::CommandFlags::transpose_a))
    transpose(left, a.shape[a.rank - 2], a.shape[a.rank - 1]);
  if (!has(sp::CommandFlags::transpose_b))
    transpose(right, b.shape[b.rank - 2], b.shape[b.rank - 1]);
  int64_t m = out.shape[out.rank - 2], n = out.shape[out.rank - 1];
  int64_t k = a.shape[has(sp::CommandFlags::transpose_a) ? a.rank - 2 : a.rank - 1];
  result.assign(static_cast<size_t>(out.numElements()), 0);
  std::vector<int64_t> stridesA = batchStrides(a, out), stridesB = batchStrides(b, out);
  for (int64_t first = 0, end = out.numElements(), batch = 0; first < end; first += m * n) {
    int64_t atA = 0, atB = 0, rest = batch++;
    for (size_t d = stridesA.size(); d-- > 0; rest /= out.shape[d]) {
      atA += rest % out.shape[d] * stridesA[d];
      atB += rest % out.shape[d] * stridesB[d];
    }
    multiply(mode, left.data() + atA, right.data() + atB, result.data() + first, m, n, k);
  }
  read(rank, command, 3, left);
  if (!left.empty())
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = sum(mode, result[i], left[i % left.size()]);
  if (has(sp::CommandFlags::accumulate)) {
    read(rank, command, 0, left);
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = sum(mode, result[i], left[i]);
  }
  write(rank, command, 0, result);
}

void DataRun::reduceDims(uint32_t rank, const Command &command) {
  const Layout &in = world.layoutOf(*world.operand(world.ranks[rank], command, 1));
  auto op = static_cast<ReduceOp>(command.reduceOp);
  // Where an element of the source goes: strides of the result, 0 in what is reduced.
  Layout target = in;
  int64_t stride = 1;
  for (unsigned d = in.rank; d-- > 0;) {
    bool reduced = command.value >> d & 1;
    target.strides[d] = reduced ? 0 : stride;
    stride *= reduced ? 1 : in.shape[d];
  }
  read(rank, command, 1, left);
  Value identity = op == ReduceOp::Sum   ? 0
                   : op == ReduceOp::Max ? field::neg(field::kInfinity)
                                         : field::kInfinity;
  result.assign(static_cast<size_t>(stride), identity);
  size_t next = 0;
  forEachRun(target, [&](int64_t first, int64_t count, int64_t step) {
    for (int64_t i = 0; i < count; ++i) {
      Value &sum = result[static_cast<size_t>(first + i * step)];
      sum = combine(mode, in.dtype, op, sum, left[next++]);
    }
  });
  write(rank, command, 0, result);
}

void DataRun::launch(uint32_t rank, const Command &command) {
  const Kernel &kernel = world.kernels[world.ranks[rank].kernels[command.aux]];
  std::vector<Values> inputs(command.numOperands - kernel.outputs), outputs(kernel.outputs);
  for (uint32_t k = kernel.outputs; k < command.numOperands; ++k)
    read(rank, command, k, inputs[k - kernel.outputs]);
  const View *first = world.operand(world.ranks[rank], command, 0);
  auto count = static_cast<size_t>(world.layoutOf(*first).numElements());
  evaluateKernel(mode, kernel, count, inputs, outputs);
  for (uint32_t k = 0; k < kernel.outputs; ++k)
    write(rank, command, k, outputs[k]);
}

//===----------------------------------------------------------------------===//
// Communication
//===----------------------------------------------------------------------===//

void DataRun::beginTransfer(CommandId send, CommandId recv) {
  read(world.rankOf(send), world.commands[send], 0, result);
  write(world.rankOf(recv), world.commands[recv], 0, result);
  order.push_back(recv);
  InstantDriver::beginTransfer(send, recv);
}

namespace {

/// What member `i` of a group of so many is given, from what each has brought.
class Exchange {
public:
  Exchange(DataMode mode, DType dtype, const Command &command, std::vector<Values> brought,
           uint32_t root)
      : mode(mode), dtype(dtype), command(command), in(std::move(brought)), size(in.size()),
        root(root) {
    if (static_cast<CollectiveKind>(command.op) == CollectiveKind::AllReduce)
      all = sum(0, 1);
  }

  /// Empty: nothing.
  Values give(size_t i) const {
    switch (static_cast<CollectiveKind>(command.op)) {
    case CollectiveKind::AllGather:
      return gather();
    case CollectiveKind::Gather:
      return i == root ? gather() : Values();
    case CollectiveKind::AllReduce:
      return all;
    case CollectiveKind::Reduce:
      return i == root ? sum(0, 1) : Values();
    case CollectiveKind::ReduceScatter:
      return sum(i, size);
    case CollectiveKind::Broadcast:
      return in[root];
    case CollectiveKind::Scatter:
      return part(in[root], i, size);
    case CollectiveKind::AllToAll: {
      Values out;
      for (const Values &values : in) {
        Values piece = part(values, i, size);
        out.insert(out.end(), piece.begin(), piece.end());
      }
      return out;
    }
    }
    return {};
  }

private:
  static Values part(const Values &values, size_t i, size_t of) {
    auto piece = static_cast<ptrdiff_t>(values.size() / of);
    auto begin = values.begin() + static_cast<ptrdiff_t>(i) * piece;
    return Values(begin, begin + piece);
  }
  Values gather() const {
    Values out;
    for (const Values &values : in)
      out.insert(out.end(), values.begin(), values.end());
    return out;
  }
  Values sum(size_t i, size_t of) const {
    Values out = part(in[0], i, of);
    for (size_t j = 1; j < size; ++j) {
      Values term = part(in[j], i, of);
      for (size_t e = 0; e < out.size(); ++e)
        out[e] = combine(mode, dtype, static_cast<ReduceOp>(command.reduceOp), out[e], term[e]);
    }
    return out;
  }

  const DataMode mode;
  const DType dtype;
  const Command &command;
  const std::vector<Values> in;
  const size_t size, root;
  Values all; ///< what all are given
};

} // namespace

void DataRun::beginCollective(uint32_t index) {
  const Collective &collective = world.collectives[index];
  uint32_t size = world.groupSize(collective);
  const CommandId *members = world.members.data() + collective.members;
  const std::vector<uint32_t> &group = world.groups[collective.group];
  const Command &any = world.commands[members[0]];
  uint32_t root = 0;
  for (uint32_t m = 0; m < size; ++m)
    if (group[m] == any.peer)
      root = m;
  std::vector<Values> brought(size);
  for (uint32_t m = 0; m < size; ++m)
    read(group[m], world.commands[members[m]], 1, brought[m]);
  Exchange exchange(mode, typeOf(group[0], any), any, std::move(brought), root);
  for (uint32_t m = 0; m < size; ++m) {
    Values values = exchange.give(m);
    if (!values.empty())
      write(group[m], world.commands[members[m]], 0, values);
    order.push_back(members[m]);
  }
  InstantDriver::beginCollective(index);
}

} // namespace tandem::check
