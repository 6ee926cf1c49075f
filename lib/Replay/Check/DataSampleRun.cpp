//===- DataSampleRun.cpp - one run at some indices ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DataSample.h"
#include "DataTrace.h"

#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>

namespace tandem::check {

using namespace replay;

Value SampleRun::unknown(uint64_t a, uint64_t b) {
  ++numUnknown;
  return field::hash(0x756e6b6e6f776e, a, b);
}

SampleRun::SampleRun(const World &world, DataMode mode, const Density &density, double budget)
    : InstantDriver(world), mode(mode), budget(budget), ranks(world.numRanks()),
      sight(world.commands.size(), Nothing) {
  for (uint32_t r = 0; r < world.numRanks() && !failed(); ++r) {
    ranks[r].arguments.resize(world.arguments.size());
    for (uint32_t a = 0; a < world.arguments.size(); ++a)
      if (!world.arguments[a].isResult && world.ranks[r].argumentPresent[a])
        fillInput(r, a, density);
  }
}

void SampleRun::run() {
  Walker walker(world, {}, *this);
  InstantDriver::run(walker);
}

void SampleRun::fillInput(uint32_t rank, uint32_t argument, const Density &density) {
  const Argument &info = world.arguments[argument];
  const Shard &shard = world.ranks[rank].shards[argument];
  if (std::find(shard.shape.begin(), shard.shape.end(), 0) != shard.shape.end())
    return;
  // The shard as a view of the logical tensor.
  Layout held;
  held.dtype = info.dtype;
  held.rank = static_cast<uint8_t>(shard.shape.size());
  std::copy(shard.shape.begin(), shard.shape.end(), held.shape.begin());
  std::copy(shard.strides.begin(), shard.strides.end(), held.strides.begin());
  std::vector<uint64_t> elements = {0};
  for (uint32_t d = 0; d < info.shape.size(); ++d) {
    auto extent = static_cast<uint64_t>(info.shape[d]);
    std::vector<uint64_t> next, kept = keptIndices(extent, density.of(argument, d, extent));
    done += static_cast<double>(elements.size()) * static_cast<double>(kept.size());
    if (failed())
      return;
    for (uint64_t element : elements)
      for (uint64_t k : kept)
        next.push_back(element * extent + k);
    elements = std::move(next);
  }
  Sample sample;
  auto offset = static_cast<uint64_t>(shard.offset);
  for (uint64_t element : elements)
    if (element >= offset)
      if (std::optional<uint64_t> local = elementOf(held, element - offset))
        sample.add(*local, inputTerm(mode, info, argument, element, shard.term));
  sample.sort();
  Layout flat = Layout::dense(info.dtype, {held.numElements()});
  ranks[rank].arguments[argument].write(0, flat, sample);
}

SampleMemory &SampleRun::memory(uint32_t rank, const View &view) {
  RankMemory &memory = ranks[rank];
  return view.space == Space::Argument ? memory.arguments[view.argument]
         : view.space == Space::Arena  ? memory.arena
                                       : memory.symmetric;
}

/// Whether no two elements of a view are in one place, repeated ones aside, by nested strides.
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

Sample SampleRun::read(uint32_t rank, const Command &command, uint32_t k) {
  const View *view = world.operand(world.ranks[rank], command, k);
  if (!view)
    return {};
  isFailed |= !isNested(world.layoutOf(*view));
  Sample sample = memory(rank, *view).read(view->address, world.layoutOf(*view));
  done += static_cast<double>(sample.size());
  readNothing |= sample.size() == 0;
  return sample;
}

void SampleRun::note(const Sample &sample) {
  done += static_cast<double>(sample.size());
  sight[current] = readNothing || sample.size() == 0 ? Blind : Touched;
}

void SampleRun::write(uint32_t rank, const Command &command, uint32_t k, const Sample &sample) {
  note(sample);
  if (const View *view = world.operand(world.ranks[rank], command, k))
    memory(rank, *view).write(view->address, world.layoutOf(*view), sample);
}

static bool repeats(const Layout &layout) {
  for (unsigned d = 0; d < layout.rank; ++d)
    if (layout.strides[d] == 0 && layout.shape[d] > 1)
      return true;
  return false;
}

Sample SampleRun::moved(uint32_t rank, const Command &command, uint32_t k) {
  isFailed |= repeats(layout(rank, command, k));
  return read(rank, command, k);
}

/// With all indices of the dimensions that `from` repeats.
Sample SampleRun::expanded(Sample sample, const Layout &from) {
  uint64_t inner = 1;
  for (unsigned d = from.rank; d-- > 0;) {
    auto extent = static_cast<uint64_t>(from.shape[d]);
    if (from.strides[d] == 0 && extent > 1) {
      done += static_cast<double>(sample.size()) * static_cast<double>(extent);
      if (failed())
        return {};
      Sample all;
      for (size_t i = 0; i < sample.size(); ++i)
        for (uint64_t e = 0; e < extent; ++e)
          all.add(sample.index[i] + e * inner, sample.value[i]);
      sample = std::move(all);
    }
    inner *= extent;
  }
  sample.sort();
  return sample;
}

void SampleRun::begin(CommandId id) {
  if (!failed()) {
    current = id;
    readNothing = false;
    execute(world.rankOf(id), world.commands[id]);
    ran.push_back(id);
  }
  InstantDriver::begin(id);
}

void SampleRun::execute(uint32_t rank, const Command &command) {
  switch (command.kind) {
  case Kind::Copy:
    return write(rank, command, 0, moved(rank, command, 1));
  case Kind::Accumulate: {
    Sample sum = read(rank, command, 0);
    accumulate(sum, moved(rank, command, 1), layout(rank, command, 1).dtype,
               static_cast<ReduceOp>(command.reduceOp));
    return write(rank, command, 0, sum);
  }
  case Kind::Put: {
    Sample sample = moved(rank, command, 1);
    const View &target = *world.operand(world.ranks[rank], command, 0);
    note(sample);
    return memory(command.peer, target).write(target.address, world.layoutOf(target), sample);
  }
  case Kind::Matmul:
    return matmul(rank, command);
  case Kind::Reduce:
    return reduceDims(rank, command);
  case Kind::Launch:
    return launch(rank, command);
  default:
    return;
  }
}

void SampleRun::accumulate(Sample &into, const Sample &from, DType dtype, ReduceOp op) {
  if (into.index == from.index) {
    for (size_t i = 0; i < into.size(); ++i)
      into.value[i] = combine(mode, dtype, op, into.value[i], from.value[i]);
    return;
  }
  Sample all;
  size_t a = 0, b = 0;
  while (a < into.size() || b < from.size()) {
    bool first = b == from.size() || (a < into.size() && into.index[a] <= from.index[b]);
    bool second = a == into.size() || (b < from.size() && from.index[b] <= into.index[a]);
    // A sum over nothing that is kept is not there either: it changes nothing.
    if (first && second)
      all.add(into.index[a], combine(mode, dtype, op, into.value[a], from.value[b]));
    else
      all.add(first ? into.index[a] : from.index[b], first ? into.value[a] : from.value[b]);
    a += first;
    b += second;
  }
  into = std::move(all);
}

namespace {

/// Rows of a factor: vectors along K, by matrix and row.
struct Rows {
  struct Row {
    uint64_t number; ///< in its matrix
    std::vector<uint64_t> k;
    Values value;
  };
  std::map<uint64_t, std::vector<Row>> matrices;

