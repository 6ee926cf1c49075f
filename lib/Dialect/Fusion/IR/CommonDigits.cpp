//===- CommonDigits.cpp - both sides of a reshard in common digits -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReshardDetail.h"

#include "tandem/Dialect/Fusion/IR/Placement.h"
#include <numeric>

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// Limit on the pieces of unequal slices, since each is a part of the program's text.
static constexpr int64_t kMaxSegments = 1024;

namespace {
class CommonDigits {
public:
  CommonDigits(ReshardOp op, ArrayRef<SmallVector<StreamPart>> streams)
      : op(op), streams(streams) {}

  /// Appends the digits of a dimension; call for each dimension in order.
  Obstacle read(int64_t dim, SmallVectorImpl<CommonDigit> &digits);

private:
  Obstacle readSides(int64_t dim, SmallVectorImpl<SideDigit> &from, SmallVectorImpl<SideDigit> &to);
  Explained<CommonDigit> cutUnevenly(int64_t dim, ArrayRef<SideDigit> from, ArrayRef<SideDigit> to);

  ReshardOp op;
  ArrayRef<SmallVector<StreamPart>> streams;
  size_t nextStream = 0; // in the target's stream digits
};
} // namespace

static bool isRagged(const SideDigit &digit) { return digit.chunk != 0; }

/// Cuts the outermost `size` indices off `side` and returns them.
static SideDigit cut(SideDigit &side, int64_t size) {
  SideDigit outer = side;
  outer.size = size;
  if (side.size == size) {
    side.size = 1;
    return outer;
  }
  int64_t inner = side.size / size;
  outer.inner *= inner;
  side.outer *= size;
  side.size = inner;
  return outer;
}

/// Cuts digits off both sides until equally many indices are gone, if neither's first digit divides
/// the other's. Ends at the latest with the last digits.
static CommonDigit cross(int64_t dim, MutableArrayRef<SideDigit> &from,
                         MutableArrayRef<SideDigit> &to) {
  CommonDigit digit{dim, {}, {}};
  int64_t taken = 1, takenOther = 1;
  auto take = [&](MutableArrayRef<SideDigit> &side, SmallVectorImpl<SideDigit> &parts,
                  int64_t &mine, int64_t other) {
    // Take only as much of the digit as needed.
    int64_t size = std::gcd(other / std::gcd(mine, other), side.front().size);
    if (size == 1)
      size = side.front().size;
    parts.push_back(cut(side.front(), size));
    mine *= size;
    if (side.front().size == 1)
      side = side.drop_front();
  };
  do {
    if (taken <= takenOther)
      take(from, digit.sourceParts, taken, takenOther);
    else
      take(to, digit.targetParts, takenOther, taken);
  } while (taken != takenOther);
  digit.source.size = digit.target.size = taken;
  return digit;
}

/// The rest of both sides if the target's last slices are unequal: cut at the ends of slices and of
/// contiguous runs of the source.
Explained<CommonDigit> CommonDigits::cutUnevenly(int64_t dim, ArrayRef<SideDigit> from,
                                                 ArrayRef<SideDigit> to) {
  CommonDigit digit{dim, {}, {}};
  digit.target = to.back();
  to = to.drop_back();
  digit.source = SideDigit();
  if (from.back().kind == DigitKind::Serial) {
    digit.source = from.back();
    from = from.drop_back();
  }
  digit.sourceParts.assign(from.begin(), from.end());
  digit.targetParts.assign(to.begin(), to.end());
  int64_t run = digit.source.size, sliced = digit.target.size, chunk = digit.target.chunk;
  int64_t total = sliced;
  for (const SideDigit &part : to)
    total *= part.size;
  for (int64_t at = 0; at < total;) {
    Segment segment;
    segment.block = at / run;
    segment.offset = at % run;
    segment.targetBlock = at / sliced;
    segment.slice = at % sliced / chunk;
    segment.sliceOffset = at % sliced % chunk;
    int64_t sliceEnd = std::min(sliced, (segment.slice + 1) * chunk) + segment.targetBlock * sliced;
    int64_t end = std::min(sliceEnd, (segment.block + 1) * run);
    segment.length = end - at;
    at = end;
    digit.segments.push_back(segment);
    if (static_cast<int64_t>(digit.segments.size()) > kMaxSegments)
      return explain(op) << "dimension " << dim << ": slices of " << chunk
                         << " indices that are not all alike fall into more than " << kMaxSegments
                         << " pieces on the operand's devices; expected slices that all have one "
                            "size, or larger blocks on the devices";
  }
  return digit;
}

