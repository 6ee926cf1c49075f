//===- DataRun.cpp - one run, over a field ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Data.h"

#include "tandem/Program/CollectiveRoute.h"
#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <unordered_map>

namespace tandem::check {

using namespace replay;

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

/// The value of `term` of an input; the logical value if not partial, or by `mode`.
static Value inputTerm(DataMode mode, const Argument &info, uint32_t argument, uint64_t element,
                       uint32_t term) {
  Value value = field::hash(0x696e707574, argument, element);
  if (mode.reference || !info.partial || info.terms <= 1)
    return value;
  auto random = [&](uint32_t t) { return field::hash(argument, element, t, 0x7465726d); };
  if (info.partialOp == ReduceOp::Sum) {
    if (term > 0)
      return random(term);
    for (uint32_t t = 1; t < info.terms; ++t)
      value = field::sub(value, random(t));
    return value;
  }
  // One term is the logical value; the others are neutral.
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

std::vector<uint64_t> keptIndices(uint64_t extent, uint64_t most) {
  std::vector<uint64_t> kept;
  uint64_t pieces = std::min(extent, most);
  for (uint64_t p = 0; p < pieces; ++p) {
    uint64_t begin = p * extent / pieces, end = (p + 1) * extent / pieces;
    uint64_t at = begin + field::hash(extent, p) % (end - begin);
    // Keep the first and last index, where a wrong extent shows.
    kept.push_back(p == 0 ? begin : p + 1 == pieces ? end - 1 : at);
  }
  return kept;
}

void DataRun::fillInputs(const Density &density) {
  for (uint32_t a = 0; a < world.arguments.size(); ++a) {
    const Argument &info = world.arguments[a];
    if (info.isResult)
      continue;
    std::vector<uint64_t> kept = {0};
    for (uint32_t d = 0; d < info.shape.size() && !isComplete; ++d) {
      auto extent = static_cast<uint64_t>(info.shape[d]);
      std::vector<uint64_t> next, indices = keptIndices(extent, density.of(a, d, extent));
      done += static_cast<double>(kept.size()) * static_cast<double>(indices.size());
      if (failed())
        return;
      for (uint64_t element : kept)
        for (uint64_t index : indices)
          next.push_back(element * extent + index);
      kept = std::move(next);
    }
    for (uint32_t r = 0; r < world.numRanks() && !failed(); ++r) {
      const Shard &shard = world.ranks[r].shards[a];
      if (!world.ranks[r].argumentPresent[a])
        continue;
      Elements held;
      auto add = [&](uint64_t local, uint64_t logical) {
        held.add(local, stored(mode, info.dtype, inputTerm(mode, info, a, logical, shard.term)));
      };
      if (isComplete) {
        shard.forEach(add);
      } else {
        done += static_cast<double>(kept.size());
        for (uint64_t logical : kept)
          if (std::optional<uint64_t> local = localOf(shard, info.dtype, logical))
            add(*local, logical);
        held.sort();
      }
      ranks[r].arguments[a].write(0, Layout::dense(info.dtype, {shard.numElements()}), held);
    }
  }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

DataRun::DataRun(const World &world, DataMode mode, const Density &density, double budget)
    : InstantDriver(world), mode(mode), isComplete(density.isComplete()), density(density),
      budget(budget), ranks(world.numRanks()), sight(world.commands.size(), Nothing) {
  makeMemory();
  fillInputs(density);
}

void DataRun::makeMemory() {
  for (RankMemory &rank : ranks)
    rank.arguments.resize(world.arguments.size());
  if (!isComplete)
    return;
  auto widthOf = [](DType type) { return 1u << sizeOf(type); };
  unsigned symmetric = 0;
  for (const Rank &rank : world.ranks)
    for (const View &view : rank.views)
      if (view.space == Space::Symmetric)
        symmetric |= widthOf(world.layoutOf(view).dtype);
  for (uint32_t r = 0; r < world.numRanks(); ++r) {
    const Rank &rank = world.ranks[r];
    unsigned arena = 0;
    std::vector<unsigned> arguments;
    for (const Argument &info : world.arguments)
      arguments.push_back(widthOf(info.dtype));
    for (const View &view : rank.views)
      if (view.space != Space::Symmetric)
        (view.space == Space::Arena ? arena : arguments[view.argument]) |=
            widthOf(world.layoutOf(view).dtype);
    uint64_t salt = field::mix(mode.reference ? ~uint64_t(0) : r);
    ranks[r].arena = DataMemory(rank.arenaBytes, arena, field::mix(salt + 1));
    ranks[r].symmetric = DataMemory(rank.symmetricBytes, symmetric, field::mix(salt + 2));
    for (uint32_t a = 0; a < arguments.size(); ++a)
      ranks[r].arguments[a] =
          DataMemory(rank.argumentBytes[a], arguments[a], field::mix(salt + 3 + a));
  }
}

DataMemory &DataRun::memory(uint32_t rank, const View &view) {
  RankMemory &memory = ranks[rank];
  return view.space == Space::Argument ? memory.arguments[view.argument]
         : view.space == Space::Arena  ? memory.arena
                                       : memory.symmetric;
}

Value DataRun::unknown(uint64_t a, uint64_t b) {
  ++numUnknown;
  return field::hash(0x756e6b6e6f776e, a, b);
}

/// Whether no two elements of a view overlap, repeated ones aside; a test by nested strides.
static bool isNested(const Layout &layout) {
  for (unsigned d = 0; d < layout.rank; ++d) {
    int64_t inner = 0;
    for (unsigned e = 0; e < layout.rank; ++e)
      if (layout.strides[e] < layout.strides[d])
        inner += (layout.shape[e] - 1) * layout.strides[e];
    if (layout.shape[d] > 1 && layout.strides[d] != 0 && inner >= layout.strides[d])
      return false;
  }
  return true;
}

bool repeats(const Layout &layout) {
  for (unsigned d = 0; d < layout.rank; ++d)
    if (layout.strides[d] == 0 && layout.shape[d] > 1)
      return true;
  return false;
}

Elements DataRun::read(uint32_t rank, const Command &command, uint32_t k) {
  const View *view = world.operand(world.ranks[rank], command, k);
  if (!view)
    return {};
  isFailed |= !isComplete && !isNested(world.layoutOf(*view));
  Elements elements = memory(rank, *view).read(view->address, world.layoutOf(*view));
  done += static_cast<double>(elements.size());
  readNothing |= elements.size() == 0;
  return elements;
}

Elements DataRun::readAll(uint32_t rank, const Command &command, uint32_t k) {
  Elements elements = read(rank, command, k);
  const View *view = world.operand(world.ranks[rank], command, k);
  if (!view || !repeats(world.layoutOf(*view)))
    return elements;
  const Layout &from = world.layoutOf(*view);
  uint64_t inner = 1;
  for (unsigned d = from.rank; d-- > 0;) {
    auto extent = static_cast<uint64_t>(from.shape[d]);
    if (from.strides[d] == 0 && extent > 1) {
      done += static_cast<double>(elements.size()) * static_cast<double>(extent);
      if (failed())
        return {};
      Elements all;
      for (size_t i = 0; i < elements.size(); ++i)
        for (uint64_t e = 0; e < extent; ++e)
          all.add(elements.index[i] + e * inner, elements.value[i]);
      elements = std::move(all);
    }
    inner *= extent;
  }
  elements.sort();
  return elements;
}

Elements DataRun::readMoved(uint32_t rank, const Command &command, uint32_t k) {
  const View *view = world.operand(world.ranks[rank], command, k);
  isFailed |= !isComplete && view && repeats(world.layoutOf(*view));
  return readAll(rank, command, k);
}

void DataRun::writeView(uint32_t rank, const View &view, const Elements &from) {
  done += static_cast<double>(from.size());
  sight[current] = readNothing || from.size() == 0 ? Blind : Touched;
  const Layout &layout = world.layoutOf(view);
  if (!mode.rounded || !isNarrowFloat(layout.dtype))
    return memory(rank, view).write(view.address, layout, from);
  Elements kept = from;
  for (Value &value : kept.value)
    value = stored(mode, layout.dtype, value);
  memory(rank, view).write(view.address, layout, kept);
}

void DataRun::write(uint32_t rank, const Command &command, uint32_t k, const Elements &from) {
  if (const View *view = world.operand(world.ranks[rank], command, k))
    writeView(rank, *view, from);
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

void DataRun::run() {
  Walker walker(world, {}, *this);
  InstantDriver::run(walker);
}

void DataRun::start(CommandId command) {
  current = command;
  readNothing = false;
}

void DataRun::begin(CommandId id) {
  start(id);
  if (!failed())
    execute(world.rankOf(id), world.commands[id]);
  InstantDriver::begin(id);
}

void DataRun::execute(uint32_t rank, const Command &command) {
  switch (command.kind) {
  case Kind::Copy:
    write(rank, command, 0, readMoved(rank, command, 1));
    break;
  case Kind::Accumulate: {
    Elements sum = read(rank, command, 0);
    accumulate(sum, readMoved(rank, command, 1), layout(rank, command, 1).dtype,
               static_cast<ReduceOp>(command.reduceOp));
    write(rank, command, 0, sum);
    break;
  }
  case Kind::Put:
    writeView(command.peer, *world.operand(world.ranks[rank], command, 0),
              readMoved(rank, command, 1));
    break;
  case Kind::Matmul:
    matmul(rank, command);
    break;
  case Kind::Reduce:
    reduceDims(rank, command);
    break;
  case Kind::Launch:
    launch(rank, command);
    break;
  case Kind::Call:
    call(rank, command);
    break;
  case Kind::Record:
  case Kind::Wait:
  case Kind::Collective:
  case Kind::Group:
  case Kind::Send:
  case Kind::Recv:
  case Kind::Signal:
  case Kind::WaitSignal:
  case Kind::GatedMatmul:
  case Kind::FusedExchange:
    return;
  }
  order.push_back(current);
}

void DataRun::accumulate(Elements &into, const Elements &from, DType dtype, ReduceOp op) const {
  if (into.index == from.index) {
    for (size_t i = 0; i < into.size(); ++i)
      into.value[i] = combine(mode, dtype, op, into.value[i], from.value[i]);
    return;
  }
  Elements all;
  size_t a = 0, b = 0;
  while (a < into.size() || b < from.size()) {
    bool first = b == from.size() || (a < into.size() && into.index[a] <= from.index[b]);
    bool second = a == into.size() || (b < from.size() && from.index[b] <= into.index[a]);
    // A sum over dropped elements only does not exist and changes nothing.
    if (first && second)
      all.add(into.index[a], combine(mode, dtype, op, into.value[a], from.value[b]));
    else
      all.add(first ? into.index[a] : from.index[b], first ? into.value[a] : from.value[b]);
    a += first;
    b += second;
  }
  into = std::move(all);
}

/// The properties that a device's choice among its ways to add depends on.
static uint64_t orderOf(const Layout &out, const Layout &in, uint64_t dims) {
  uint64_t key = dims;
  for (const Layout *layout : {&out, &in})
    for (unsigned d = 0; d < layout->rank; ++d)
      if (layout->shape[d] != 1)
        key = field::hash(key, static_cast<uint64_t>(layout->shape[d]),
                          static_cast<uint64_t>(layout->strides[d]));
  return key;
}

void DataRun::reduceDims(uint32_t rank, const Command &command) {
  const Layout &in = layout(rank, command, 1), &out = layout(rank, command, 0);
  auto op = static_cast<ReduceOp>(command.reduceOp);
  Elements from = readAll(rank, command, 1), to;
  if (isComplete) {
    to.index.resize(static_cast<size_t>(out.numElements()));
    std::iota(to.index.begin(), to.index.end(), uint64_t(0));
    to.value.assign(to.size(), op == ReduceOp::Sum   ? 0
                               : op == ReduceOp::Max ? field::neg(field::kInfinity)
                                                     : field::kInfinity);
  }
  std::unordered_map<uint64_t, size_t> places;
  for (size_t i = 0; i < from.size(); ++i) {
    uint64_t rest = from.index[i], target = 0, stride = 1;
    for (unsigned d = in.rank; d-- > 0; rest /= static_cast<uint64_t>(in.shape[d])) {
      auto extent = static_cast<uint64_t>(in.shape[d]);
      if (command.value >> d & 1)
        continue;
      target += rest % extent * stride;
      stride *= extent;
    }
    size_t place = target;
    if (!isComplete) {
      auto [at, isNew] = places.try_emplace(target, to.size());
      place = at->second;
      if (isNew) {
        to.add(target, from.value[i]);
        continue;
      }
    }
    to.value[place] = combine(mode, in.dtype, op, to.value[place], from.value[i]);
  }
  // The sum of two has no order.
  if (mode.rounded && !world.isDeterministic && op == ReduceOp::Sum && isFloat(in.dtype) &&
      in.numElements() > 2 * out.numElements())
    for (Value &sum : to.value)
      sum = sum == 0 ? 0 : field::hash(orderOf(out, in, command.value), sum);
  to.sort();
  write(rank, command, 0, to);
}

/// Row-major index of an element, with 0 in dimensions that `layout` repeats.
static uint64_t withoutRepeated(const Layout &layout, uint64_t element) {
  uint64_t result = 0, inner = 1;
  for (unsigned d = layout.rank; d-- > 0;) {
    auto extent = static_cast<uint64_t>(layout.shape[d]);
    if (layout.strides[d] != 0)
      result += element % extent * inner;
    element /= extent;
    inner *= extent;
  }
  return result;
}

void DataRun::launch(uint32_t rank, const Command &command) {
  const Kernel &kernel = world.kernels[world.ranks[rank].kernels[command.aux]];
  std::vector<Elements> operands;
  std::vector<bool> repeated;
  // The result has the elements kept in any operand that repeats nothing.
  Elements made;
  bool any = false, same = true;
  for (uint32_t k = kernel.outputs; k < command.numOperands; ++k) {
    operands.push_back(isComplete ? readAll(rank, command, k) : read(rank, command, k));
    repeated.push_back(!isComplete && repeats(layout(rank, command, k)));
    if (repeated.back())
      continue;
    const std::vector<uint64_t> &index = operands.back().index;
    same &= !any || index == made.index;
    if (!any)
      made.index = index;
    any = true;
    if (same)
      continue;
    std::vector<uint64_t> both;
    std::set_union(made.index.begin(), made.index.end(), index.begin(), index.end(),
                   std::back_inserter(both));
    made.index = std::move(both);
  }
  if (!any && isComplete) {
    made.index.resize(static_cast<size_t>(layout(rank, command, 0).numElements()));
    std::iota(made.index.begin(), made.index.end(), uint64_t(0));
  } else if (!any || (!same && usesOrder(kernel))) {
    // A dropped term is 0 in a sum, but not in a maximum.
    isFailed = true;
    return;
  }
  std::vector<Values> inputs(operands.size()), outputs(kernel.outputs);
  for (size_t o = 0; o < operands.size(); ++o) {
    if (operands[o].index == made.index) {
      inputs[o] = std::move(operands[o].value);
      continue;
    }
    const Layout &from = layout(rank, command, kernel.outputs + static_cast<uint32_t>(o));
    for (size_t i = 0; i < made.size(); ++i) {
      const Value *value = operands[o].find(withoutRepeated(from, made.index[i]));
      inputs[o].push_back(value ? *value : repeated[o] ? unknown(i, o) : 0);
    }
  }
  done += static_cast<double>(made.size()) * static_cast<double>(kernel.code.size());
  evaluateKernel(mode, kernel, made.size(), inputs, outputs);
  for (uint32_t k = 0; k < kernel.outputs; ++k) {
    made.value = std::move(outputs[k]);
    write(rank, command, k, made);
  }
}

//===----------------------------------------------------------------------===//
// Communication
//===----------------------------------------------------------------------===//

void DataRun::beginTransfer(CommandId send, CommandId recv) {
  start(recv);
  if (!failed()) {
    write(world.rankOf(recv), world.commands[recv], 0,
          readMoved(world.rankOf(send), world.commands[send], 0));
    order.push_back(recv);
  }
  InstantDriver::beginTransfer(send, recv);
}

/// Part `i` of `of` equal parts of `count` elements.
static Elements part(const Elements &all, uint64_t count, size_t i, size_t of) {
  uint64_t size = count / of, first = i * size;
  auto begin = std::lower_bound(all.index.begin(), all.index.end(), first) - all.index.begin();
  Elements piece;
  for (auto e = static_cast<size_t>(begin); e < all.size() && all.index[e] < first + size; ++e)
    piece.add(all.index[e] - first, all.value[e]);
  return piece;
}

static void append(Elements &all, uint64_t first, const Elements &piece) {
  for (size_t e = 0; e < piece.size(); ++e)
    all.add(first + piece.index[e], piece.value[e]);
}

void DataRun::beginCollective(uint32_t index) {
  const MatchedCollective &collective = world.collectives[index];
  const CommandId *members = world.members.data() + collective.members;
  const std::vector<uint32_t> &group = world.groups[collective.group];
  const Command &any = world.commands[members[0]];
  auto op = static_cast<ReduceOp>(any.reduceOp);
  size_t size = group.size(), root = 0;
  // Size of a member's input, equal for all that have one.
  uint64_t count = 0;
  DType dtype = DType::F32;
  std::vector<Elements> in(failed() ? 0 : size);
  for (size_t m = 0; m < in.size(); ++m) {
    start(members[m]);
    if (group[m] == any.peer)
      root = m;
    in[m] = readMoved(group[m], world.commands[members[m]], 1);
    if (world.operand(world.ranks[group[m]], world.commands[members[m]], 1)) {
      const Layout &from = layout(group[m], world.commands[members[m]], 1);
      count = static_cast<uint64_t>(from.numElements());
      dtype = from.dtype;
    }
  }
  auto kind = static_cast<CollectiveKind>(any.op);
  auto total = [&](size_t i, size_t of) {
    Elements out = part(in[0], count, i, of);
    for (size_t j = 1; j < size; ++j)
      accumulate(out, part(in[j], count, i, of), dtype, op);
    // A library adds in an order of its own, the same for all members.
    if (mode.rounded && op == ReduceOp::Sum && isFloat(dtype) && size > 1)
      for (Value &value : out.value)
        if (value != 0)
          value = field::hash(static_cast<uint64_t>(kind), count, size, value);
    return out;
  };
  auto gather = [&](size_t i, size_t of) {
    Elements out;
    for (size_t j = 0; j < size; ++j)
      append(out, j * (count / of), part(in[j], count, i, of));
    return out;
  };
  // The data that all members, or the root, receive.
  Elements common;
  if (!in.empty() && !program::stacksIn(kind) && !program::isFromRoot(kind))
    common = program::isReduction(kind) ? total(0, 1) : gather(0, 1);
  for (size_t m = 0; m < in.size(); ++m) {
    start(members[m]);
    order.push_back(members[m]);
    if (program::isToRoot(kind) && m != root)
      continue;
    write(group[m], world.commands[members[m]], 0,
          kind == CollectiveKind::ReduceScatter ? total(m, size)
          : kind == CollectiveKind::Broadcast   ? in[root]
          : kind == CollectiveKind::Scatter     ? part(in[root], count, m, size)
          : kind == CollectiveKind::AllToAll    ? gather(m, size)
                                                : common);
  }
  InstantDriver::beginCollective(index);
}

} // namespace tandem::check
