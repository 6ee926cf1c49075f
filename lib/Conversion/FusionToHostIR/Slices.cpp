//===- Slices.cpp - views of the pieces that one iteration handles -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Slices.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace mlir::tandem;

LocalDims tandem::getLocalDims(RankedTensorType type, const SliceIndex *index) {
  LocalDims dims;
  size_t stream = 0;
  fusion::AxesAttr axes = fusion::getAxes(type);
  for (auto [dim, extent] : llvm::zip_equal(axes.getDims(), type.getShape())) {
    SmallVector<LocalDigit> &local = dims.emplace_back();
    auto digits = fusion::resolveDim(dim, extent, axes.getMesh());
    if (failed(digits))
      continue;
    int64_t label = 0;
    for (const fusion::ResolvedDigit &digit : *digits) {
      if (digit.kind == fusion::DigitKind::Device)
        continue;
      if (digit.kind == fusion::DigitKind::Stream && index) {
        for (const IndexPart &part : index->digits[stream])
          local.push_back({part.size, part.value, 0});
      } else {
        local.push_back({digit.size, {}, label});
      }
      ++label;
      stream += digit.kind == fusion::DigitKind::Stream;
    }
  }
  return dims;
}

SliceIndex tandem::getSliceIndex(OpBuilder &builder, Location loc, ArrayRef<int64_t> sizes,
                                 Value iteration) {
  SliceIndex index;
  index.digits.resize(sizes.size());
  Value rest = iteration;
  for (size_t i = sizes.size(); i-- > 0;) {
    Value digit = rest;
    if (i > 0) {
      Value size = arith::ConstantIndexOp::create(builder, loc, sizes[i]);
      digit = arith::RemUIOp::create(builder, loc, rest, size);
      rest = arith::DivUIOp::create(builder, loc, rest, size);
    }
    index.digits[i].push_back({sizes[i], digit});
  }
  return index;
}

namespace {
/// A run of digits of one buffer dimension: taken at `index`, or kept whole.
struct Run {
  int64_t size;
  Value index;
  int64_t label;
};

/// One dimension of the buffer once non-contiguous dimensions are split: `kept` indices from `index
/// * kept` on (from the start without index); of a dimension of which nothing is kept, `kept` is 1
/// and `vanishes` is set.
struct Piece {
  int64_t extent;
  int64_t kept;
  Value index;
  int64_t label = 0;
  bool vanishes = false;
};
} // namespace

/// Merges neighbouring digits: fixed ones into one index, kept ones of consecutive labels into one
/// run.
static SmallVector<Run> mergeDigits(OpBuilder &builder, Location loc, ArrayRef<LocalDigit> digits) {
  SmallVector<Run> runs;
  int64_t lastLabel = 0;
  for (const LocalDigit &digit : digits) {
    if (!runs.empty() && digit.index && runs.back().index) {
      Value size = arith::ConstantIndexOp::create(builder, loc, digit.size);
      Value high = arith::MulIOp::create(builder, loc, runs.back().index, size);
      runs.back().index = arith::AddIOp::create(builder, loc, high, digit.index);
      runs.back().size *= digit.size;
    } else if (!runs.empty() && !digit.index && !runs.back().index &&
               digit.label == lastLabel + 1) {
      runs.back().size *= digit.size;
    } else {
      runs.push_back({digit.size, digit.index, digit.label});
    }
    lastLabel = digit.label;
  }
  return runs;
}

/// The pieces of one dimension. One kept run, one fixed index, or a fixed index before a kept run
/// is one piece: its slice is contiguous. Otherwise the dimension is split, a piece a run.
static SmallVector<Piece> getPieces(ArrayRef<Run> runs, int64_t extent, bool keepRank) {
  if (runs.empty())
    return {{extent, 1, {}, 0, !keepRank}};
  if (runs.size() == 1 && runs[0].index)
    return {{extent, 1, runs[0].index, 0, !keepRank}};
  if (runs.size() == 1)
    return {{extent, extent, {}, runs[0].label}};
  if (runs.size() == 2 && runs[0].index && !runs[1].index)
    return {{extent, runs[1].size, runs[0].index, runs[1].label}};
  SmallVector<Piece> pieces;
  for (const Run &run : runs) {
    if (run.index)
      pieces.push_back({run.size, 1, run.index, 0, true});
    else
      pieces.push_back({run.size, run.size, {}, run.label});
  }
  return pieces;
}

/// A subview says by strides alone which dimensions of extent 1 it drops: whether one that vanishes
/// looks like one that is kept.
static bool vanishingIsAmbiguous(MemRefType full, ArrayRef<Piece> pieces) {
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(full.getStridesAndOffset(strides, offset)))
    return false;
  for (auto [piece, stride] : llvm::zip_equal(pieces, strides))
    for (auto [other, otherStride] : llvm::zip_equal(pieces, strides))
      if (piece.vanishes && !other.vanishes && other.kept == 1 && stride == otherStride)
        return true;
  return false;
}