/// The digits of the operand's dimension and of the result's.
Obstacle CommonDigits::readSides(int64_t dim, SmallVectorImpl<SideDigit> &from,
                                 SmallVectorImpl<SideDigit> &to) {
  RankedTensorType sourceType = op.getInput().getType(), targetType = op.getResult().getType();
  AxesAttr sourceAxes = getAxes(sourceType), targetAxes = getAxes(targetType);
  auto source =
      resolveDim(sourceAxes.getDims()[dim], sourceType.getDimSize(dim), sourceAxes.getMesh());
  auto target =
      resolveDim(targetAxes.getDims()[dim], targetType.getDimSize(dim), targetAxes.getMesh());
  if (failed(source) || failed(target))
    return explain(op) << "dimension " << dim << ": extents must be known here; run "
                       << "fusion-specialize first";

  // Stream digits of the source do not affect its placement.
  auto push = [](SmallVectorImpl<SideDigit> &side, DigitKind kind, const ResolvedDigit &digit) {
    if (kind == DigitKind::Serial && !side.empty() && side.back().kind == DigitKind::Serial)
      side.back().size *= digit.span();
    else
      side.push_back({digit.span(), kind, kind == DigitKind::Device ? digit.axis : StringAttr()});
  };
  for (const ResolvedDigit &digit : *source)
    push(from, digit.kind == DigitKind::Device ? DigitKind::Device : DigitKind::Serial, digit);
  for (const ResolvedDigit &digit : *target) {
    if (digit.kind != DigitKind::Stream) {
      push(to, digit.kind, digit);
      continue;
    }
    int64_t outer = 1;
    for (auto [number, part] : llvm::enumerate(streams[nextStream])) {
      SideDigit side{part.size, DigitKind::Stream, {}, nextStream, number};
      if (digit.ragged) {
        side.size = digit.ragged;
        side.chunk = digit.stride;
        side.length = part.isShort ? digit.ragged - (digit.size - 1) * digit.stride : digit.stride;
      } else {
        side.outer = outer;
        side.inner = digit.size / outer / part.size;
      }
      outer *= part.size;
      if (part.isWhole && !digit.ragged)
        push(to, DigitKind::Serial, digit);
      else
        to.push_back(side);
    }
    ++nextStream;
  }
  return std::nullopt;
}

Obstacle CommonDigits::read(int64_t dim, SmallVectorImpl<CommonDigit> &digits) {
  SmallVector<SideDigit> from, to;
  if (Obstacle why = readSides(dim, from, to))
    return why;
  MutableArrayRef<SideDigit> left(from), right(to);
  auto dropEmpty = [](MutableArrayRef<SideDigit> &side) {
    while (!side.empty() && side.front().size == 1 && side.front().kind == DigitKind::Serial)
      side = side.drop_front();
  };
  while (true) {
    dropEmpty(left);
    dropEmpty(right);
    // Mesh axes of size 1 move nothing but are counted like others, and so are loops of one
    // iteration.
    bool rightIsOne = !right.empty() && right.front().size == 1;
    if (!left.empty() && left.front().size == 1) {
      SideDigit gone = left.consume_front(), other;
      if (rightIsOne && (right.front().isStream() || right.front().axis == gone.axis))
        other = right.consume_front();
      digits.push_back({dim, gone, other});
      continue;
    }
    if (rightIsOne) {
      digits.push_back({dim, SideDigit(), right.consume_front()});
      continue;
    }
    if (left.empty() || right.empty())
      return std::nullopt;
    // An extent of 0 has an innermost digit of 0, which allows any cut.
    int64_t a = left.front().size, b = right.front().size;
    int64_t size = a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
    bool crosses = size != 0 && (a % size || b % size);
    // Unequal slices are cut out of one digit, or are cut themselves.
    bool isUneven = isRagged(right.front()) && size != 0 && (left.front().isDevice() || a % b != 0);
    if (crosses && !isUneven) {
      SmallVector<SideDigit> oldLeft(left), oldRight(right);
      MutableArrayRef<SideDigit> all = left, allRight = right;
      CommonDigit crossed = cross(dim, left, right);
      isUneven = llvm::any_of(crossed.targetParts, isRagged);
      if (!isUneven) {
        digits.push_back(std::move(crossed));
        continue;
      }
      left = all;
      right = allRight;
      llvm::copy(oldLeft, left.begin());
      llvm::copy(oldRight, right.begin());
    }
    if (isUneven) {
      Explained<CommonDigit> uneven = cutUnevenly(dim, left, right);
      if (failed(uneven))
        return uneven.explanation();
      digits.push_back(std::move(*uneven));
      return std::nullopt;
    }
    digits.push_back({dim, cut(left.front(), size), cut(right.front(), size)});
    // A used-up digit must not look like one of size 1.
    if (left.front().size == 1)
      left = left.drop_front();
    if (right.front().size == 1)
      right = right.drop_front();
  }
}

Explained<SmallVector<CommonDigit>>
fusion::getCommonDigits(ReshardOp op, ArrayRef<SmallVector<StreamPart>> streams) {
  CommonDigits sides(op, streams);
  SmallVector<CommonDigit> digits;
  for (int64_t dim = 0; dim < op.getType().getRank(); ++dim)
    if (Obstacle why = sides.read(dim, digits))
      return why;
  return digits;
}
