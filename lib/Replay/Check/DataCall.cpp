//===- DataCall.cpp - kernels of the embedder in a finite field -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An unknown function for each result of a kernel. An element of it depends on its place in the
// logical tensor, and on the elements of the operands at its parallel indices, with their places in
// the dimensions that are needed whole.
//
//===----------------------------------------------------------------------===//

#include "Data.h"

#include "tandem/Program/BuiltinKernels.h"

#include <algorithm>
#include <map>
#include <set>

namespace tandem::check {

using namespace replay;

namespace {

using Indices = CallIndices;

/// Splits a row-major index into the parallel indices and the row-major index of the rest.
uint64_t split(const Layout &layout, const int8_t *dims, uint64_t element, Indices &parallel) {
  uint64_t rest = 0, inner = 1;
  parallel.clear();
  for (unsigned d = layout.rank; d-- > 0;) {
    auto extent = static_cast<uint64_t>(layout.shape[d]);
    if (dims[d] >= 0) {
      parallel.push_back(element % extent);
    } else {
      rest += element % extent * inner;
      inner *= extent;
    }
    element /= extent;
  }
  std::reverse(parallel.begin(), parallel.end());
  return rest;
}

uint64_t hashText(std::string_view text) {
  uint64_t hash = 0x63616c6c;
  for (char c : text)
    hash = field::mix(hash ^ static_cast<unsigned char>(c));
  return hash;
}

/// What the kernel sees of an operand, by its parallel indices.
CallDigests digest(const Layout &layout, const int8_t *dims, const Elements &elements) {
  CallDigests digests;
  Indices parallel;
  for (size_t i = 0; i < elements.size(); ++i) {
    uint64_t rest = split(layout, dims, elements.index[i], parallel);
    uint64_t &hash = digests.try_emplace(parallel, 0).first->second;
    hash = field::mix(field::mix(hash ^ rest) ^ elements.value[i]);
  }
  return digests;
}

} // namespace

void DataRun::call(uint32_t rank, const Command &command) {
  const Rank &owner = world.ranks[rank];
  const Kernel &kernel = world.kernels[owner.kernels[command.aux]];
  if (kernel.name == program::kGroupedMatmul)
    return groupedMatmul(rank, command);
  const CallPlace *places = owner.callPlaces.data() + command.value;

  // Per input: its digests, and the parallel dimension of each of its parallel indices.
  std::vector<CallDigests> digests;
  std::vector<std::vector<int8_t>> numbers;
  const int8_t *dims = kernel.dims.data();
  for (uint32_t k = 0; k < kernel.outputs; ++k)
    dims += layout(rank, command, k).rank;
  for (uint32_t k = kernel.outputs; k < command.numOperands; ++k) {
    const Layout &in = layout(rank, command, k);
    digests.push_back(digest(in, dims, readAll(rank, command, k)));
    std::vector<int8_t> &mine = numbers.emplace_back();
    std::copy_if(dims, dims + in.rank, std::back_inserter(mine), [](int8_t n) { return n >= 0; });
    dims += in.rank;
  }
  dims = kernel.dims.data();
  for (uint32_t k = 0; k < kernel.outputs && !failed(); ++k) {
    callResult(rank, command, k, dims, places, digests, numbers);
    dims += layout(rank, command, k).rank;
  }
}

void DataRun::callResult(uint32_t rank, const Command &command, uint32_t result, const int8_t *dims,
                         const CallPlace *places, const std::vector<CallDigests> &digests,
                         const std::vector<std::vector<int8_t>> &numbers) {
  const Kernel &kernel = world.kernels[world.ranks[rank].kernels[command.aux]];
  const Layout &out = layout(rank, command, result);
  // The kept indices of each dimension of the result: local ones.
  std::vector<std::vector<uint64_t>> kept(out.rank);
  double count = 1;
  for (unsigned d = 0; d < out.rank; ++d) {
    int8_t number = dims[d];
    CallPlace place{0, out.shape[d]};
    if (number >= 0)
      place = places[number];
    // An index of a parallel dimension is kept if it is in the first input that has the dimension.
    bool isRead = false;
    for (size_t k = 0; number >= 0 && !isRead && k < digests.size(); ++k) {
      auto at = std::find(numbers[k].begin(), numbers[k].end(), number);
      isRead = at != numbers[k].end();
      std::set<uint64_t> found;
      for (const auto &[indices, hash] : digests[k])
        if (isRead)
          found.insert(indices[static_cast<size_t>(at - numbers[k].begin())]);
      kept[d].assign(found.begin(), found.end());
    }
    auto extent = static_cast<uint64_t>(place.extent), begin = static_cast<uint64_t>(place.offset),
         length = static_cast<uint64_t>(out.shape[d]);
    if (!isRead)
      for (uint64_t index : keptIndices(extent, density.of(kNone, 0, extent)))
        if (index >= begin && index - begin < length)
          kept[d].push_back(index - begin);
    count *= static_cast<double>(kept[d].size());
  }
  done += count * static_cast<double>(command.numOperands);
  if (failed())
    return;

  uint64_t function = hashText(kernel.name) ^ field::mix(hashText(kernel.config));
  if (result > 0)
    function = field::mix(function ^ result);
  Elements elements;
  std::vector<size_t> at(out.rank, 0);
  bool isEmpty = std::any_of(kept.begin(), kept.end(), [](const auto &k) { return k.empty(); });
  while (!isEmpty) {
    uint64_t element = 0, hash = function;
    std::vector<uint64_t> parallel; // by parallel dimension
    for (unsigned d = 0; d < out.rank; ++d) {
      uint64_t index = kept[d][at[d]];
      element = element * static_cast<uint64_t>(out.shape[d]) + index;
      int8_t number = dims[d];
      if (number >= 0)
        parallel.push_back(index);
      if (number >= 0) { // kernels may read where their part lies, and how large the whole is
        hash = field::mix(hash ^ static_cast<uint64_t>(places[number].extent));
        index += static_cast<uint64_t>(places[number].offset);
      }
      hash = field::mix(hash ^ index);
    }
    bool isKept = true;
    for (size_t k = 0; isKept && k < digests.size(); ++k) {
      Indices mine;
      for (int8_t number : numbers[k])
        mine.push_back(parallel[static_cast<size_t>(number)]);
      auto found = digests[k].find(mine);
      isKept = found != digests[k].end();
      if (isKept)
        hash = field::mix(hash ^ found->second);
    }
    if (isKept)
      elements.add(element, field::hash(hash));
    unsigned d = out.rank;
    while (d > 0 && ++at[d - 1] == kept[d - 1].size())
      at[--d] = 0;
    if (d == 0)
      break;
  }
  write(rank, command, result, elements);
}

} // namespace tandem::check