/// Each kept piece with the vanishing ones behind it, and those before the first with that.
static SmallVector<ReassociationIndices> getGroupsOfKept(ArrayRef<Piece> pieces) {
  SmallVector<ReassociationIndices> groups;
  bool sawKept = false;
  for (auto [i, piece] : llvm::enumerate(pieces)) {
    if (groups.empty() || (!piece.vanishes && sawKept))
      groups.emplace_back();
    sawKept |= !piece.vanishes;
    groups.back().push_back(i);
  }
  return groups;
}

/// The subview that takes the pieces, without the dimensions that vanish.
static Value takePieces(OpBuilder &builder, Location loc, Value buffer, ArrayRef<Piece> pieces) {
  SmallVector<OpFoldResult> offsets, sizes;
  SmallVector<int64_t> shape;
  for (const Piece &piece : pieces) {
    if (!piece.index) {
      offsets.push_back(builder.getIndexAttr(0));
    } else if (piece.kept == 1) {
      offsets.push_back(piece.index);
    } else {
      Value size = arith::ConstantIndexOp::create(builder, loc, piece.kept);
      offsets.push_back(arith::MulIOp::create(builder, loc, piece.index, size).getResult());
    }
    sizes.push_back(builder.getIndexAttr(piece.kept));
    if (!piece.vanishes)
      shape.push_back(piece.kept);
  }
  SmallVector<OpFoldResult> strides(pieces.size(), builder.getIndexAttr(1));
  auto bufferType = cast<MemRefType>(buffer.getType());
  auto full =
      cast<MemRefType>(memref::SubViewOp::inferResultType(bufferType, offsets, sizes, strides));
  if (vanishingIsAmbiguous(full, pieces)) {
    Value whole = memref::SubViewOp::create(builder, loc, full, buffer, offsets, sizes, strides);
    return memref::CollapseShapeOp::create(builder, loc, whole, getGroupsOfKept(pieces));
  }
  auto type =
      memref::SubViewOp::inferRankReducedResultType(shape, bufferType, offsets, sizes, strides);
  return memref::SubViewOp::create(builder, loc, cast<MemRefType>(type), buffer, offsets, sizes,
                                   strides);
}

SmallVector<int64_t> tandem::getViewRanks(const LocalDims &dims) {
  return llvm::map_to_vector(dims, [](ArrayRef<LocalDigit> digits) {
    int64_t runs = 0;
    for (size_t i = 0; i < digits.size(); ++i)
      if (!digits[i].index)
        runs += i == 0 || digits[i - 1].index || digits[i].label != digits[i - 1].label + 1;
    return std::max<int64_t>(runs, 1);
  });
}

Value tandem::makeView(OpBuilder &builder, Location loc, Value buffer, const LocalDims &dims,
                       bool keepRank) {
  auto type = cast<MemRefType>(buffer.getType());
  SmallVector<Piece> pieces;
  SmallVector<ReassociationIndices> groups;
  for (auto [digits, extent] : llvm::zip_equal(dims, type.getShape())) {
    ReassociationIndices &group = groups.emplace_back();
    for (Piece &piece : getPieces(mergeDigits(builder, loc, digits), extent, keepRank)) {
      group.push_back(pieces.size());
      pieces.push_back(piece);
    }
  }

  if (pieces.size() > groups.size()) {
    SmallVector<int64_t> shape =
        llvm::map_to_vector(pieces, [](const Piece &piece) { return piece.extent; });
    auto expanded = memref::ExpandShapeOp::computeExpandedType(type, shape, groups);
    buffer = memref::ExpandShapeOp::create(builder, loc, *expanded, buffer, groups);
  }
  if (llvm::any_of(pieces, [](const Piece &p) { return p.index || p.vanishes; }))
    buffer = takePieces(builder, loc, buffer, pieces);

  llvm::erase_if(pieces, [](const Piece &piece) { return piece.vanishes; });
  auto *front = llvm::find_if(pieces, [](const Piece &p) { return p.label == kFrontLabel; });
  unsigned position = front - pieces.begin();
  if (position == 0 || position == pieces.size())
    return buffer;
  SmallVector<unsigned> permutation{position};
  for (unsigned i = 0; i < pieces.size(); ++i)
    if (i != position)
      permutation.push_back(i);
  return memref::TransposeOp::create(
      builder, loc, buffer,
      AffineMapAttr::get(AffineMap::getPermutationMap(permutation, builder.getContext())));
}
