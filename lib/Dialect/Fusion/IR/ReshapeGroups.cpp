//===- ReshapeGroups.cpp - which dimensions a reshape splits and merges -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReshapeGroups.h"

#include "OpVerify.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

namespace {
/// One side of the walk: the ungrouped dimensions from `next` in direction `step`.
struct Side {
  ArrayRef<int64_t> shape;
  int64_t next;
  int64_t stop;
  int64_t step;
  bool done() const { return next == stop; }
  bool blocked() const { return done() || ShapedType::isDynamic(shape[next]); }
  int64_t take() {
    int64_t extent = shape[next];
    next += step;
    return extent;
  }
};
} // namespace

/// Forms one group of static dimensions with equal products; false if blocked.
static bool takeGroup(Side &from, Side &to) {
  if (from.blocked() || to.blocked())
    return false;
  Side a = from, b = to;
  int64_t productA = a.take(), productB = b.take();
  while (productA != productB) {
    Side &smaller = productA < productB ? a : b;
    int64_t &product = productA < productB ? productA : productB;
    if (smaller.blocked() || llvm::MulOverflow(product, smaller.take(), product))
      return false;
  }
  from = a;
  to = b;
  return true;
}

FailureOr<SmallVector<ReshapeGroup>> fusion::getReshapeGroups(ArrayRef<int64_t> from,
                                                              ArrayRef<int64_t> to) {
  int64_t n = from.size(), m = to.size();
  SmallVector<ReshapeGroup> groups, tail;
  if (from == to) {
    for (int64_t i = 0; i < n; ++i)
      groups.push_back({i, i + 1, i, i + 1});
    return groups;
  }
  // With an extent of 0 products are useless: all dimensions are one group.
  if (llvm::is_contained(from, 0) || llvm::is_contained(to, 0)) {
    if (!llvm::is_contained(from, 0) || !llvm::is_contained(to, 0))
      return failure();
    return SmallVector<ReshapeGroup>{{0, n, 0, m}};
  }
  Side a{from, 0, n, 1}, b{to, 0, m, 1};
  for (Side a0 = a, b0 = b; takeGroup(a, b); a0 = a, b0 = b)
    groups.push_back({a0.next, a.next, b0.next, b.next});
  Side c{from, n - 1, a.next - 1, -1}, d{to, m - 1, b.next - 1, -1};
  for (Side c0 = c, d0 = d; takeGroup(c, d); c0 = c, d0 = d)
    tail.push_back({c.next + 1, c0.next + 1, d.next + 1, d0.next + 1});
  // The rest is static extents of 1, which fit any neighbour, or dynamic extents.
  ReshapeGroup rest{a.next, c.next + 1, b.next, d.next + 1};
  ArrayRef<int64_t> restFrom = from.slice(rest.fromBegin, rest.fromEnd - rest.fromBegin);
  ArrayRef<int64_t> restTo = to.slice(rest.toBegin, rest.toEnd - rest.toBegin);
  auto dynamics = [](ArrayRef<int64_t> s) { return llvm::count(s, ShapedType::kDynamic); };
  if (!restFrom.empty() || !restTo.empty()) {
    bool pairs = restFrom.size() == restTo.size() &&
                 llvm::all_of(llvm::zip(restFrom, restTo), [](auto pair) {
                   return compatibleExtents(std::get<0>(pair), std::get<1>(pair));
                 });
    bool ones = llvm::all_of(restFrom, [](int64_t n) { return n == 1; }) &&
                llvm::all_of(restTo, [](int64_t n) { return n == 1; });
    if (pairs)
      for (int64_t i = 0; i < static_cast<int64_t>(restFrom.size()); ++i)
        groups.push_back(
            {rest.fromBegin + i, rest.fromBegin + i + 1, rest.toBegin + i, rest.toBegin + i + 1});
    else if (ones && !groups.empty()) {
      // Extents of 1 join their neighbours: a mesh axis of one device may split them.
      groups.back().fromEnd = rest.fromEnd;
      groups.back().toEnd = rest.toEnd;
    } else if (ones || (dynamics(restFrom) + dynamics(restTo) > 0 && dynamics(restFrom) <= 1 &&
                        dynamics(restTo) <= 1))
      groups.push_back(rest);
    else
      return failure();
  }
  groups.append(tail.rbegin(), tail.rend());
  return groups;
}
