//===- RankNumbers.h - numbers that depend on the rank ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One walk of a program covers all ranks: a number is equal on every rank, or a table with one
// entry per rank, or unknown. Equal tables are one object, and each operation on the same operands
// is computed once, so equal loops in a row cost as much as one. Example with 4 ranks:
// (device_index + 1) remui 4 is the table [1, 2, 3, 0]. An added constant is stored separately as
// base: 7 + the table has base 7.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_HOSTIR_EVALUATE_RANKNUMBERS_H
#define TANDEM_DIALECT_HOSTIR_EVALUATE_RANKNUMBERS_H

#include "tandem/Dialect/HostIR/Evaluate/Integers.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Hashing.h"
#include <deque>
#include <map>

namespace tandem::hostir {

/// A number on all ranks. Comparable: equal Numbers are equal on every rank.
class Number {
public:
  Number() = default;
  static Number constant(int64_t value) { return Number(kConstant, value); }

  bool isKnown() const { return table != kUnknown; }
  /// The number, if it is the same on all ranks.
  std::optional<int64_t> getConstant() const {
    return table == kConstant ? std::optional(base) : std::nullopt;
  }
  /// The least entry of a known number.
  int64_t getLeast() const { return base; }
  bool operator==(const Number &o) const { return table == o.table && base == o.base; }
  bool operator<(const Number &o) const {
    return std::pair(table, base) < std::pair(o.table, o.base);
  }

private:
  friend class RankNumbers;
  static constexpr int64_t kUnknown = -2, kConstant = -1;
  Number(int64_t table, int64_t base) : table(table), base(base) {}

  int64_t table = kUnknown; ///< its index; its least entry is 0
  int64_t base = 0;         ///< added to each entry
};

/// The tables of one program.
class RankNumbers {
public:
  /// For `ranks` ranks; 0: rank-dependent numbers are unknown.
  explicit RankNumbers(uint32_t ranks) : ranks(ranks) {}

  uint32_t numRanks() const { return ranks; }
  /// One entry per rank. Unknown if the tables exceed their memory limit.
  Number table(std::vector<int64_t> entries);
  /// A known number on one rank; its largest value on any rank.
  int64_t at(Number number, uint32_t rank) const {
    return number.base + (number.table < 0 ? 0 : tables[number.table][rank]);
  }
  int64_t getGreatest(Number number) const {
    return number.base + (number.table < 0 ? 0 : greatest[number.table]);
  }

  /// Unknown if an operand is, or if `arith` leaves the result undefined on some rank.
  Number evaluate(IntegerOp op, Number a, Number b);
  Number select(Number condition, Number a, Number b);

private:
  bool isFull() const;

  using Key = std::tuple<int64_t, Number, Number>;
  uint32_t ranks;
  std::deque<std::vector<int64_t>> tables;
  std::vector<int64_t> greatest; ///< per table
  llvm::DenseMap<uint64_t, SmallVector<int64_t, 1>> byHash;
  std::map<Key, Number> results;
};

} // namespace tandem::hostir

#endif // TANDEM_DIALECT_HOSTIR_EVALUATE_RANKNUMBERS_H
