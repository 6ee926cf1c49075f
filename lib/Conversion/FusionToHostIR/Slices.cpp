//===- Slices.cpp - views of the pieces that one iteration handles -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Slices.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Dialect/HostIR/IR/HostIRUtils.h"

using namespace mlir;
using namespace tandem;

LocalDigit tandem::getRaggedDigit(const fusion::ResolvedDigit &digit, Value index, bool isShort,
                                  DigitLabel label) {
  LocalDigit local{digit.ragged, index, label};
  if (!index)
    return local;
  local.chunk = digit.stride;
  local.length = isShort ? digit.ragged - (digit.size - 1) * digit.stride : digit.stride;
  return local;
}

/// Appends a kept digit. The inside of several slices makes one run with them.
static void appendWhole(SmallVectorImpl<LocalDigit> &digits, int64_t size, DigitLabel label) {
  auto outer =
      llvm::find_if(llvm::reverse(digits), [](const LocalDigit &d) { return d.size != 1; });
  if (outer == digits.rend() || !outer->chunk) {
    digits.push_back({size, {}, label});
    return;
  }
  outer->size *= size;
  outer->chunk *= size;
  outer->length *= size;
}

FailureOr<SmallVector<SliceDigit>>
tandem::getSliceDigits(fusion::DimAxesAttr dim, int64_t extent, MeshAttr mesh,
                       ArrayRef<SmallVector<IndexPart>> &streams) {
  auto resolved = fusion::resolveDim(dim, extent, mesh);
  if (failed(resolved))
    return failure();
  SmallVector<SliceDigit> digits;
  int64_t label = 0;
  for (const fusion::ResolvedDigit &digit : *resolved) {
    if (digit.kind == fusion::DigitKind::Device) {
      digits.push_back({{digit.size, {}}, digit.stride, digit.axis});
      continue;
    }
    bool isSliced = digit.kind == fusion::DigitKind::Stream && !streams.empty();
    if (digit.ragged) {
      const IndexPart *part = isSliced ? &streams.front().front() : nullptr;
      digits.push_back(
          {getRaggedDigit(digit, part ? part->value : Value(), part && part->isShort, label),
           /*stride=*/1});
    } else if (isSliced) {
      int64_t stride = digit.stride * digit.size;
      for (const IndexPart &part : streams.front()) {
        stride /= part.size;
        bool isKept = part.count > 1;
        LocalDigit local{part.size, part.value, isKept ? label : 0};
        if (isKept) {
          local.chunk = 1;
          local.length = part.count;
        }
        digits.push_back({local, stride});
      }
    } else {
      digits.push_back({{digit.size, {}, label}, digit.stride});
    }
    if (isSliced)
      streams = streams.drop_front();
    ++label;
  }
  return digits;
}

SmallVector<LocalDigit> tandem::getLocalDigits(ArrayRef<SliceDigit> digits) {
  SmallVector<LocalDigit> locals;
  for (const auto &[local, stride, axis] : digits)
    if (axis)
      continue;
    else if (local.index || local.chunk)
      locals.push_back(local);
    else
      appendWhole(locals, local.size, local.label);
  return locals;
}

LocalDims tandem::getLocalDims(RankedTensorType type, const SliceIndex *index) {
  LocalDims dims;
  ArrayRef<SmallVector<IndexPart>> streams;
  if (index)
    streams = index->digits;
  fusion::AxesAttr axes = fusion::getAxes(type);
  for (auto [dim, extent] : llvm::zip_equal(axes.getDims(), type.getShape())) {
    auto digits = getSliceDigits(dim, extent, axes.getMesh(), streams);
    dims.push_back(succeeded(digits) ? getLocalDigits(*digits) : SmallVector<LocalDigit>());
  }
  return dims;
}

SliceIndex tandem::getSliceIndex(OpBuilder &builder, Location loc, ArrayRef<int64_t> sizes,
                                 Value iteration) {
  SliceIndex index;
  index.digits.resize(sizes.size());
  hostir::IndexBuilder math(builder, loc);
  Value rest = iteration;
  for (size_t i = sizes.size(); i-- > 0;) {
    index.digits[i].push_back({sizes[i], i > 0 ? math.mod(rest, sizes[i]) : rest});
    if (i > 0)
      rest = math.div(rest, sizes[i]);
  }
  return index;
}

namespace {
/// A run of digits of one buffer dimension: one fixed index (`kept` is 1 and `vanishes` is set), or
/// `kept` indices from `offset` on (null: all).
struct Run {
  int64_t size;
  Value offset;
  int64_t kept;
  DigitLabel label;
  bool vanishes = false;
};

/// One dimension of the buffer after splitting non-contiguous dimensions: `kept` indices from
/// `offset` on (null: from 0). If nothing is kept, `kept` is 1 and `vanishes` is set.
struct Piece {
  int64_t extent;
  int64_t kept;
  Value offset;
  DigitLabel label = {};
  bool vanishes = false;
};
} // namespace

/// Merges adjacent digits: fixed ones into one index, kept ones with consecutive labels into one
/// run.
static SmallVector<Run> mergeDigits(OpBuilder &builder, Location loc, ArrayRef<LocalDigit> digits) {
  hostir::IndexBuilder math(builder, loc);
  SmallVector<Run> runs;
  DigitLabel lastLabel;
  for (const LocalDigit &digit : digits) {
    Run *last = runs.empty() ? nullptr : &runs.back();
    if (digit.index && digit.chunk) {
      runs.push_back({digit.size, math.mul(digit.index, digit.chunk), digit.length, digit.label});
    } else if (last && digit.index && last->vanishes) {
      last->offset = math.linear(last->offset, digit.size, digit.index);
      last->size *= digit.size;
    } else if (last && !digit.index && !last->offset && digit.label.follows(lastLabel)) {
      last->size *= digit.size;
      last->kept = last->size;
    } else {
      bool isKept = !digit.index;
      runs.push_back({digit.size, digit.index, isKept ? digit.size : 1,
                      isKept ? digit.label : DigitLabel(), !isKept});
    }
    lastLabel = digit.label;
  }
  return runs;
}

