//===- ReshapeOp.cpp - fusion.reshape -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "mlir/IR/PatternMatch.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/ReshapeShapes.h"
#include "tandem/Support/VaryingAttrs.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

namespace {
/// Dimensions [fromBegin, fromEnd) of one shape hold the same elements as [toBegin, toEnd) of the
/// other.
struct ReshapeGroup {
  int64_t fromBegin, fromEnd, toBegin, toEnd;
};

/// One side of the walk: the ungrouped dimensions from `next` in direction `step`.
struct Cursor {
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
static bool takeGroup(Cursor &from, Cursor &to) {
  if (from.blocked() || to.blocked())
    return false;
  Cursor a = from, b = to;
  int64_t productA = a.take(), productB = b.take();
  while (productA != productB) {
    Cursor &smaller = productA < productB ? a : b;
    int64_t &product = productA < productB ? productA : productB;
    if (smaller.blocked() || llvm::MulOverflow(product, smaller.take(), product))
      return false;
  }
  from = a;
  to = b;
  return true;
}

/// The finest groups that cover both shapes, in order. Fails if dynamic extents leave them open, or
/// the numbers of elements differ. Example: 8x6x5 and 2x24x5 have the groups 8x6 -> 2x24 and 5
/// -> 5.
static FailureOr<SmallVector<ReshapeGroup>> getReshapeGroups(ArrayRef<int64_t> from,
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
  Cursor a{from, 0, n, 1}, b{to, 0, m, 1};
  for (Cursor a0 = a, b0 = b; takeGroup(a, b); a0 = a, b0 = b)
    groups.push_back({a0.next, a.next, b0.next, b.next});
  Cursor c{from, n - 1, a.next - 1, -1}, d{to, m - 1, b.next - 1, -1};
  for (Cursor c0 = c, d0 = d; takeGroup(c, d); c0 = c, d0 = d)
    tail.push_back({c.next + 1, c0.next + 1, d.next + 1, d0.next + 1});
  // The rest is static extents of 1, which fit any neighbour, or dynamic extents.
  ReshapeGroup rest{a.next, c.next + 1, b.next, d.next + 1};
  ArrayRef<int64_t> restFrom = from.slice(rest.fromBegin, rest.fromEnd - rest.fromBegin);
  ArrayRef<int64_t> restTo = to.slice(rest.toBegin, rest.toEnd - rest.toBegin);
  auto dynamics = [](ArrayRef<int64_t> s) { return llvm::count(s, ShapedType::kDynamic); };
  if (!restFrom.empty() || !restTo.empty()) {
    bool isOneOpen = dynamics(restFrom) == 1 && dynamics(restTo) == 1;
    bool pairs = restFrom.size() == restTo.size() &&
                 llvm::all_of(llvm::zip(restFrom, restTo), [&](auto pair) {
                   auto [a, b] = pair;
                   return isOneOpen ? a == b : shapes::areCompatible(a, b);
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

/// Number of elements; none if unknown or too large.
static std::optional<int64_t> countElements(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    if (ShapedType::isDynamic(extent) || llvm::MulOverflow(count, extent, count))
      return std::nullopt;
  return count;
}

FailureOr<SmallVector<int64_t>>
fusion::inferReshapedShape(ArrayRef<int64_t> from, ArrayRef<int64_t> to, std::string &reason) {
  SmallVector<int64_t> shape(to);
  FailureOr<SmallVector<ReshapeGroup>> groups = getReshapeGroups(from, to);
  if (failed(groups)) {
    reason = "expected dimensions that split and merge in groups of equal size, found [" +
             formatShape(from) + "] and [" + formatShape(to) + "]";
    return failure();
  }
  for (const ReshapeGroup &group : *groups) {
    auto groupFrom = from.slice(group.fromBegin, group.fromEnd - group.fromBegin);
    auto groupTo = MutableArrayRef(shape).slice(group.toBegin, group.toEnd - group.toBegin);
    int64_t *open = llvm::find(groupTo, ShapedType::kDynamic);
    std::optional<int64_t> count = countElements(groupFrom);
    if (open == groupTo.end() || !count || llvm::count(groupTo, ShapedType::kDynamic) != 1)
      continue;
    *open = 1;
    std::optional<int64_t> known = countElements(groupTo);
    if (!known || *known == 0 || *count % *known != 0) {
      reason = "expected " + std::to_string(*count) +
               " elements in dimensions that hold a multiple of " +
               std::to_string(known.value_or(0));
      return failure();
    }
    *open = *count / *known;
  }
  return shape;
}

LogicalResult ReshapeOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  std::string reason;
  FailureOr<SmallVector<int64_t>> shape =
      inferReshapedShape(getInput().getType().getShape(), getType().getShape(), reason);
  if (failed(shape))
    return emitOpError() << reason;
  shapes.push_back(std::move(*shape));
  return success();
}

LogicalResult ReshapeOp::verify() {
  // With `?` the groups say more.
  SmallVector<SmallVector<int64_t>> shapes;
  if ((getType().hasStaticShape() &&
       failed(appendShape(*this, shapes::reshape(shapeOf(getInput()), shapeOf(getResult())),
                          shapes))) ||
      failed(inferResultShapes(shapes)))
    return failure();
  return verifyElementType(*this, "the result", getType(), getInput().getType().getElementType());
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType() && getType().hasStaticShape())
    return getInput();
  return {};
}

namespace {
/// Merges two reshapes if the value between them has no placement of its own.
struct MergeReshapes : public OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto first = op.getInput().getDefiningOp<ReshapeOp>();
    if (!first || !isTransparent(first) || op->hasAttr(kVaryingAttrName) ||
        !fusion::getAxes(first.getInput()) != !fusion::getAxes(op.getType()) ||
        failed(getReshapeGroups(first.getInput().getType().getShape(), op.getType().getShape())))
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.getInputMutable().assign(first.getInput()); });
    return success();
  }
};
} // namespace

void ReshapeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MergeReshapes>(context);
}

namespace {
/// Cuts the dimensions of both sides of a reshape into common pieces, as far as they exist.
class Factorizer {
public:
  Factorizer(ArrayRef<int64_t> from, ArrayRef<int64_t> to)
      : a{SmallVector<int64_t>(from), {}, {}, {}}, b{SmallVector<int64_t>(to), {}, {}, {}} {}

  AxesRule run() {
    FailureOr<SmallVector<ReshapeGroup>> groups = getReshapeGroups(a.open, b.open);
    if (failed(groups))
      groups = SmallVector<ReshapeGroup>{
          {0, static_cast<int64_t>(a.open.size()), 0, static_cast<int64_t>(b.open.size())}};
    for (const ReshapeGroup &group : *groups)
      cut(group);
    for (Side *side : {&a, &b}) {
      (side == &a ? rule.operandPieces : rule.resultPieces).push_back(std::move(side->pieces));
      (side == &a ? rule.operands : rule.results).push_back(std::move(side->factors));
    }
    return std::move(rule);
  }

private:
  /// One side: the uncut part of each dimension's extent, and the pieces with their factors.
  struct Side {
    SmallVector<int64_t> open;
    SmallVector<DimPiece> pieces;
    SmallVector<int64_t> factors;
    SmallVector<std::pair<DimPiece, int64_t>> tail; // of the group, innermost first

    void add(DimPiece piece, int64_t factor) {
      pieces.push_back(piece);
      factors.push_back(factor);
    }
  };

  int64_t addFactor(FactorKind kind) {
    rule.factors.push_back(kind);
    return static_cast<int64_t>(rule.factors.size()) - 1;
  }
  /// Cuts off the common factor of two open extents; false if it is 1.
  bool share(int64_t dimA, int64_t dimB, bool atTail) {
    int64_t &openA = a.open[dimA], &openB = b.open[dimB];
    int64_t common = std::gcd(openA, openB);
    if (common == 1 && openA != 1 && openB != 1)
      return false;
    int64_t factor = addFactor(FactorKind::Parallel);
    if (atTail) {
      a.tail.push_back({{dimA, common}, factor});
      b.tail.push_back({{dimB, common}, factor});
    } else {
      a.add({dimA, common}, factor);
      b.add({dimB, common}, factor);
    }
    openA /= common;
    openB /= common;
    return true;
  }

  void cut(const ReshapeGroup &group) {
    auto [beginA, endA, beginB, endB] = group;
    if (endA - beginA == 1 && endB - beginB == 1) {
      int64_t factor = addFactor(FactorKind::Parallel);
      a.add({beginA, a.open[beginA]}, factor);
      b.add({beginB, b.open[beginB]}, factor);
      return;
    }
    auto isKnown = [](int64_t extent) { return extent > 0; };
    bool known = llvm::all_of(ArrayRef(a.open).slice(beginA, endA - beginA), isKnown) &&
                 llvm::all_of(ArrayRef(b.open).slice(beginB, endB - beginB), isKnown);
    int64_t i = beginA, j = beginB, lastA = endA, lastB = endB;
    // A dimension of extent 1 shares a factor of 1 with its neighbour.
    while (known && i < lastA && j < lastB && share(i, j, false)) {
      i += a.open[i] == 1;
      j += b.open[j] == 1;
    }
    while (known && i < lastA && j < lastB && share(lastA - 1, lastB - 1, true)) {
      lastA -= a.open[lastA - 1] == 1;
      lastB -= b.open[lastB - 1] == 1;
    }
    // Trailing extents of 1 join the other side's last dimension: a mesh axis of one device may
    // split them.
    while (known && j == endB && endB > beginB && i < endA && share(i, endB - 1, false))
      ++i;
    while (known && i == endA && endA > beginA && j < endB && share(endA - 1, j, false))
      ++j;
    finish(a, i, lastA);
    finish(b, j, lastB);
  }

  /// The rest of dimensions [begin, end) is cut differently on the other side.
  void finish(Side &side, int64_t begin, int64_t end) {
    for (int64_t dim = begin; dim < end; ++dim)
      side.add({dim, side.open[dim]}, addFactor(FactorKind::Whole));
    for (auto &[piece, factor] : llvm::reverse(side.tail))
      side.add(piece, factor);
    side.tail.clear();
  }

  AxesRule rule;
  Side a, b;
};
} // namespace

AxesRule ReshapeOp::getAxesRule() {
  SmallVector<int64_t> from(getInput().getType().getShape()), to(getType().getShape());
  // A number that no other extent is a multiple of, so that varying dimensions only match each
  // other.
  constexpr int64_t kPrime = 2'147'483'647;
  if (auto varying = (*this)->getAttrOfType<ArrayAttr>(kVaryingAttrName))
    for (auto [shape, dims] : {std::pair(&from, varying[0]), std::pair(&to, varying[1])})
      for (int64_t dim : cast<DenseI64ArrayAttr>(dims).asArrayRef())
        (*shape)[dim] = kPrime;
  return Factorizer(from, to).run();
}
