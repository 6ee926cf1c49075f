//===- CodeViews.cpp - numbering buffers and their views --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeBuilder.h"
#include "tandem/Dialect/HostIR/IR/HostIRUtils.h"
#include "tandem/Support/ElementTypes.h"
#include <algorithm>

using namespace mlir;

namespace tandem::target {

static bool allStatic(ArrayRef<Operand> operands) {
  return llvm::none_of(operands, [](const Operand &o) { return o.isSlot; });
}

FailureOr<bool> CodeBuilder::viewOf(Operation *op) {
  if (auto dim = dyn_cast<memref::DimOp>(op)) {
    if (!isa<MemRefType>(dim.getSource().getType()))
      return false;
    Instr &instr = emitResult(op, Opcode::Dim);
    instr.a = slot(dim.getSource());
    instr.b = slot(dim.getIndex());
    return true;
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    if (!isa<MemRefType>(select.getType()) || !hostir::isIntLike(select.getCondition().getType()))
      return false;
    Instr &instr = emitResult(op, Opcode::SelectView);
    instr.a = slot(select.getCondition());
    instr.b = slot(select.getTrueValue());
    instr.c = slot(select.getFalseValue());
    return true;
  }
  if (op->getNumResults() != 1 || op->getNumOperands() == 0)
    return false;
  Value source = op->getOperand(0);
  auto resultType = dyn_cast<MemRefType>(op->getResult(0).getType());
  if (!resultType || !isa<MemRefType>(source.getType()))
    return false;

  ViewMap map;
  map.op = op;
  map.resultType = resultType;
  map.layoutIsStatic = true;
  if (auto subview = dyn_cast<memref::SubViewOp>(op)) {
    map.transform = ViewMap::Subview;
    map.offsets = operandsOf(subview.getMixedOffsets());
    map.sizes = operandsOf(subview.getMixedSizes());
    map.strides = operandsOf(subview.getMixedStrides());
    map.dropped = hostir::getDroppedDims(subview);
    map.layoutIsStatic = allStatic(map.sizes) && allStatic(map.strides);
  } else if (auto reinterpret = dyn_cast<memref::ReinterpretCastOp>(op)) {
    map.transform = ViewMap::Reinterpret;
    map.offsets = operandsOf(reinterpret.getMixedOffsets());
    map.sizes = operandsOf(reinterpret.getMixedSizes());
    map.strides = operandsOf(reinterpret.getMixedStrides());
    map.layoutIsStatic = allStatic(map.sizes) && allStatic(map.strides);
  } else if (auto transpose = dyn_cast<memref::TransposeOp>(op)) {
    map.transform = ViewMap::Permute;
    AffineMap permutation = transpose.getPermutation();
    for (unsigned d = 0; d < permutation.getNumResults(); ++d)
      map.permutation.push_back(permutation.getDimPosition(d));
  } else if (auto expand = dyn_cast<memref::ExpandShapeOp>(op)) {
    map.transform = ViewMap::Expand;
    llvm::append_range(map.groups, expand.getReassociationIndices());
    map.sizes = operandsOf(
        getMixedValues(expand.getStaticOutputShape(), expand.getOutputShape(), op->getContext()));
    map.layoutIsStatic = allStatic(map.sizes);
  } else if (auto collapse = dyn_cast<memref::CollapseShapeOp>(op)) {
    map.transform = ViewMap::Collapse;
    llvm::append_range(map.groups, collapse.getReassociationIndices());
  } else if (isa<memref::CastOp>(op)) {
    map.transform = ViewMap::Cast;
  } else {
    return false;
  }
  if (!dtypeOf(resultType.getElementType())) {
    op->emitOpError("expected elements of ")
        << kElementTypes << ", found " << resultType.getElementType();
    return failure();
  }
  if (resultType.getRank() > kMaxRank) {
    op->emitOpError("expected a view of at most ")
        << kMaxRank << " dimensions, found " << resultType.getRank();
    return failure();
  }
  Instr &instr = emitResult(op, Opcode::Map);
  instr.a = slot(source);
  instr.b = code->maps.size();
  code->maps.push_back(std::move(map));
  return true;
}

LogicalResult CodeBuilder::allocation(hostir::AllocOp op) {
  auto type = cast<MemRefType>(op.getBuffer().getType());
  std::optional<Layout> layout = denseLayout(type);
  if (!layout)
    return op.emitOpError("expected a buffer of static shape with at most ")
           << kMaxRank << " dimensions and 2^60 elements, found " << type;
  if (!op.getOffset())
    return op.emitOpError("has no offset in the arena (run hostir-plan-buffers first)");
  bool symmetric = hostir::isSymmetric(type);
  int64_t arena = (symmetric ? program.getSymmetricBytes() : program.getArenaBytes()).value_or(0);
  int64_t offset = *op.getOffset(), pitch = op.getPitch().value_or(0),
          bytes = static_cast<int64_t>(layout->numBytes());
  constexpr int64_t farBefore = -(int64_t(1) << 56);
  if ((offset < 0 && pitch == 0) || offset < farBefore || pitch < 0 || offset % 64 != 0 ||
      pitch % 64 != 0)
    return op.emitOpError("expected offset and pitch that are multiples of 64 and not negative "
                          "(offset may be negative with a pitch), found ")
           << offset << " and " << pitch;
  // A loop with fewer iterations than workers has fewer slots; one that begins with a later worker
  // has none for earlier workers.
  int64_t first = offset < 0 ? (pitch - 1 - offset) / pitch : 0;
  offset += first * pitch;
  int64_t left = arena - bytes - offset;
  if (bytes > arena || offset > arena || left < 0)
    return op.emitOpError("a buffer of ")
           << bytes << " bytes at offset " << offset << " does not fit in the " << arena
           << " bytes of the " << (symmetric ? "symmetric arena" : "arena");
  auto places = static_cast<uint32_t>(
      pitch ? std::clamp<int64_t>(code->workers - first, 0, left / pitch + 1) : 1);
  Allocation allocation{op,         code->layouts.intern(*layout),
                        pitch != 0, static_cast<uint32_t>(first),
                        places,     static_cast<uint32_t>(code->buffers.size())};
  uint32_t number = name(op, "alloc");
  for (uint32_t worker = 0; worker < places; ++worker)
    code->buffers.push_back({symmetric ? sp::Space::symmetric : sp::Space::arena, 0,
                             offset + pitch * worker, bytes, number});
  Instr &instr = emitResult(op, Opcode::Alloc);
  instr.a = code->allocations.size();
  instr.e = slot(op.getStream());
  code->allocations.push_back(allocation);
  return success();
}

} // namespace tandem::target