  /// `alongRows`: K is the last dimension, else the one before.
  Rows(const Sample &sample, const Layout &factor, bool alongRows) {
    auto rows = static_cast<uint64_t>(factor.shape[factor.rank - 2]);
    auto columns = static_cast<uint64_t>(factor.shape[factor.rank - 1]);
    std::unordered_map<uint64_t, size_t> places;
    for (size_t i = 0; i < sample.size(); ++i) {
      uint64_t at = sample.index[i], matrix = at / (rows * columns);
      uint64_t row = at / columns % rows, column = at % columns;
      if (!alongRows)
        std::swap(row, column);
      std::vector<Row> &list = matrices[matrix];
      auto [place, isNew] = places.try_emplace(matrix * std::max(rows, columns) + row, list.size());
      if (isNew)
        list.push_back({row, {}, {}});
      list[place->second].k.push_back(column);
      list[place->second].value.push_back(sample.value[i]);
    }
  }
  const std::vector<Row> &of(uint64_t matrix) const {
    static const std::vector<Row> none;
    auto at = matrices.find(matrix);
    return at == matrices.end() ? none : at->second;
  }
};

} // namespace

void SampleRun::matmul(uint32_t rank, const Command &command) {
  auto has = [&](sp::CommandFlags flag) { return (command.flags & static_cast<int>(flag)) != 0; };
  const Layout &out = layout(rank, command, 0);
  const Layout &a = layout(rank, command, 1), &b = layout(rank, command, 2);
  Rows left(expanded(read(rank, command, 1), a), a, !has(sp::CommandFlags::transpose_a));
  Rows right(expanded(read(rank, command, 2), b), b, has(sp::CommandFlags::transpose_b));
  Sample bias;
  if (const View *view = world.operand(world.ranks[rank], command, 3))
    bias = expanded(read(rank, command, 3), world.layoutOf(*view));
  bool hasBias = world.operand(world.ranks[rank], command, 3) != nullptr;
  // The bias would be lost where no index of K is kept.
  isFailed |= bias.size() > 0 && left.matrices.empty() && right.matrices.empty();
  const bool anyRepeats = repeats(a) || repeats(b);
  auto m = static_cast<uint64_t>(out.shape[out.rank - 2]);
  auto n = static_cast<uint64_t>(out.shape[out.rank - 1]);
  std::vector<int64_t> stridesA = batchStrides(a, out), stridesB = batchStrides(b, out);
  int64_t sizeA = a.shape[a.rank - 1] * a.shape[a.rank - 2];
  int64_t sizeB = b.shape[b.rank - 1] * b.shape[b.rank - 2];
  uint64_t batches = m * n == 0 ? 0 : static_cast<uint64_t>(out.numElements()) / (m * n);
  Sample result;
  for (uint64_t batch = 0; batch < batches && !failed(); ++batch) {
    int64_t atA = 0, atB = 0, rest = static_cast<int64_t>(batch);
    for (size_t d = stridesA.size(); d-- > 0; rest /= out.shape[d]) {
      atA += rest % out.shape[d] * stridesA[d];
      atB += rest % out.shape[d] * stridesB[d];
    }
    const auto &rows = left.of(static_cast<uint64_t>(sizeA ? atA / sizeA : 0));
    const auto &columns = right.of(static_cast<uint64_t>(sizeB ? atB / sizeB : 0));
    for (const Rows::Row &row : rows)
      for (const Rows::Row &column : columns) {
        done += static_cast<double>(row.k.size()) / kElementSteps;
        Value dot = 0;
        isFailed |= anyRepeats && row.k != column.k;
        if (row.k != column.k)
          dot = unknown(row.value.front(), column.value.front());
        else
          multiply(mode, row.value.data(), column.value.data(), &dot, 1, 1,
                   static_cast<int64_t>(row.k.size()));
        if (hasBias) {
          const Value *term = bias.find(column.number);
          dot = term ? sum(mode, dot, *term) : unknown(dot, 0);
        }
        result.add((batch * m + row.number) * n + column.number, dot);
      }
  }
  result.sort();
  if (has(sp::CommandFlags::accumulate)) {
    Sample old = read(rank, command, 0);
    accumulate(old, result, out.dtype, ReduceOp::Sum);
    result = std::move(old);
  }
  write(rank, command, 0, result);
}

void SampleRun::reduceDims(uint32_t rank, const Command &command) {
  const Layout &in = layout(rank, command, 1);
  auto op = static_cast<ReduceOp>(command.reduceOp);
  Sample from = expanded(read(rank, command, 1), in), to;
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
    auto [place, isNew] = places.try_emplace(target, to.size());
    if (isNew)
      to.add(target, from.value[i]);
    else
      to.value[place->second] = combine(mode, in.dtype, op, to.value[place->second], from.value[i]);
  }
  to.sort();
  write(rank, command, 0, to);
}

