//===- RankNumbers.cpp - numbers that depend on the rank --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/HostIR/Evaluate/RankNumbers.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

// Most entries in all tables together: 128 MiB.
static constexpr size_t kMaxEntries = size_t(1) << 24;

bool RankNumbers::isFull() const { return (tables.size() + 1) * ranks > kMaxEntries; }

Number RankNumbers::table(std::vector<int64_t> entries) {
  assert(entries.size() == ranks && "one entry per rank");
  if (entries.empty())
    return Number();
  auto [least, most] = std::minmax_element(entries.begin(), entries.end());
  int64_t base = *least, range = 0;
  if (llvm::SubOverflow(*most, base, range))
    return Number();
  if (range == 0)
    return Number::constant(base);
  for (int64_t &entry : entries)
    entry -= base;
  uint64_t hash = llvm::hash_combine_range(entries.begin(), entries.end());
  // Avoids the two keys reserved by DenseMap.
  SmallVector<int64_t, 1> &bucket = byHash[hash >> 2];
  for (int64_t number : bucket)
    if (tables[number] == entries)
      return Number(number, base);
  if (isFull())
    return Number();
  bucket.push_back(static_cast<int64_t>(tables.size()));
  tables.push_back(std::move(entries));
  greatest.push_back(range);
  return Number(bucket.back(), base);
}

Number RankNumbers::evaluate(IntegerOp op, Number a, Number b) {
  if (op.isUnary())
    b = Number::constant(0);
  if (!a.isKnown() || !b.isKnown())
    return Number();
  if (a.getConstant() && b.getConstant()) {
    std::optional<int64_t> result = hostir::evaluate(op, a.base, b.base);
    return result ? Number::constant(*result) : Number();
  }
  // Equal loops use different signal slots: the same table with another base.
  bool adds = op.opcode == IntegerKind::Add || (op.opcode == IntegerKind::Sub && b.getConstant());
  if (adds && op.width == 64 && (a.getConstant() || b.getConstant())) {
    Number sum = a.getConstant() ? b : a;
    int64_t greatestEntry = 0;
    bool overflows = op.opcode == IntegerKind::Add ? llvm::AddOverflow(a.base, b.base, sum.base)
                                                   : llvm::SubOverflow(a.base, b.base, sum.base);
    if (!overflows && !llvm::AddOverflow(sum.base, greatest[sum.table], greatestEntry))
      return sum;
  }
  auto code = static_cast<int64_t>(op.opcode) << 16 | static_cast<int64_t>(op.width) << 8 |
              static_cast<int64_t>(op.predicate);
  if (isFull()) // with many ranks, more entries cost more than they save
    return Number();
  auto [known, isNew] = results.try_emplace(Key(code, a, b));
  if (!isNew)
    return known->second;
  std::vector<int64_t> entries(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    std::optional<int64_t> result = hostir::evaluate(op, at(a, rank), at(b, rank));
    if (!result)
      return Number();
    entries[rank] = *result;
  }
  return known->second = table(std::move(entries));
}

Number RankNumbers::select(Number condition, Number a, Number b) {
  if (std::optional<int64_t> constant = condition.getConstant())
    return *constant ? a : b;
  if (!condition.isKnown() || !a.isKnown() || !b.isKnown() || isFull())
    return Number();
  std::vector<int64_t> entries(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank)
    entries[rank] = at(at(condition, rank) ? a : b, rank);
  return table(std::move(entries));
}
