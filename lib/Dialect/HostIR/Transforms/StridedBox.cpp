//===- StridedBox.cpp - which elements a view takes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StridedBox.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Dialect/HostIR/IR/HostIRUtils.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

void LinearIndex::add(const LinearIndex &other, int64_t factor) {
  constant += other.constant * factor;
  for (auto [value, coefficient] : other.terms)
    terms[value] += coefficient * factor;
  terms.remove_if([](const auto &term) { return term.second == 0; });
}

void LinearIndex::joinDigits() {
  auto findQuotient = [&](arith::RemUIOp remainder, int64_t coefficient) -> Value {
    std::optional<int64_t> count = getConstantIntValue(remainder.getRhs());
    for (auto [value, other] : terms)
      if (auto quotient = value.getDefiningOp<arith::DivUIOp>();
          quotient && count && quotient.getLhs() == remainder.getLhs() &&
          getConstantIntValue(quotient.getRhs()) == count && other == coefficient * *count)
        return value;
    return Value();
  };
  auto joinOne = [&] {
    for (auto [value, coefficient] : terms) {
      auto remainder = value.getDefiningOp<arith::RemUIOp>();
      Value quotient = remainder ? findQuotient(remainder, coefficient) : Value();
      if (!quotient)
        continue;
      int64_t factor = coefficient;
      terms.erase(quotient);
      terms.erase(remainder.getResult());
      add(getLinearIndex(remainder.getLhs()), factor);
      return true;
    }
    return false;
  };
  while (joinOne()) {
  }
}

bool LinearIndex::operator==(const LinearIndex &other) const {
  if (constant != other.constant || terms.size() != other.terms.size())
    return false;
  return llvm::all_of(terms, [&](const auto &term) {
    auto found = other.terms.find(term.first);
    return found != other.terms.end() && found->second == term.second;
  });
}

LinearIndex hostir::getLinearIndex(OpFoldResult index) {
  LinearIndex result;
  if (std::optional<int64_t> constant = getConstantIntValue(index)) {
    result.constant = *constant;
    return result;
  }
  auto value = cast<Value>(index);
  Operation *op = value.getDefiningOp();
  if (isa_and_present<arith::AddIOp, arith::SubIOp>(op)) {
    result = getLinearIndex(op->getOperand(0));
    result.add(getLinearIndex(op->getOperand(1)), isa<arith::AddIOp>(op) ? 1 : -1);
    return result;
  }
  if (isa_and_present<arith::MulIOp>(op))
    for (auto [factor, other] : {std::pair(op->getOperand(1), op->getOperand(0)),
                                 std::pair(op->getOperand(0), op->getOperand(1))})
      if (std::optional<int64_t> constant = getConstantIntValue(factor)) {
        result.add(getLinearIndex(other), *constant);
        return result;
      }
  result.terms[value] = 1;
  return result;
}

//===----------------------------------------------------------------------===//
// Boxes
//===----------------------------------------------------------------------===//

SmallVector<BoxDim> StridedBox::normalized() const {
  SmallVector<BoxDim> sorted;
  for (const BoxDim &dim : dims)
    if (dim.size != 1)
      sorted.push_back(dim);
  llvm::sort(sorted, [](const BoxDim &a, const BoxDim &b) { return a.stride < b.stride; });
  SmallVector<BoxDim> merged;
  for (const BoxDim &dim : sorted) {
    if (!merged.empty() && merged.back().size * merged.back().stride == dim.stride)
      merged.back().size *= dim.size;
    else
      merged.push_back(dim);
  }
  return merged;
}

static std::optional<StridedBox> boxOfRoot(Value root) {
  auto type = cast<MemRefType>(root.getType());
  if (!type.getLayout().isIdentity())
    return std::nullopt;
  StridedBox box;
  int64_t stride = 1;
  for (int64_t extent : llvm::reverse(type.getShape())) {
    box.dims.insert(box.dims.begin(), {extent, stride});
    stride *= extent;
  }
  return box;
}

static std::optional<StridedBox> takeSubview(StridedBox box, memref::SubViewOp op) {
  SmallVector<BoxDim> kept;
  llvm::SmallBitVector dropped = hostir::getDroppedDims(op);
  for (auto [i, dim] : llvm::enumerate(box.dims)) {
    if (op.isDynamicSize(i) || op.isDynamicStride(i))
      return std::nullopt;
    box.offset.add(getLinearIndex(op.getMixedOffsets()[i]), dim.stride);
    if (!dropped.test(i))
      kept.push_back({op.getStaticSize(i), dim.stride * op.getStaticStride(i)});
  }
  box.dims = std::move(kept);
  box.offset.joinDigits();
  return box;
}