/// Row-major index of an element, with 0 for what `layout` repeats.
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

void SampleRun::launch(uint32_t rank, const Command &command) {
  const Kernel &kernel = world.kernels[world.ranks[rank].kernels[command.aux]];
  std::vector<Sample> operands;
  std::vector<bool> repeated;
  // What is computed is where any operand is kept that repeats nothing.
  Sample made;
  bool any = false, same = true;
  for (uint32_t k = kernel.outputs; k < command.numOperands; ++k) {
    operands.push_back(read(rank, command, k));
    repeated.push_back(repeats(layout(rank, command, k)));
    if (repeated.back())
      continue;
    const std::vector<uint64_t> &index = operands.back().index;
    same &= !any || index == made.index;
    any = true;
    std::vector<uint64_t> both;
    std::set_union(made.index.begin(), made.index.end(), index.begin(), index.end(),
                   std::back_inserter(both));
    made.index = std::move(both);
  }
  // A term of which nothing is kept is 0 to a sum, but not to a maximum.
  if (!any || (!same && usesOrder(kernel))) {
    isFailed = true;
    return;
  }
  std::vector<Values> inputs(operands.size()), outputs(kernel.outputs);
  for (size_t o = 0; o < operands.size(); ++o) {
    const Layout &from = layout(rank, command, kernel.outputs + static_cast<uint32_t>(o));
    bool all = operands[o].index == made.index;
    for (size_t i = 0; i < made.index.size(); ++i) {
      const Value *value =
          all ? &operands[o].value[i] : operands[o].find(withoutRepeated(from, made.index[i]));
      inputs[o].push_back(value ? *value : repeated[o] ? unknown(i, o) : 0);
    }
  }
  done += static_cast<double>(made.index.size()) * static_cast<double>(kernel.code.size());
  evaluateKernel(mode, kernel, made.index.size(), inputs, outputs);
  for (uint32_t k = 0; k < kernel.outputs; ++k) {
    made.value = outputs[k];
    write(rank, command, k, made);
  }
}

void SampleRun::beginTransfer(CommandId send, CommandId recv) {
  if (!failed()) {
    uint32_t from = world.rankOf(send);
    current = recv;
    readNothing = false;
    const Command &command = world.commands[send];
    write(world.rankOf(recv), world.commands[recv], 0, moved(from, command, 0));
    ran.push_back(recv);
  }
  InstantDriver::beginTransfer(send, recv);
}

void SampleRun::beginCollective(uint32_t index) {
  // Targets without collectives are the rule: hostir-expand-collectives.
  isFailed = true;
  InstantDriver::beginCollective(index);
}

} // namespace tandem::check