/// The pieces of one dimension. A kept run, a fixed index, or a fixed index before a kept run is
/// one piece, since its slice is contiguous. Otherwise the dimension is split into one piece per
/// run.
static SmallVector<Piece> getPieces(OpBuilder &builder, Location loc, ArrayRef<Run> runs,
                                    int64_t extent, bool keepRank) {
  if (runs.empty())
    return {{extent, 1, {}, 0, !keepRank}};
  if (runs.size() == 1)
    return {{extent, runs[0].kept, runs[0].offset, runs[0].label, runs[0].vanishes && !keepRank}};
  if (runs.size() == 2 && runs[0].vanishes && !runs[1].vanishes) {
    hostir::IndexBuilder math(builder, loc);
    Value offset = math.add(runs[1].offset, math.mul(runs[0].offset, runs[1].size));
    return {{extent, runs[1].kept, offset, runs[1].label}};
  }
  SmallVector<Piece> pieces;
  for (const Run &run : runs)
    pieces.push_back({run.size, run.kept, run.offset, run.label, run.vanishes});
  return pieces;
}

/// A subview identifies dropped dimensions of extent 1 only by strides: whether a vanishing
/// dimension looks like a kept one.
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

/// Each kept piece with the vanishing ones after it; leading vanishing ones join the first.
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

/// The subview of the pieces, without the vanishing dimensions.
static Value takePieces(OpBuilder &builder, Location loc, Value buffer, ArrayRef<Piece> pieces) {
  SmallVector<OpFoldResult> offsets, sizes;
  SmallVector<int64_t> shape;
  for (const Piece &piece : pieces) {
    offsets.push_back(piece.offset ? getAsOpFoldResult(piece.offset)
                                   : OpFoldResult(builder.getIndexAttr(0)));
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
  if (shape.size() == pieces.size())
    return memref::SubViewOp::create(builder, loc, full, buffer, offsets, sizes, strides);
  // The shape does not tell which of several extents of 1 vanish.
  SmallVector<int64_t> allStrides, keptStrides;
  int64_t offset;
  if (failed(full.getStridesAndOffset(allStrides, offset)))
    return {};
  for (auto [piece, stride] : llvm::zip_equal(pieces, allStrides))
    if (!piece.vanishes)
      keptStrides.push_back(stride);
  auto layout = StridedLayoutAttr::get(builder.getContext(), offset, keptStrides);
  auto type = MemRefType::get(shape, full.getElementType(), layout, full.getMemorySpace());
  return memref::SubViewOp::create(builder, loc, type, buffer, offsets, sizes, strides);
}

SmallVector<int64_t> tandem::getViewRanks(const LocalDims &dims) {
  return llvm::map_to_vector(dims, [](ArrayRef<LocalDigit> digits) {
    int64_t runs = 0;
    for (size_t i = 0; i < digits.size(); ++i)
      if (digits[i].isKept())
        runs += i == 0 || digits[i - 1].index || digits[i].index ||
                !digits[i].label.follows(digits[i - 1].label);
    return std::max<int64_t>(runs, 1);
  });
}

Value tandem::insertUnitDim(OpBuilder &builder, Location loc, Value view, int64_t position) {
  auto type = cast<MemRefType>(view.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape.insert(shape.begin() + position, 1);
  SmallVector<ReassociationIndices> groups;
  // It joins the dimension before it, or else the first one.
  for (int64_t i = 0; i < type.getRank(); ++i) {
    ReassociationIndices &group = groups.emplace_back();
    if (position == 0 && i == 0)
      group.push_back(0);
    group.push_back(i < position ? i : i + 1);
    if (i + 1 == position)
      group.push_back(position);
  }
  auto expanded = memref::ExpandShapeOp::computeExpandedType(type, shape, groups);
  return memref::ExpandShapeOp::create(builder, loc, *expanded, view, groups);
}

Value tandem::makeView(OpBuilder &builder, Location loc, Value buffer, const LocalDims &dims,
                       bool keepRank) {
  auto type = cast<MemRefType>(buffer.getType());
  SmallVector<Piece> pieces;
  SmallVector<ReassociationIndices> groups;
  for (auto [digits, extent] : llvm::zip_equal(dims, type.getShape())) {
    ReassociationIndices &group = groups.emplace_back();
    for (Piece &piece :
         getPieces(builder, loc, mergeDigits(builder, loc, digits), extent, keepRank)) {
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
  if (llvm::any_of(pieces, [](const Piece &p) { return p.offset || p.vanishes; }))
    buffer = takePieces(builder, loc, buffer, pieces);

  llvm::erase_if(pieces, [](const Piece &piece) { return piece.vanishes; });
  auto *front = llvm::find_if(pieces, [](const Piece &p) { return p.label.isRank(); });
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

Value tandem::reinterpret(OpBuilder &builder, Location loc, Value buffer, int64_t offset,
                          ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  auto type = cast<MemRefType>(buffer.getType());
  MemRefLayoutAttrInterface layout;
  if (offset != 0 || computeStrides(shape) != strides)
    layout = StridedLayoutAttr::get(builder.getContext(), offset, strides);
  auto result = MemRefType::get(shape, type.getElementType(), layout, type.getMemorySpace());
  return memref::ReinterpretCastOp::create(builder, loc, result, buffer, offset, shape, strides);
}