static std::optional<StridedBox> expandDims(StridedBox box, memref::ExpandShapeOp op) {
  SmallVector<BoxDim> dims(op.getResultType().getRank(), {1, 1});
  for (auto [group, dim] : llvm::zip_equal(op.getReassociationIndices(), box.dims)) {
    int64_t stride = dim.stride;
    for (int64_t i : llvm::reverse(group)) {
      dims[i] = {op.getResultType().getDimSize(i), stride};
      stride *= dims[i].size;
    }
  }
  box.dims = std::move(dims);
  return box;
}

static std::optional<StridedBox> collapseDims(StridedBox box, memref::CollapseShapeOp op) {
  SmallVector<BoxDim> dims;
  for (const ReassociationIndices &group : op.getReassociationIndices()) {
    BoxDim merged = {1, 1};
    for (int64_t i : llvm::reverse(group)) {
      if (box.dims[i].size == 1)
        continue;
      if (merged.size == 1)
        merged.stride = box.dims[i].stride;
      else if (box.dims[i].stride != merged.stride * merged.size)
        return std::nullopt;
      merged.size *= box.dims[i].size;
    }
    dims.push_back(merged);
  }
  box.dims = std::move(dims);
  return box;
}

/// The cast's sizes and strides, relative to the root buffer.
static std::optional<StridedBox> castBox(memref::ReinterpretCastOp op) {
  StridedBox box;
  if (op.isDynamicOffset(0))
    return std::nullopt;
  box.offset.constant = op.getStaticOffset(0);
  for (unsigned i = 0; i < op.getResultRank(); ++i) {
    // A broadcast repeats elements: not a slice.
    if (op.isDynamicSize(i) || op.isDynamicStride(i) || op.getStaticStride(i) == 0)
      return std::nullopt;
    box.dims.push_back({op.getStaticSize(i), op.getStaticStride(i)});
  }
  return box;
}

std::optional<StridedBox> hostir::computeBox(Value view) {
  Operation *op = view.getDefiningOp();
  auto type = dyn_cast<MemRefType>(view.getType());
  if (!type || !type.hasStaticShape() || llvm::is_contained(type.getShape(), 0))
    return std::nullopt;
  if (!isView(op))
    return boxOfRoot(view);
  std::optional<StridedBox> box = computeBox(op->getOperand(0));
  if (!box)
    return std::nullopt;
  if (auto subview = dyn_cast<memref::SubViewOp>(op))
    return takeSubview(std::move(*box), subview);
  if (auto expand = dyn_cast<memref::ExpandShapeOp>(op))
    return expandDims(std::move(*box), expand);
  if (auto collapse = dyn_cast<memref::CollapseShapeOp>(op))
    return collapseDims(std::move(*box), collapse);
  if (auto transpose = dyn_cast<memref::TransposeOp>(op)) {
    SmallVector<BoxDim> dims;
    AffineMap permutation = transpose.getPermutation();
    for (unsigned i = 0; i < permutation.getNumResults(); ++i)
      dims.push_back(box->dims[permutation.getDimPosition(i)]);
    box->dims = std::move(dims);
    return box;
  }
  if (auto cast = dyn_cast<memref::ReinterpretCastOp>(op))
    return castBox(cast);
  if (isa<memref::CastOp>(op))
    return box;
  return std::nullopt;
}

std::optional<SmallVector<int64_t>> hostir::compactStrides(ArrayRef<BoxDim> normalized,
                                                           ArrayRef<BoxDim> view) {
  SmallVector<int64_t> strides;
  for (const BoxDim &dim : view) {
    if (dim.size == 1) {
      strides.push_back(1);
      continue;
    }
    int64_t dense = 1;
    std::optional<int64_t> stride;
    for (const BoxDim &piece : normalized) {
      int64_t steps = dim.stride / piece.stride;
      if (dim.stride % piece.stride == 0 && steps * dim.size <= piece.size)
        stride = dense * steps;
      dense *= piece.size;
    }
    if (!stride)
      return std::nullopt;
    strides.push_back(*stride);
  }
  return strides;
}
