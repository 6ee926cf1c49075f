//===- Pool.h - inputs that programs of a row share -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BENCH_POOL_H
#define TANDEM_BENCH_POOL_H

#include "RankContext.h"
#include "Tensor.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace tandem::bench {

/// The inputs of one rank, in several sets. Programs of a row that hold the same piece of an
/// argument of the same name share it: memory is not filled twice, and nobody reads warmer data.
class InputPool {
public:
  /// `exact`: sets hold what the oracle is given, element by element. Else they hold a block of
  /// random numbers in [-1, 1) that repeats with an odd period and begins elsewhere in each memory.
  InputPool(run::RankContext &context, uint64_t seed, bool exact)
      : context(context), seed(seed), exact(exact) {}

  Expected<run::BoundMemory *> get(uint32_t argument, const ArgumentInfo &info, const Shard &shard,
                                   uint32_t set);

private:
  Status fill(run::BoundMemory &memory, const ArgumentInfo &info, uint64_t begin) const;

  run::RankContext &context;
  uint64_t seed;
  bool exact;
  std::map<std::string, std::unique_ptr<run::BoundMemory>> memories;
};

/// The seed of a set's inputs; of set 0 it is `seed`.
uint64_t seedOf(uint64_t seed, uint32_t set);

} // namespace tandem::bench

#endif // TANDEM_BENCH_POOL_H
