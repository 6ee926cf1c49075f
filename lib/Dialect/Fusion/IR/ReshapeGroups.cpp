//===- ReshapeGroups.cpp - which dimensions a reshape splits and merges -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReshapeGroups.h"

#include "OpVerify.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

namespace {
/// One side of the walk: the dimensions from `next` in direction `step` that are not in a group
/// yet.
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

/// Grows one group of static dimensions with equal products from both sides; false if a side is
/// blocked first.
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
  // With an extent of 0 products say nothing; all dimensions are one group.
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
  // What is left is static ones, which any neighbour may hold, or has dynamic extents.
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
      // Extents of 1 go with their neighbours: a mesh axis of one device may stand on them.
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

static std::string describe(const ResolvedDigit &digit) {
  if (digit.kind == DigitKind::Device)
    return "mesh axis \"" + digit.axis.str() + "\" of size " + std::to_string(digit.size);
  return (digit.kind == DigitKind::Stream ? "stream(" : "serial(") + std::to_string(digit.size) +
         ")";
}

/// Digits of a group, one after another, as digits of the dimensions `to`.
static LogicalResult distribute(MLIRContext *context, ArrayRef<ResolvedDigit> digits,
                                ArrayRef<int64_t> to, SmallVectorImpl<DimAxesAttr> &dims,
                                std::string &reason) {
  size_t next = 0;
  // What is left of digits[next], innermost part.
  int64_t left = digits.empty() ? 1 : digits.front().size;
  for (int64_t extent : to) {
    SmallVector<Digit> dim;
    int64_t open = extent;
    // Digits of size 1 are mesh axes of one device; they stay where the walk meets them.
    while (next < digits.size() && (open > 1 || left == 1)) {
      const ResolvedDigit &digit = digits[next];
      int64_t part = open % left == 0 ? left : left % open == 0 ? open : 0;
      bool device = digit.kind == DigitKind::Device;
      if (part == 0 || (device && part != digit.size)) {
        reason = "expected digits that fit the extent " + std::to_string(extent) + ", found " +
                 describe(digit);
        return failure();
      }
      dim.push_back(device                            ? Digit::device(digit.axis)
                    : digit.kind == DigitKind::Stream ? Digit::stream(part)
                                                      : Digit::serial(part));
      open /= part;
      left /= part;
      if (left == 1)
        left = ++next < digits.size() ? digits[next].size : 1;
    }
    while (!dim.empty() && dim.back().isSerial())
      dim.pop_back();
    dims.push_back(DimAxesAttr::get(context, dim));
  }
  if (next == digits.size())
    return success();
  reason = "expected a dimension to hold " + describe(digits[next]) + ", found none";
  return failure();
}

FailureOr<SmallVector<DimAxesAttr>> fusion::reshapeDims(MeshAttr mesh, ArrayRef<int64_t> from,
                                                        ArrayRef<DimAxesAttr> dims,
                                                        ArrayRef<int64_t> to, std::string &reason) {
  FailureOr<SmallVector<ReshapeGroup>> groups = getReshapeGroups(from, to);
  if (failed(groups)) {
    reason = "expected shapes whose dimensions split and merge in groups, found [" +
             formatShape(from) + "] and [" + formatShape(to) + "]";
    return failure();
  }
  MLIRContext *context = mesh.getContext();
  SmallVector<DimAxesAttr> result;
  for (const ReshapeGroup &group : *groups) {
    auto groupDims = dims.slice(group.fromBegin, group.fromEnd - group.fromBegin);
    auto groupTo = to.slice(group.toBegin, group.toEnd - group.toBegin);
    if (groupDims.size() == 1 && groupTo.size() == 1) {
      result.push_back(groupDims.front());
      continue;
    }
    if (llvm::all_of(groupDims, [](DimAxesAttr dim) { return dim.getDigits().empty(); })) {
      result.append(groupTo.size(), DimAxesAttr::get(context, {}));
      continue;
    }
    // Where no element can change its device, the first empty dimension is split over all devices.
    if (llvm::is_contained(groupTo, 0)) {
      SmallVector<Digit> devices;
      for (DimAxesAttr dim : groupDims)
        llvm::copy_if(dim.getDigits(), std::back_inserter(devices),
                      [](const Digit &digit) { return digit.isDevice(); });
      for (int64_t extent : groupTo) {
        result.push_back(
            DimAxesAttr::get(context, extent == 0 ? ArrayRef(devices) : ArrayRef<Digit>()));
        if (extent == 0)
          devices.clear();
      }
      continue;
    }
    SmallVector<ResolvedDigit> digits;
    for (auto [i, dim] : llvm::enumerate(groupDims)) {
      FailureOr<SmallVector<ResolvedDigit>> resolved =
          resolveDim(dim, from[group.fromBegin + i], mesh);
      if (failed(resolved)) {
        reason = "expected known extents and mesh sizes where a dimension with digits is reshaped, "
                 "found '?'";
        return failure();
      }
      for (ResolvedDigit &digit : *resolved) {
        // Slices that are not alike end where their dimension does.
        if (digit.ragged)
          digit = {DigitKind::Serial, {}, digit.ragged, 1};
        // A digit of size 1 says nothing, unless it is a mesh axis.
        if (digit.kind == DigitKind::Serial && !digits.empty() &&
            digits.back().kind == DigitKind::Serial)
          digits.back().size *= digit.size;
        else if (digit.size != 1 || digit.kind == DigitKind::Device)
          digits.push_back(digit);
      }
    }
    if (failed(distribute(context, digits, groupTo, result, reason)))
      return failure();
  }
  return result;
}
