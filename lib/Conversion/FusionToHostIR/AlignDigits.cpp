//===- AlignDigits.cpp - views of one command in one shape -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Slices.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tandem;

namespace {

/// A digit after cutting; for a kept digit, whether it directly follows the previous kept one.
struct CutDigit {
  LocalDigit digit;
  bool follows = false;
};

/// Walks the digits of one list, outermost first.
class Cutter {
public:
  explicit Cutter(ArrayRef<LocalDigit> digits) : rest(digits) {}

  /// Copies the digits before the next kept one; returns the rest of that digit, or 0 at the end.
  int64_t next() {
    for (; at < rest.size() && !rest[at].isKept(); ++at) {
      done.push_back({rest[at]});
      hasGap = true;
    }
    if (at == rest.size())
      return 0;
    return rest[at].chunk ? rest[at].length : rest[at].size;
  }

  /// Cuts `size` indices off the kept digit; fails if `size` does not divide it.
  LogicalResult take(int64_t size) {
    if (at == rest.size())
      return failure();
    LocalDigit &digit = rest[at];
    if (digit.chunk ? digit.length != size : digit.size % size != 0)
      return failure();
    bool isRun = digit.chunk != 0;
    done.push_back({digit, !hasGap && !isRun && !done.empty()});
    if (!isRun)
      done.back().digit.size = size;
    hasGap = isRun;
    if (isRun || digit.size == size)
      ++at;
    else
      digit.size /= size;
    return success();
  }

  SmallVector<CutDigit> done;

private:
  SmallVector<LocalDigit> rest;
  size_t at = 0;
  bool hasGap = true;
};

} // namespace

/// Drops digits with one index or a run of one, and merges adjacent digits that are kept whole.
static SmallVector<LocalDigit> simplify(OpBuilder &builder, Location loc,
                                        ArrayRef<LocalDigit> digits) {
  SmallVector<LocalDigit> simple;
  for (LocalDigit digit : digits) {
    if (digit.size == 1)
      continue;
    if (digit.index && digit.chunk && digit.length == 1) {
      Value chunk = arith::ConstantIndexOp::create(builder, loc, digit.chunk);
      digit.index = arith::MulIOp::create(builder, loc, digit.index, chunk);
      digit.chunk = digit.length = 0;
    }
    if (!digit.index && !simple.empty() && !simple.back().index)
      simple.back().size *= digit.size;
    else
      simple.push_back(digit);
  }
  return simple;
}

LogicalResult tandem::alignDigits(OpBuilder &builder, Location loc,
                                  ArrayRef<SmallVector<LocalDigit> *> lists) {
  // Without elements there is nothing to cut.
  if (llvm::any_of(lists, [](const auto *list) {
        return llvm::any_of(*list, [](const LocalDigit &digit) { return digit.size == 0; });
      })) {
    for (SmallVector<LocalDigit> *list : lists)
      *list = {{0, {}, 0}};
    return success();
  }
  SmallVector<Cutter> cutters = llvm::map_to_vector(
      lists, [&](const auto *list) { return Cutter(simplify(builder, loc, *list)); });
  while (true) {
    int64_t size = 0;
    for (Cutter &cutter : cutters)
      if (int64_t mine = cutter.next())
        size = size ? std::min(size, mine) : mine;
    if (size == 0)
      break;
    for (Cutter &cutter : cutters)
      if (failed(cutter.take(size)))
        return failure();
  }

  // Merge digits that are adjacent in every list.
  SmallVector<bool> joins;
  for (const Cutter &cutter : cutters) {
    size_t kept = 0;
    for (const CutDigit &cut : cutter.done) {
      if (!cut.digit.isKept())
        continue;
      if (kept == joins.size())
        joins.push_back(true);
      joins[kept++] &= cut.follows;
    }
  }
  for (auto [list, cutter] : llvm::zip_equal(lists, cutters)) {
    list->clear();
    size_t kept = 0;
    for (const CutDigit &cut : cutter.done) {
      if (cut.digit.isKept() && joins[kept++]) {
        list->back().size *= cut.digit.size;
        continue;
      }
      list->push_back(cut.digit);
      list->back().label = 2 * static_cast<int64_t>(list->size());
    }
  }
  return success();
}
